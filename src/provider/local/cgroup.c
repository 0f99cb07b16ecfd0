#include "provider/local/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/own.h"
#include "base/path.h"

#define OUR_FOLDER    "anybox"
#define PERIOD_US     100000
#define PIDS_OWN      8 /* beside the payload: boxinit itself and its file workers */
#define REMOVE_MS     2000
#define REMOVE_GAP_MS 5
#define TEXT_MAX      (1u << 20)
#define DEPTH_MAX     32
#define MAKE_TRIES    10

/* ---- small files ---------------------------------------------------------------------- */

static const char *file_in(struct arena *a, struct str dir, const char *file)
{
    return arena_printf(a, "%.*s/%s", STR_ARG(dir), file).p;
}

static bool put(struct arena *a, struct str dir, const char *file, struct str value)
{
    int fd own_fd = open(file_in(a, dir, file), O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    return write(fd, value.p, value.len) == (ssize_t)value.len;
}

static bool put_number(struct arena *a, struct str dir, const char *file, int64_t value)
{
    return put(a, dir, file, arena_printf(a, "%lld", (long long)value));
}

static bool exists(struct arena *a, struct str dir, const char *file)
{
    return access(file_in(a, dir, file), F_OK) == 0;
}

static struct str get(struct arena *a, struct str dir, const char *file)
{
    struct str text = STR_EMPTY;
    struct err ignored;
    if (fd_read_file(AT_FDCWD, file_in(a, dir, file), TEXT_MAX, a, &text, &ignored) < 0) {
        return STR_EMPTY;
    }
    return str_trim(text);
}

static bool make_dir(struct str dir)
{
    return mkdir(dir.p, 0755) == 0 || errno == EEXIST;
}

/* Our folder goes with its last box, perhaps just now: then it is made again. */
static bool make_both(struct str ours, struct str dir)
{
    for (int i = 0; i < MAKE_TRIES; i++) {
        if (!make_dir(ours)) {
            return false;
        }
        if (make_dir(dir)) {
            return true;
        }
        if (errno != ENOENT) {
            return false;
        }
    }
    return false;
}

/* ---- one controller ------------------------------------------------------------------- */

static bool wanted(const struct limits *want, enum controller c)
{
    switch (c) {
    case CONTROL_MEMORY: return want->memory_bytes > 0;
    case CONTROL_CPU: return want->cpu_millis > 0;
    case CONTROL_PIDS: return want->pids > 0;
    case CONTROLS: break;
    }
    return false;
}

static bool set_v1(struct arena *a, struct str dir, enum controller c, const struct limits *want)
{
    if (c == CONTROL_CPU) {
        return put_number(a, dir, "cpu.cfs_period_us", PERIOD_US) &&
               put_number(a, dir, "cpu.cfs_quota_us", (int64_t)want->cpu_millis * PERIOD_US / 1000);
    }
    if (c == CONTROL_PIDS) {
        return put_number(a, dir, "pids.max", (int64_t)want->pids + PIDS_OWN);
    }
    if (!put_number(a, dir, "memory.limit_in_bytes", want->memory_bytes)) {
        return false;
    }
    /* Without swap accounting the best we can do is to ask not to swap. */
    (void)put_number(a, dir, "memory.memsw.limit_in_bytes", want->memory_bytes);
    (void)put_number(a, dir, "memory.swappiness", 0);
    return true;
}

static bool set_v2(struct arena *a, struct str dir, enum controller c, const struct limits *want)
{
    if (c == CONTROL_CPU) {
        struct str quota =
            arena_printf(a, "%lld %d", (long long)want->cpu_millis * PERIOD_US / 1000, PERIOD_US);
        return put(a, dir, "cpu.max", quota);
    }
    if (c == CONTROL_PIDS) {
        return put_number(a, dir, "pids.max", (int64_t)want->pids + PIDS_OWN);
    }
    if (!put_number(a, dir, "memory.max", want->memory_bytes)) {
        return false;
    }
    (void)put_number(a, dir, "memory.swap.max", 0);
    return true;
}

static bool has_dir(const struct cgroup_set *set, struct str dir)
{
    for (size_t i = 0; i < set->n_dirs; i++) {
        if (str_eq(set->dirs[i], dir)) {
            return true;
        }
    }
    return false;
}

static void add_dir(struct cgroup_set *set, struct str dir)
{
    if (!has_dir(set, dir)) {
        set->dirs[set->n_dirs++] = dir;
    }
}

/* ---- version 1 ------------------------------------------------------------------------ */

static void make_v1(struct arena *a, const struct cgroup_at *at, struct str id, enum controller c,
                    const struct limits *want, struct cgroup_set *out)
{
    struct str ours = arena_printf(a, "%.*s/%s", STR_ARG(at->own), OUR_FOLDER);
    struct str dir = arena_printf(a, "%.*s/%.*s", STR_ARG(ours), STR_ARG(id));
    if (!make_both(ours, dir)) {
        return;
    }
    if (!set_v1(a, dir, c, want)) {
        if (!has_dir(out, dir)) {
            (void)rmdir(dir.p);
            (void)rmdir(ours.p);
        }
        return;
    }
    add_dir(out, dir);
    out->version[c] = 1;
    if (c == CONTROL_MEMORY) {
        out->oom_file = str_from(file_in(a, dir, "memory.oom_control"));
        out->memory_file = str_from(file_in(a, dir, "memory.usage_in_bytes"));
    }
}

/* ---- version 2 ------------------------------------------------------------------------ */

static const char *const v2_names[CONTROLS] = {
    [CONTROL_MEMORY] = "memory", [CONTROL_CPU] = "cpu", [CONTROL_PIDS] = "pids"};
static const char *const v2_files[CONTROLS] = {
    [CONTROL_MEMORY] = "memory.max", [CONTROL_CPU] = "cpu.max", [CONTROL_PIDS] = "pids.max"};

static bool lists(struct str words, const char *name)
{
    while (words.len > 0) {
        if (str_eq(str_cut(words, ' ', &words), str_from(name))) {
            return true;
        }
    }
    return false;
}

/* Hands a controller down to the children of `dir`; true when they have it. */
static bool hand_down(struct arena *a, struct str dir, const char *name)
{
    if (lists(get(a, dir, "cgroup.subtree_control"), name)) {
        return true;
    }
    return lists(get(a, dir, "cgroup.controllers"), name) &&
           put(a, dir, "cgroup.subtree_control", arena_printf(a, "+%s", name));
}

/* True when a cgroup for the box was made below `top`. */
static bool make_v2_at(struct arena *a, struct str top, struct str id, const struct limits *want,
                       struct cgroup_set *out)
{
    bool have[CONTROLS] = {false};
    bool any = false;
    if (faccessat(AT_FDCWD, file_in(a, top, "cgroup.procs"), W_OK, AT_EACCESS) < 0) {
        return false;
    }
    for (int c = 0; c < CONTROLS; c++) {
        have[c] = out->version[c] == 0 && wanted(want, (enum controller)c) &&
                  hand_down(a, top, v2_names[c]);
        any = any || have[c];
    }
    struct str ours = arena_printf(a, "%.*s/%s", STR_ARG(top), OUR_FOLDER);
    struct str dir = arena_printf(a, "%.*s/%.*s", STR_ARG(ours), STR_ARG(id));
    /* The box's own is made first, so that our folder stays. */
    if (!any || !make_both(ours, dir)) {
        return false;
    }
    any = false;
    for (int c = 0; c < CONTROLS; c++) {
        if (have[c] && hand_down(a, ours, v2_names[c]) && exists(a, dir, v2_files[c]) &&
            set_v2(a, dir, (enum controller)c, want)) {
            out->version[c] = 2;
            any = true;
        }
    }
    if (!any) {
        (void)rmdir(dir.p);
        (void)rmdir(ours.p);
        return false;
    }
    add_dir(out, dir);
    if (out->version[CONTROL_MEMORY] == 2) {
        out->oom_file = str_from(file_in(a, dir, "memory.events"));
        out->memory_file = str_from(file_in(a, dir, "memory.current"));
    }
    return true;
}

static void make_v2(struct arena *a, const struct cgroup_at *at, struct str id,
                    const struct limits *want, struct cgroup_set *out)
{
    struct str top = at->own;
    for (int i = 0; i < DEPTH_MAX; i++) {
        if (make_v2_at(a, top, id, want, out) || top.len <= at->mount.len) {
            return;
        }
        top = path_dir(top);
    }
}

/* ---- all ------------------------------------------------------------------------------ */

void cgroup_make(struct arena *a, const struct cgroup_host *host, struct str id,
                 const struct limits *want, struct cgroup_set *out)
{
    *out = (struct cgroup_set){0};
    bool left = false;
    for (int c = 0; c < CONTROLS; c++) {
        if (!wanted(want, (enum controller)c)) {
            continue;
        }
        if (host->v1[c].mount.len > 0) {
            make_v1(a, &host->v1[c], id, (enum controller)c, want, out);
        }
        left = left || out->version[c] == 0;
    }
    if (left && host->v2.mount.len > 0 && out->n_dirs < CGROUPS_MAX) {
        make_v2(a, &host->v2, id, want, out);
    }
}

struct str cgroup_text(const struct cgroup_set *set)
{
    bool one = false;
    bool two = false;
    for (int c = 0; c < CONTROLS; c++) {
        one = one || set->version[c] == 1;
        two = two || set->version[c] == 2;
    }
    if (one && two) {
        return S("cgroup v1 and v2");
    }
    if (one) {
        return S("cgroup v1");
    }
    return two ? S("cgroup v2") : STR_EMPTY;
}

bool cgroup_is_ours(struct str dir, struct str id)
{
    struct str above = path_dir(dir);
    return id.len > 0 && path_is_absolute(dir) && str_eq(path_base(dir), id) &&
           str_eq(path_base(above), S(OUR_FOLDER));
}

static void kill_all(struct arena *a, struct str dir)
{
    if (put(a, dir, "cgroup.kill", S("1"))) {
        return;
    }
    struct str pids = get(a, dir, "cgroup.procs");
    while (pids.len > 0) {
        int64_t pid = 0;
        struct err ignored;
        if (str_to_i64(str_cut(pids, '\n', &pids), 2, INT32_MAX, &pid, &ignored) == 0) {
            (void)kill((pid_t)pid, SIGKILL);
        }
    }
}

int cgroup_remove(const struct ctx *ctx, struct str dir, struct err *e)
{
    struct ctx quiet = {.arena = ctx->arena};
    const char *path = arena_cstr(ctx->arena, dir);
    int64_t until_ms = clock_mono_ms() + REMOVE_MS;
    for (;;) {
        if (rmdir(path) == 0 || errno == ENOENT) {
            /* Works for the last box only. */
            (void)rmdir(arena_cstr(ctx->arena, path_dir(dir)));
            return 0;
        }
        if (errno != EBUSY || clock_mono_ms() >= until_ms) {
            return err_sys(e, errno, "cannot remove the cgroup %s", path);
        }
        kill_all(ctx->arena, dir);
        if (ctx_wait(&quiet, NULL, 0, clock_mono_ms() + REMOVE_GAP_MS, e) < 0) {
            return -1;
        }
    }
}
