/*
 * Making a box: a locked folder, cgroups, a range of uids, boxinit.
 *
 * boxinit is started with an empty environment and nothing but the descriptors that
 * agent/proto.h names. It joins the cgroups, makes the namespaces, leaves PID 1
 * behind and ends; PID 1 belongs to nobody and outlives us. `info` is written twice:
 * before the start, so that whoever finds the folder after our sudden death knows
 * what to remove, and after it, with the process.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/proto.h"
#include "agent/wire.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/own.h"
#include "base/proc.h"
#include "provider/local/making.h"
#include "provider/talk.h"

#define NAME_MAX_LEN    128
#define FOLDER_TRIES    500
#define FOLDER_RETRY_MS 2

/* ---- what was asked for --------------------------------------------------------------- */

bool local_id_ok(struct str id)
{
    if (id.len != BOX_ID_SIZE - 1) {
        return false;
    }
    for (size_t i = 0; i < id.len; i++) {
        bool digit = id.p[i] >= '0' && id.p[i] <= '9';
        bool letter = id.p[i] >= 'a' && id.p[i] <= 'f';
        if (!digit && !letter) {
            return false;
        }
    }
    return true;
}

static int check_name(struct str name, struct err *e)
{
    if (name.len > NAME_MAX_LEN) {
        return err_set(e, ERR_INVALID, "the name has %zu bytes; at most %d are accepted", name.len,
                       NAME_MAX_LEN);
    }
    for (size_t i = 0; i < name.len; i++) {
        if ((unsigned char)name.p[i] < 0x20 || name.p[i] == 0x7f) {
            return err_set(e, ERR_INVALID, "the name contains a control character");
        }
    }
    return 0;
}

static int check_spec(const struct box_spec *spec, struct arena *a, struct err *e)
{
    if (!local_id_ok(spec->id)) {
        return err_set(e, ERR_BUG, "a sandbox id is 32 hex digits, not \"%.*s\"",
                       STR_ARG(str_head(spec->id, 40)));
    }
    if (spec->image.len > 0) {
        return err_set(
            e, ERR_UNSUPPORTED,
            "local sandboxes run on this machine's own system and take no image (\"%.*s\" "
            "was asked for); leave image out. Images need a docker provider, which this "
            "version does not have yet",
            STR_ARG(str_head(spec->image, 80)));
    }
    if (network_check(spec->network, a, e) < 0) {
        return -1;
    }
    if (check_name(spec->name, e) < 0) {
        return -1;
    }
    return talk_check_env(spec->env, spec->n_env, e);
}

int local_find_boxinit(const struct local *l, struct arena *a, const char **out, struct err *e)
{
    const char *beside = arena_printf(a, "%s/%s", l->program_dir, BOXINIT).p;
    const char *installed = arena_printf(a, "%s/../libexec/anybox/%s", l->program_dir, BOXINIT).p;
    if (access(beside, X_OK) == 0) {
        *out = beside;
        return 0;
    }
    if (access(installed, X_OK) == 0) {
        *out = installed;
        return 0;
    }
    return err_set(e, ERR_NOT_FOUND,
                   "the program boxinit, which runs inside local sandboxes, was found neither at "
                   "%s nor at %s; build or install anybox again",
                   beside, installed);
}

/* ---- folder, cgroups, uids ---------------------------------------------------------------- */

