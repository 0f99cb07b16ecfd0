#include "provider/local/cgroup.h"

#include <dirent.h>
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
#include "provider/local/local.h"

#define OUR_FOLDER    "anybox"
#define PERIOD_US     100000
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

static struct str get(struct arena *a, struct str dir, const char *file)
{
    struct str text = STR_EMPTY;
    struct err ignored;
    if (fd_read_file(AT_FDCWD, file_in(a, dir, file), TEXT_MAX, a, &text, &ignored) < 0) {
        return STR_EMPTY;
    }
    return str_trim(text);
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
    if (c == CONTROL_CPU && want->cpu_millis == 0) {
        return true;
    }
    if (c == CONTROL_CPU) {
        return put_number(a, dir, "cpu.cfs_period_us", PERIOD_US) &&
               put_number(a, dir, "cpu.cfs_quota_us", (int64_t)want->cpu_millis * PERIOD_US / 1000);
    }
    if (c == CONTROL_PIDS) {
        return put_number(a, dir, "pids.max", (int64_t)want->pids + CGROUP_PIDS_OWN);
    }
    /* The second one may not be below the first at any time. Without swap accounting the best
     * we can do is to ask not to swap. */
    (void)put_number(a, dir, "memory.memsw.limit_in_bytes", -1);
    if (!put_number(a, dir, "memory.limit_in_bytes", want->memory_bytes)) {
        return false;
    }
    (void)put_number(a, dir, "memory.memsw.limit_in_bytes", want->memory_bytes);
    (void)put_number(a, dir, "memory.swappiness", 0);
    return true;
}

static bool set_v2(struct arena *a, struct str dir, enum controller c, const struct limits *want)
{
    if (c == CONTROL_CPU && want->cpu_millis == 0) {
        return true;
    }
    if (c == CONTROL_CPU) {
        struct str quota =
            arena_printf(a, "%lld %d", (long long)want->cpu_millis * PERIOD_US / 1000, PERIOD_US);
        return put(a, dir, "cpu.max", quota);
    }
    if (c == CONTROL_PIDS) {
        return put_number(a, dir, "pids.max", (int64_t)want->pids + CGROUP_PIDS_OWN);
    }
    if (!put_number(a, dir, "memory.max", want->memory_bytes)) {
        return false;
    }
    (void)put_number(a, dir, "memory.swap.max", 0);
    return true;
}

/* ---- what limits us ourselves ------------------------------------------------------------ */

static int64_t least_above(struct arena *a, const struct cgroup_at *at, const char *file)
{
    int64_t least = INT64_MAX;
    struct str dir = at->own;
    for (int i = 0; i < DEPTH_MAX && dir.len >= at->mount.len && dir.len > 0; i++) {
        int64_t value = 0;
        struct err ignored;
        if (str_to_i64(get(a, dir, file), 1, INT64_MAX, &value, &ignored) == 0 && value < least) {
            least = value;
        }
        dir = path_dir(dir);
    }
    return least;
}

int64_t cgroup_memory_most(struct arena *a, const struct cgroup_host *host)
{
    int64_t one = least_above(a, &host->v1[CONTROL_MEMORY], "memory.limit_in_bytes");
    /* Only the top, which is a container's own: boxes need not be below our own cgroup. */
    const struct cgroup_at top = {host->v2.mount, host->v2.mount};
    int64_t two = least_above(a, &top, "memory.max");
    return one < two ? one : two;
}

/* ---- the plan --------------------------------------------------------------------------- */

static const char *const v2_names[CONTROLS] = {
    [CONTROL_MEMORY] = "memory", [CONTROL_CPU] = "cpu", [CONTROL_PIDS] = "pids"};

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

static bool can_write(struct arena *a, struct str dir)
{
    return faccessat(AT_FDCWD, file_in(a, dir, "cgroup.procs"), W_OK, AT_EACCESS) == 0;
}

static void add_dir(struct cgroup_set *set, struct str dir)
{
    for (size_t i = 0; i < set->n_dirs; i++) {
        if (str_eq(set->dirs[i], dir)) {
            return;
        }
    }
    set->dirs[set->n_dirs++] = dir;
}

static void choose(struct str dir, enum controller c, int version, struct cgroup_set *out)
{
    out->dir[c] = dir;
    out->version[c] = version;
    add_dir(out, dir);
}

static struct str folder_in(struct arena *a, struct str top, struct str id)
{
    return arena_printf(a, "%.*s/" OUR_FOLDER "/%.*s", STR_ARG(top), STR_ARG(id));
}

/* True when `top` can give its children at least one of the controllers that are still
 * without a place. Processes are moved within the tree below it, so its list of processes
 * has to be writable. */
static bool choose_v2(struct arena *a, struct str top, struct str id, const struct limits *want,
                      struct cgroup_set *out)
{
    bool any = false;
    if (!can_write(a, top)) {
        return false;
    }
    for (int c = 0; c < CONTROLS; c++) {
        if (out->version[c] == 0 && wanted(want, (enum controller)c) &&
            hand_down(a, top, v2_names[c])) {
            choose(folder_in(a, top, id), (enum controller)c, 2, out);
            any = true;
        }
    }
    if (any && out->version[CONTROL_CPU] == 0 && hand_down(a, top, v2_names[CONTROL_CPU])) {
        choose(folder_in(a, top, id), CONTROL_CPU, 2, out);
    }
    return any;
}

