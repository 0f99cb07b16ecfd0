/* Blanks: what is made around boxinit, and undone. The theory is in blank.h. */
#include "provider/local/blank.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "agent/proto.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/own.h"
#include "base/path.h"
#include "base/proc.h"
#include "provider/local/obstacle.h"

#define FOLDER_TRIES    500
#define FOLDER_RETRY_MS 2
#define ARENA_MAX       (4u << 20)
#define SAID_MAX        4096

/* ---- making -------------------------------------------------------------------------------- */

/* As ext4 names it: after the device, with the number of the journal's inode. */
static bool has_journal(int dir)
{
    char device[64];
    char target[PATH_MAX_BYTES];
    char journal[PATH_MAX_BYTES + 32];
    struct stat is;
    if (fstat(dir, &is) < 0) {
        return false;
    }
    (void)snprintf(device, sizeof(device), "/sys/dev/block/%u:%u", major(is.st_dev),
                   minor(is.st_dev));
    ssize_t n = readlink(device, target, sizeof(target));
    if (n <= 0) {
        return false;
    }
    struct str name = path_base((struct str){target, (size_t)n});
    (void)snprintf(journal, sizeof(journal), "/proc/fs/jbd2/%.*s-8", STR_ARG(name));
    return access(journal, F_OK) == 0;
}

/* ext4 without a journal looks at every inode that was freed in the last minutes, in the part
 * of the disk where the folder is, before it takes one: that takes longer than to make a
 * box. Of a folder with this mark the folders inside are spread over all parts. To choose one
 * of them takes a look at all, which on a large disk is long, too: so only there. Other file
 * systems do not know it. */
static void spread(int dir)
{
    int flags = 0;
    if (!has_journal(dir) && ioctl(dir, FS_IOC_GETFLAGS, &flags) == 0) {
        flags |= FS_TOPDIR_FL;
        (void)ioctl(dir, FS_IOC_SETFLAGS, &flags);
    }
}

int local_open_dir(const char *path, struct err *e)
{
    int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0 && errno == ENOENT) {
        if (fd_mkdirs(path, 0700, e) < 0) {
            return -1;
        }
        dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        spread(dir);
    }
    if (dir < 0) {
        return err_sys(e, errno, "cannot open %s", path);
    }
    return dir;
}

/* A sweep may have the lock on the new folder first, and remove it: then once more, when it
 * has had the time to. */
