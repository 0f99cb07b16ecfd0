/* The end of boxes: killing one, removing what it leaves, and looking for what others
 * left. All of it may run in several processes at once. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/own.h"
#include "base/proc.h"
#include "provider/local/pool.h"

#define KILL_WAIT_MS 10000
#define MAKING_S     120 /* nobody takes longer to make a box */

int local_kill(const struct meta *m, const struct ctx *ctx, struct err *e)
{
    if (m->pid <= 0 || !meta_this_boot(m, ctx->arena)) {
        return 0;
    }
    int pidfd own_fd = (int)syscall(SYS_pidfd_open, m->pid, 0);
    if (pidfd < 0 && errno == ESRCH) {
        return 0;
    }
    if (pidfd < 0) {
        return err_sys(e, errno, "cannot look at the sandbox's init process");
    }
    /* Checked after the pidfd was opened: now it names this very process for good. */
    if (proc_is_gone(m->pid, m->start)) {
        return 0;
    }
    if (proc_start_time(m->pid) != m->start) {
        return err_set(e, ERR_LIMIT,
                       "its init process cannot be looked at, perhaps because too many files are "
                       "open; try again");
    }
    for (size_t i = 0; i < m->n_cgroups; i++) {
        if (cgroup_is_ours(m->cgroups[i])) {
            cgroup_unthrottle(ctx->arena, m->cgroups[i]);
        }
    }
    if (syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0) < 0 && errno != ESRCH) {
        return err_sys(e, errno, "cannot end the sandbox's init process");
    }
    /* The kernel ends PID 1 last, when all other processes of the box are gone. A caller
     * who takes the call back does not want half of it. */
    struct ctx quiet = {.arena = ctx->arena};
    struct pollfd exited = {.fd = pidfd, .events = POLLIN};
    int ready = ctx_wait(&quiet, &exited, 1, clock_mono_ms() + KILL_WAIT_MS, e);
    if (ready == 0) {
        return err_set(e, ERR_TIMEOUT,
                       "its processes did not end within %d s after they were killed; try again",
                       KILL_WAIT_MS / 1000);
    }
    return ready < 0 ? -1 : 0;
}

int local_remove(const char *home, const struct ctx *ctx, struct str id, const struct meta *m,
                 struct err *e)
{
    for (size_t i = 0; i < m->n_cgroups; i++) {
        if (cgroup_is_ours(m->cgroups[i]) && cgroup_remove(ctx, m->cgroups[i], e) < 0) {
            return -1;
        }
    }
    int dir own_fd = local_open_dir(home, e);
    if (dir < 0) {
        return -1;
    }
    /* First, for whoever is just looking why it ended: see meta_reason(). */
    (void)unlinkat(dir, arena_printf(ctx->arena, "%.*s/" INFO_FILE, STR_ARG(id)).p, 0);
    return fd_remove_tree(dir, arena_cstr(ctx->arena, id), e);
}

/* What a sweep goes through. */
struct sweep {
    const struct ctx *ctx;
    const char *home;
    int dir; /* the same, open */
    const struct cgroup_host *host;
};

/* One folder, locked by us: nobody is making this box, and nobody else removes it. */
static int sweep_locked(const struct sweep *s, int folder, struct str id, struct err *e)
{
    struct meta m = {0};
    if (meta_load(folder, s->ctx->arena, &m, e) < 0) {
        /* Never written, or nothing that we could have written. What is only not to be
         * read now may belong to a box that lives. */
        if (e->kind != ERR_NOT_FOUND && e->kind != ERR_PROTOCOL) {
            return -1;
        }
        /* It has never served: its PID 1 is gone, or going, and its cgroups have its name. */
        m = (struct meta){0};
        if (cgroup_remove_of(s->ctx, s->host, id, e) < 0) {
            return -1;
        }
    }
    if (meta_alive(&m, s->ctx->arena)) {
        return 0;
    }
    return local_remove(s->home, s->ctx, id, &m, e);
}

static int sweep_one(const struct sweep *s, const char *name, struct err *e)
{
    struct str id = str_from(name);
    if (!local_id_ok(id)) {
        return 0;
    }
    int folder own_fd = openat(s->dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0 || flock(folder, LOCK_EX | LOCK_NB) < 0) {
        return 0;
    }
    return sweep_locked(s, folder, id, e);
}

static int sweep_folder(const char *home, const struct ctx *ctx, const struct cgroup_host *host,
                        struct err *e)
{
    int fd = open(home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (dir == NULL) {
        int errnum = errno;
        drop_fd(&fd);
        return errnum == ENOENT ? 0 : err_sys(e, errnum, "cannot read %s", home);
    }
    /* One that cannot be removed does not keep the others. */
    struct sweep s = {.ctx = ctx, .home = home, .dir = fd, .host = host};
    int rc = 0;
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (ctx_check(ctx, e) < 0) {
            rc = -1;
            break;
        }
        struct err why = {0};
        if (sweep_one(&s, entry->d_name, &why) < 0) {
            *e = why;
            rc = -1;
        }
    }
    (void)closedir(dir);
    return rc;
}

int local_sweep(struct provider *p, const struct ctx *ctx, struct err *e)
{
    struct local *l = local_of(p);
    struct cgroup_host host;
    cgroup_host_read(ctx->arena, &host);
    if (l->pool != NULL) {
        blank_pool_prune(l->pool);
    }
    int boxes = sweep_folder(l->boxes_dir, ctx, &host, e);
    int pool = sweep_folder(l->pool_dir, ctx, &host, e);
    cgroup_sweep(ctx->arena, &host, MAKING_S);
    return boxes < 0 || pool < 0 ? -1 : 0;
}