/* True when the user's manager can give a scope at least one of them. */
static bool choose_scope(struct arena *a, const struct scope_manager *manager, struct str id,
                         const struct limits *want, struct cgroup_set *out)
{
    struct str given =
        manager->dir.len > 0 ? get(a, manager->dir, "cgroup.controllers") : STR_EMPTY;
    struct str dir = scope_dir(a, manager, id);
    bool any = false;
    for (int c = 0; c < CONTROLS; c++) {
        if (out->version[c] == 0 && wanted(want, (enum controller)c) && lists(given, v2_names[c])) {
            choose(dir, (enum controller)c, 2, out);
            any = true;
        }
    }
    if (any) {
        out->manager = *manager;
    }
    return any;
}

void cgroup_plan(struct arena *a, const struct cgroup_host *host, struct str id,
                 const struct limits *want, struct cgroup_set *out)
{
    *out = (struct cgroup_set){0};
    for (int c = 0; c < CONTROLS; c++) {
        const struct cgroup_at *at = &host->v1[c];
        if ((wanted(want, (enum controller)c) || c == CONTROL_CPU) && at->mount.len > 0 &&
            faccessat(AT_FDCWD, arena_cstr(a, at->own), W_OK | X_OK, AT_EACCESS) == 0) {
            choose(folder_in(a, at->own, id), (enum controller)c, 1, out);
        }
    }
    if ((host->v2.mount.len > 0 && choose_v2(a, host->v2.mount, id, want, out)) ||
        choose_scope(a, &host->manager, id, want, out)) {
        return;
    }
    struct str top = host->v2.own;
    for (int i = 0; i < DEPTH_MAX && top.len > 0; i++) {
        if (choose_v2(a, top, id, want, out) || top.len <= host->v2.mount.len) {
            return;
        }
        top = path_dir(top);
    }
}

/* ---- making ----------------------------------------------------------------------------- */

/* Our folder goes with its last box, perhaps just now: then it is made again. */
static bool make_both(struct arena *a, struct str dir)
{
    const char *ours = arena_cstr(a, path_dir(dir));
    const char *path = arena_cstr(a, dir);
    for (int i = 0; i < MAKE_TRIES; i++) {
        if (mkdir(path, 0755) == 0 || errno == EEXIST) {
            return true;
        }
        if (errno != ENOENT || (mkdir(ours, 0755) < 0 && errno != EEXIST)) {
            return false;
        }
    }
    return false;
}

static bool set_one(struct arena *a, enum controller c, const struct limits *want,
                    const struct cgroup_set *set)
{
    return set->version[c] == 1 ? set_v1(a, set->dir[c], c, want) : set_v2(a, set->dir[c], c, want);
}

bool cgroup_limit(struct arena *a, const struct limits *want, const struct cgroup_set *set)
{
    bool all = true;
    for (int c = 0; c < CONTROLS; c++) {
        if (set->version[c] != 0 && wanted(want, (enum controller)c)) {
            all = set_one(a, (enum controller)c, want, set) && all;
        }
    }
    return all;
}

static bool enforce(struct arena *a, enum controller c, const struct limits *want,
                    const struct cgroup_set *set)
{
    if (!make_both(a, set->dir[c])) {
        return false;
    }
    if (set->version[c] == 1) {
        return set_one(a, c, want, set);
    }
    /* systemd takes a controller back from where no unit of its own uses it, until a folder
     * of ours hands it down in turn: perhaps since it was planned. */
    struct str ours = path_dir(set->dir[c]);
    return hand_down(a, path_dir(ours), v2_names[c]) && hand_down(a, ours, v2_names[c]) &&
           set_one(a, c, want, set);
}

static void name_files(struct arena *a, struct cgroup_set *set)
{
    int version = set->version[CONTROL_MEMORY];
    struct str dir = set->dir[CONTROL_MEMORY];
    if (set->version[CONTROL_PIDS] != 0) {
        set->pids_file = str_from(file_in(a, set->dir[CONTROL_PIDS], "pids.events"));
    }
    if (version == 0) {
        return;
    }
    set->oom_file =
        str_from(file_in(a, dir, version == 1 ? "memory.oom_control" : "memory.events"));
    set->memory_file =
        str_from(file_in(a, dir, version == 1 ? "memory.usage_in_bytes" : "memory.current"));
}

static void rmdir_both(struct arena *a, struct str dir)
{
    (void)rmdir(arena_cstr(a, dir));
    (void)rmdir(arena_cstr(a, path_dir(dir)));
}