static int make_folder(struct blank *b, const struct ctx *ctx, struct err *e)
{
    int home own_fd = local_open_dir(b->home, e);
    if (home < 0) {
        return -1;
    }
    for (int i = 0; i < FOLDER_TRIES; i++) {
        if (mkdirat(home, b->id, 0700) < 0 && (errno != EEXIST || i == 0)) {
            return err_sys(e, errno, "cannot make the sandbox's folder in %s", b->home);
        }
        int dir own_fd = openat(home, b->id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        struct stat is;
        if (dir >= 0 && flock(dir, LOCK_EX | LOCK_NB) == 0 && fstat(dir, &is) == 0 &&
            is.st_nlink > 0) {
            b->folder = take_fd(&dir);
            return 0;
        }
        if (dir < 0 && errno != ENOENT) {
            return err_sys(e, errno, "cannot open the sandbox's folder in %s", b->home);
        }
        if (ctx_wait(ctx, NULL, 0, clock_mono_ms() + FOLDER_RETRY_MS, e) < 0) {
            return -1;
        }
    }
    return err_set(e, ERR_SYSTEM, "cannot lock the sandbox's folder in %s", b->home);
}

/* With its cgroups, by the user's systemd manager if there is one. */
static int start(struct blank *b, const struct ctx *ctx, const char *program, bool by_manager,
                 struct err *e)
{
    struct cgroup_host host = b->here->cgroups;
    if (!by_manager) {
        cgroup_host_refused(&host);
    }
    cgroup_plan(&b->arena, &host, str_from(b->id), &b->kind.limits, &b->cgroups);
    cgroup_make(&b->arena, &b->kind.limits, &b->cgroups);
    if (blank_start(b, ctx, program, e) < 0) {
        return -1;
    }
    if (b->cgroups.manager.dir.len > 0 && !cgroup_check_scope(&b->arena, &b->cgroups)) {
        return err_set(e, ERR_SYSTEM,
                       "systemd made a scope for the sandbox, but without its limits; see "
                       "\"systemctl --user status\"");
    }
    return 0;
}

/* Files of /etc are shown one by one: a new one in the place of an old one is not seen. */
static struct timespec view_now(void)
{
    struct stat is;
    return stat("/etc", &is) == 0 ? is.st_mtim : (struct timespec){0};
}

static int make(struct blank *b, const struct ctx *ctx, struct err *e)
{
    const char *program = NULL;
    b->view = view_now();
    b->scoped = facts_landlock() >= LANDLOCK_ABI_SCOPES;
    b->here = snapshot_get(&b->local->snapshots, e);
    if (b->here == NULL || local_find_boxinit(b->local, &b->arena, &program, e) < 0 ||
        make_folder(b, ctx, e) < 0 || uids_take(&b->here->uids, &b->uids, e) < 0) {
        return -1;
    }
    int rc = start(b, ctx, program, true, e);
    if (rc < 0 && b->refused) {
        log_line(LOG_INFO, "local", "systemd-run --user made no scope; going on without");
        rc = start(b, ctx, program, false, e);
    }
    drop_fd(&b->uids.lock); /* PID 1 has it, too */
    return rc == 0 && b->in_advance ? blank_prepare(b, ctx, e) : rc;
}

struct blank *blank_make(struct local *l, const struct ctx *ctx, const struct blank_kind *kind,
                         const char *home, struct str id, struct err *e)
{
    struct blank *b = xcalloc(1, sizeof *b);
    *b = (struct blank){
        .local = l, .home = home, .folder = -1, .kind = *kind, .uids = {.lock = -1}, .control = -1};
    memcpy(b->id, id.p, BOX_ID_SIZE - 1);
    arena_init(&b->arena, ARENA_MAX);
    b->kind.image = arena_str(&b->arena, kind->image);
    b->in_advance = home == l->pool_dir;
    buf_init(&b->said, SAID_MAX);
    if (make(b, ctx, e) < 0) {
        blank_undo(b);
        blank_free(b);
        return NULL;
    }
    return b;
}

/* ---- the end of it ---------------------------------------------------------------------------- */

static struct meta meta_of(struct blank *b)
{
    struct meta m = {.boot = b->here != NULL ? b->here->boot : proc_boot_id(&b->arena),
                     .pid = b->pid,
                     .start = b->start,
                     .network = b->kind.network,
                     .image = b->kind.image,
                     .uid_base = b->uids.mode == UID_ONE ? 0 : b->uids.uid};
    for (size_t i = 0; i < b->cgroups.n_dirs; i++) {
        m.cgroups[m.n_cgroups++] = b->cgroups.dirs[i];
    }
    return m;
}

void blank_undo(struct blank *b)
{
    struct ctx quiet = {.arena = &b->arena};
    struct meta m = meta_of(b);
    struct err ignored;
    int status = 0;
    drop_fd(&b->control); /* without it no PID 1 comes to serve */
    drop_fd(&b->uids.lock);
    if (b->outer > 0) {
        (void)kill(b->outer, SIGKILL);
        (void)!proc_wait(&quiet, b->outer, &status, &ignored);
        b->outer = 0;
    }
    (void)!local_kill(&m, &quiet, &ignored);
    if (b->folder >= 0) {
        (void)!local_remove(b->home, &quiet, str_from(b->id), &m, &ignored);
    }
    drop_fd(&b->folder);
}

void blank_free(struct blank *b)
{
    drop_fd(&b->control);
    drop_fd(&b->folder);
    drop_fd(&b->uids.lock);
    buf_fini(&b->said);
    snapshot_unref(b->here);
    arena_fini(&b->arena);
    free(b);
}

/* ---- claiming ----------------------------------------------------------------------------------- */

static bool same_groups(const struct limits *a, const struct limits *b)
{
    return a->memory_bytes == b->memory_bytes && a->cpu_millis == b->cpu_millis &&
           a->pids == b->pids;
}

bool blank_fits(const struct blank *b, const struct limits *limits)
{
    struct pollfd says = {.fd = b->control, .events = POLLIN};
    struct timespec now = view_now();
    if (poll(&says, 1, 0) != 0 || now.tv_sec != b->view.tv_sec || now.tv_nsec != b->view.tv_nsec) {
        return false;
    }
    if (same_groups(&b->kind.limits, limits)) {
        return true;
    }
    /* The limits of a scope are systemd's to change. */
    return b->cgroups.manager.dir.len == 0 &&
           (limits->cpu_millis == 0 || b->cgroups.version[CONTROL_CPU] != 0);
}

static int unmet(struct blank *b, const char *what, const char *otherwise, struct err *e)
{
    struct facts facts;
    facts_read(&b->arena, NULL, &facts);
    struct str fix = obstacle_cgroups_fix(&facts, &b->arena);
    return err_set(e, ERR_UNSUPPORTED,
                   "%s cannot be limited here: there is no cgroup for it that this user may write "
                   "to" OBSTACLE_FIX "%.*s; or %s",
                   what, STR_ARG(fix), otherwise);
}

/* What the cgroups do not enforce is an rlimit or not in force. */
static int settle_limits(struct blank *b, const struct limits *asked, struct limits *force,
                         struct err *e)
{
    if (!same_groups(&b->kind.limits, force) && !cgroup_limit(&b->arena, force, &b->cgroups)) {
        return err_set(e, ERR_SYSTEM, "cannot set the limits of the sandbox's cgroups");
    }
    if (b->cgroups.version[CONTROL_CPU] == 0) {
        if (asked->cpu_millis > 0) {
            return unmet(b, "cpus", "leave cpus out", e);
        }
        force->cpu_millis = 0;
    }
    return 0;
}

static struct str tier_text(struct blank *b)
{
    static const char *const who[] = {
        [UID_ONE] = "user", [UID_ROOT] = "root", [UID_SUBUIDS] = "user with subuids"};
    struct str groups = cgroup_text(&b->cgroups);
    bool per_process = b->cgroups.version[CONTROL_MEMORY] == 0;
    return arena_printf(&b->arena, "%s, %.*s%s%s%s", who[b->uids.mode], STR_ARG(groups),
                        groups.len > 0 && per_process ? ", " : "",
                        per_process ? "rlimits (memory per process)" : "",
                        b->scoped ? ", Landlock" : "");
}

/* The folder gets the name of the box. */
static int move_folder(struct blank *b, struct str id, struct err *e)
{
    int from own_fd = local_open_dir(b->home, e);
    int to own_fd = from >= 0 ? local_open_dir(b->local->boxes_dir, e) : -1;
    const char *name = arena_cstr(&b->arena, id);
    if (from < 0 || to < 0) {
        return -1;
    }
    if (renameat(from, b->id, to, name) < 0) {
        return err_sys(e, errno, "cannot move the sandbox's folder to %s", b->local->boxes_dir);
    }
    b->home = b->local->boxes_dir;
    memcpy(b->id, name, BOX_ID_SIZE - 1);
    return 0;
}

int blank_claim(struct blank *b, const struct ctx *ctx, const struct box_spec *spec,
                const struct limits *limits, struct meta *meta, struct err *e)
{
    struct meta m = meta_of(b);
    m.name = spec->name;
    m.limits = *limits;
    m.tier = arena_str(ctx->arena, tier_text(b));
    m.created_at = clock_wall_ms() / 1000;
    if (limits->lifetime_s > 0) {
        m.expires_at = m.created_at + limits->lifetime_s;
    }
    if (settle_limits(b, &spec->limits, &m.limits, e) < 0) {
        return -1;
    }
    if (b->in_advance && move_folder(b, spec->id, e) < 0) {
        return -1;
    }
    /* Written first: whatever serves is known to whoever finds the folder. */
    if (meta_save(b->folder, &m, e) < 0 || blank_order(b, ctx, spec, &m.limits, e) < 0) {
        return -1;
    }
    *meta = m;
    return 0;
}