int local_open_boxes(const struct local *l, struct err *e)
{
    int dir = open(l->boxes_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0 && errno == ENOENT) {
        if (fd_mkdirs(l->boxes_dir, 0700, e) < 0) {
            return -1;
        }
        dir = open(l->boxes_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    if (dir < 0) {
        return err_sys(e, errno, "cannot open %s", l->boxes_dir);
    }
    return dir;
}

/* A sweep may have the lock on the new folder first, and remove it: then once more, when it
 * has had the time to. */
static int make_folder(struct making *m, struct err *e)
{
    const char *id = arena_cstr(m->ctx->arena, m->spec->id);
    for (int i = 0; i < FOLDER_TRIES; i++) {
        if (mkdirat(m->boxes, id, 0700) < 0 && (errno != EEXIST || i == 0)) {
            return err_sys(e, errno, "cannot make the sandbox's folder in %s", m->local->boxes_dir);
        }
        int dir own_fd = openat(m->boxes, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        struct stat is;
        if (dir >= 0 && flock(dir, LOCK_EX | LOCK_NB) == 0 && fstat(dir, &is) == 0 &&
            is.st_nlink > 0) {
            m->folder = take_fd(&dir);
            return 0;
        }
        if (dir < 0 && errno != ENOENT) {
            return err_sys(e, errno, "cannot open the sandbox's folder in %s", m->local->boxes_dir);
        }
        if (ctx_wait(m->ctx, NULL, 0, clock_mono_ms() + FOLDER_RETRY_MS, e) < 0) {
            return -1;
        }
    }
    return err_set(e, ERR_SYSTEM, "cannot lock the sandbox's folder in %s", m->local->boxes_dir);
}

static int unmet(struct err *e, const char *what, const char *otherwise)
{
    return err_set(e, ERR_UNSUPPORTED,
                   "%s cannot be limited here: this user may not write to any cgroup, and has no "
                   "systemd manager that could. Log in, or run \"sudo loginctl enable-linger "
                   "USER\" where systemd runs, or run anybox as root, or %s",
                   what, otherwise);
}

static void plan_cgroups(struct making *m, bool by_manager)
{
    struct cgroup_host host;
    cgroup_host_read(m->ctx->arena, &host);
    if (!by_manager) {
        cgroup_host_refused(&host);
    }
    cgroup_plan(m->ctx->arena, &host, m->spec->id, &m->meta.limits, &m->cgroups);
    m->meta.n_cgroups = 0;
    for (size_t i = 0; i < m->cgroups.n_dirs; i++) {
        m->meta.cgroups[m->meta.n_cgroups++] = m->cgroups.dirs[i];
    }
}

/* Makes the cgroups; what they do not enforce is an rlimit or not in force. */
static int make_cgroups(struct making *m, struct limits *rlimits, struct err *e)
{
    struct limits *force = &m->meta.limits;
    cgroup_make(m->ctx->arena, force, &m->cgroups);
    const int *version = m->cgroups.version;
    if (version[CONTROL_CPU] == 0) {
        if (m->spec->limits.cpu_millis > 0) {
            return unmet(e, "cpus", "leave cpus out");
        }
        force->cpu_millis = 0;
    }
    rlimits->memory_bytes = version[CONTROL_MEMORY] == 0 ? force->memory_bytes : 0;
    rlimits->pids = version[CONTROL_PIDS] == 0 ? force->pids : 0;
    rlimits->open_files = force->open_files;
    return 0;
}

static struct str tier_text(const struct making *m)
{
    static const char *const who[] = {
        [UID_ONE] = "user", [UID_ROOT] = "root", [UID_SUBUIDS] = "user with subuids"};
    struct str groups = cgroup_text(&m->cgroups);
    bool per_process = m->cgroups.version[CONTROL_MEMORY] == 0;
    return arena_printf(m->ctx->arena, "%s, %.*s%s%s", who[m->uids.mode], STR_ARG(groups),
                        groups.len > 0 && per_process ? ", " : "",
                        per_process ? "rlimits (memory per process)" : "");
}

/* ---- all of it -------------------------------------------------------------------------------- */

/* Takes back what was made. The reason for it is the caller's to tell. */
static void undo(struct making *m)
{
    struct ctx quiet = {.arena = m->ctx->arena};
    struct err ignored;
    int status = 0;
    bool unknown = m->outer > 0;
    if (m->outer > 0) {
        (void)kill(m->outer, SIGKILL);
        (void)!proc_wait(&quiet, m->outer, &status, &ignored);
    }
    if (m->meta.pid > 0) {
        unknown = local_kill(&m->meta, &quiet, &ignored) < 0;
    }
    /* A PID 1 that has reported, but not to us, serves already. One that has not ends by
     * itself when nobody is there to take its report. */
    if (unknown) {
        local_end_unknown(m->local, &quiet, m->folder, m->spec->id);
    }
    drop_fd(&m->uids.lock);
    if (m->folder >= 0) {
        (void)!local_remove(m->local, &quiet, m->spec->id, &m->meta, &ignored);
    }
}

/* With its limits, by the user's systemd manager if there is one. */
static int start(struct making *m, const char *program, bool by_manager, struct err *e)
{
    struct limits rlimits = {0};
    plan_cgroups(m, by_manager);
    if (meta_save(m->folder, &m->meta, e) < 0 || make_cgroups(m, &rlimits, e) < 0 ||
        making_start(m, program, &rlimits, e) < 0) {
        return -1;
    }
    if (m->cgroups.manager.dir.len > 0 && !cgroup_check_scope(m->ctx->arena, &m->cgroups)) {
        return err_set(e, ERR_SYSTEM,
                       "systemd made a scope for the sandbox, but without its limits; see "
                       "\"systemctl --user status\"");
    }
    return 0;
}

static int make(struct making *m, struct err *e)
{
    struct arena *a = m->ctx->arena;
    const char *program = NULL;
    if (check_spec(m->spec, a, e) < 0 || local_find_boxinit(m->local, a, &program, e) < 0 ||
        limits_settle(&m->spec->limits, &m->local->defaults, a, &m->meta.limits, e) < 0) {
        return -1;
    }
    m->boxes = local_open_boxes(m->local, e);
    if (m->boxes < 0 || make_folder(m, e) < 0 || uids_take(a, &m->uids, e) < 0) {
        return -1;
    }
    m->meta.name = m->spec->name;
    m->meta.boot = proc_boot_id(a);
    m->meta.network = m->spec->network;
    m->meta.uid_base = m->uids.mode == UID_ONE ? 0 : m->uids.uid;
    m->meta.created_at = clock_wall_ms() / 1000;
    if (m->meta.limits.lifetime_s > 0) {
        m->meta.expires_at = m->meta.created_at + m->meta.limits.lifetime_s;
    }
    int rc = start(m, program, true, e);
    if (rc < 0 && m->refused) {
        log_line(LOG_INFO, "local", "systemd-run --user made no scope; going on without");
        rc = start(m, program, false, e);
    }
    if (rc < 0) {
        return -1;
    }
    m->meta.tier = tier_text(m);
    return meta_save(m->folder, &m->meta, e);
}

static void making_fini(struct making *m)
{
    drop_fd(&m->boxes);
    drop_fd(&m->folder);
    drop_fd(&m->uids.lock);
}

struct box *local_create(struct provider *p, const struct ctx *ctx, const struct box_spec *spec,
                         struct err *e)
{
    struct making m CLEANUP(making_fini) = {.local = local_of(p),
                                            .ctx = ctx,
                                            .spec = spec,
                                            .boxes = -1,
                                            .folder = -1,
                                            .uids = {.lock = -1}};
    if (make(&m, e) < 0) {
        undo(&m);
        return NULL;
    }
    int folder = openat(m.folder, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) {
        (void)err_sys(e, errno, "cannot open the sandbox's folder");
        undo(&m);
        return NULL;
    }
    return local_box_new(m.local, spec->id, folder, &m.meta);
}