void cgroup_make(struct arena *a, const struct limits *want, struct cgroup_set *set)
{
    struct cgroup_set made = {.manager = set->manager};
    for (int c = 0; c < CONTROLS; c++) {
        bool is_scope = set->manager.dir.len > 0 && set->version[c] == 2;
        if (set->version[c] != 0 && (is_scope || enforce(a, (enum controller)c, want, set))) {
            made.version[c] = set->version[c];
            made.dir[c] = set->dir[c];
            add_dir(&made, made.dir[c]);
        }
    }
    for (size_t i = 0; i < set->n_dirs; i++) {
        size_t before = made.n_dirs;
        add_dir(&made, set->dirs[i]);
        if (made.n_dirs > before) {
            rmdir_both(a, set->dirs[i]);
            made.n_dirs = before;
        }
    }
    name_files(a, &made);
    *set = made;
}

bool cgroup_check_scope(struct arena *a, const struct cgroup_set *set)
{
    static const char *const files[CONTROLS] = {
        [CONTROL_MEMORY] = "memory.max", [CONTROL_CPU] = "cpu.max", [CONTROL_PIDS] = "pids.max"};
    for (int c = 0; c < CONTROLS; c++) {
        if (set->version[c] != 2) {
            continue;
        }
        struct str value = get(a, set->dir[c], files[c]);
        if (value.len == 0 || str_starts(value, S("max"))) {
            return false;
        }
    }
    return true;
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

bool cgroup_is_ours(struct str dir)
{
    struct str above = path_dir(dir);
    bool is_folder = path_is_absolute(dir) && local_id_ok(path_base(dir)) &&
                     str_eq(path_base(above), S(OUR_FOLDER));
    return is_folder || scope_is_ours(dir);
}

void cgroup_unthrottle(struct arena *a, struct str dir)
{
    (void)put(a, dir, "cpu.max", S("max"));
    (void)put(a, dir, "cpu.cfs_quota_us", S("-1"));
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
    bool is_folder = str_eq(path_base(path_dir(dir)), S(OUR_FOLDER));
    int64_t until_ms = clock_mono_ms() + REMOVE_MS;
    for (;;) {
        /* A scope is systemd's to remove, unless it takes too long. */
        bool late = clock_mono_ms() >= until_ms;
        bool by_us = is_folder || late;
        int rc = by_us ? rmdir(path) : access(path, F_OK);
        if ((rc == 0 && by_us) || (rc < 0 && errno == ENOENT)) {
            break;
        }
        if (rc < 0 && (late || errno != EBUSY)) {
            return err_sys(e, errno, "cannot remove the cgroup %s", path);
        }
        kill_all(ctx->arena, dir);
        if (ctx_wait(&quiet, NULL, 0, clock_mono_ms() + REMOVE_GAP_MS, e) < 0) {
            return -1;
        }
    }
    if (is_folder) {
        (void)rmdir(arena_cstr(ctx->arena, path_dir(dir))); /* works for the last box only */
    }
    return 0;
}

int cgroup_remove_of(const struct ctx *ctx, const struct cgroup_host *host, struct str id,
                     struct err *e)
{
    struct arena *a = ctx->arena;
    for (int c = 0; c < CONTROLS; c++) {
        if (host->v1[c].own.len > 0 &&
            cgroup_remove(ctx, folder_in(a, host->v1[c].own, id), e) < 0) {
            return -1;
        }
    }
    if (host->manager.dir.len > 0 && cgroup_remove(ctx, scope_dir(a, &host->manager, id), e) < 0) {
        return -1;
    }
    struct str top = host->v2.own;
    for (int i = 0; i < DEPTH_MAX && top.len > 0; i++) {
        if (cgroup_remove(ctx, folder_in(a, top, id), e) < 0) {
            return -1;
        }
        if (top.len <= host->v2.mount.len) {
            break;
        }
        top = path_dir(top);
    }
    return 0;
}

/* rmdir() refuses a cgroup with processes, so only dead boxes' go. The time of a folder is
 * never before its making. */
static void sweep_below(struct arena *a, struct str top, int64_t older_than_s)
{
    const char *ours = file_in(a, top, OUR_FOLDER);
    DIR *dir = opendir(ours);
    if (dir == NULL) {
        return;
    }
    int64_t now_s = clock_wall_ms() / 1000;
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        struct stat is;
        if (local_id_ok(str_from(entry->d_name)) &&
            fstatat(dirfd(dir), entry->d_name, &is, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISDIR(is.st_mode) && now_s - is.st_mtim.tv_sec >= older_than_s) {
            (void)unlinkat(dirfd(dir), entry->d_name, AT_REMOVEDIR);
        }
    }
    (void)closedir(dir);
    (void)rmdir(ours);
}

void cgroup_sweep(struct arena *a, const struct cgroup_host *host, int64_t older_than_s)
{
    for (int c = 0; c < CONTROLS; c++) {
        if (host->v1[c].own.len > 0) {
            sweep_below(a, host->v1[c].own, older_than_s);
        }
    }
    struct str top = host->v2.own;
    for (int i = 0; i < DEPTH_MAX && top.len > 0; i++) {
        sweep_below(a, top, older_than_s);
        if (top.len <= host->v2.mount.len) {
            return;
        }
        top = path_dir(top);
    }
}
