#include "base/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/own.h"
#include "base/path.h"

#define TICK_MS 20 /* between looks at a child, where the kernel has no pidfds */

/* A spawn under construction. `sources` are the descriptors that the child's are made
 * from; all lie above last_to, so that making one never destroys another. */
struct plan {
    const struct proc_spec *spec;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    int last_to;  /* the highest descriptor the child keeps, at least 2 */
    int *sources; /* spec->n_fds, -1 where unset */
    bool *moved;  /* this one is a copy of ours: close it */
};

static bool is_named(const struct proc_spec *spec, int to)
{
    for (size_t i = 0; i < spec->n_fds; i++) {
        if (spec->fds[i].to == to) {
            return true;
        }
    }
    return false;
}

static int move_sources(struct plan *plan, struct err *e)
{
    for (size_t i = 0; i < plan->spec->n_fds; i++) {
        int from = plan->spec->fds[i].from;

        if (from > plan->last_to) {
            plan->sources[i] = from;
            continue;
        }
        plan->sources[i] = fcntl(from, F_DUPFD_CLOEXEC, plan->last_to + 1);
        if (plan->sources[i] < 0) {
            return err_sys(e, errno, "duplicate descriptor %d", from);
        }
        plan->moved[i] = true;
    }
    return 0;
}

/* Returns 0 or an errno, as posix_spawn does. */
static int add_actions(struct plan *plan)
{
    int rc = 0;

    for (size_t i = 0; i < plan->spec->n_fds && rc == 0; i++) {
        rc = posix_spawn_file_actions_adddup2(&plan->actions, plan->sources[i],
                                              plan->spec->fds[i].to);
    }
    for (int to = 0; to <= plan->last_to && rc == 0; to++) {
        if (is_named(plan->spec, to)) {
            continue;
        }
        if (to <= STDERR_FILENO) {
            rc = posix_spawn_file_actions_addopen(&plan->actions, to, "/dev/null", O_RDWR, 0);
        } else {
            rc = posix_spawn_file_actions_addclose(&plan->actions, to);
        }
    }
    if (rc != 0) {
        return rc;
    }
    return posix_spawn_file_actions_addclosefrom_np(&plan->actions, plan->last_to + 1);
}

static int set_attributes(struct plan *plan)
{
    short flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
    sigset_t none, all;
    int rc;

    (void)sigemptyset(&none);
    (void)sigfillset(&all);
    if (plan->spec->new_session) {
        flags |= POSIX_SPAWN_SETSID;
    }
    rc = posix_spawnattr_setsigmask(&plan->attr, &none);
    if (rc == 0) {
        rc = posix_spawnattr_setsigdefault(&plan->attr, &all);
    }
    return rc != 0 ? rc : posix_spawnattr_setflags(&plan->attr, flags);
}

/* posix_spawn() takes pointers to char that it does not write through. */
static char *const *as_args(const char *const *list)
{
    static char *const none[] = {NULL};
    char *const *args = none;

    if (list != NULL) {
        memcpy(&args, &list, sizeof(args));
    }
    return args;
}

static int run_plan(struct plan *plan, pid_t *out, struct err *e)
{
    const struct proc_spec *spec = plan->spec;
    pid_t pid;
    int rc;

    if (move_sources(plan, e) < 0) {
        return -1;
    }
    rc = add_actions(plan);
    if (rc == 0) {
        rc = set_attributes(plan);
    }
    if (rc == 0) {
        rc = posix_spawnp(&pid, spec->file, &plan->actions, &plan->attr, as_args(spec->argv),
                          as_args(spec->envp));
    }
    if (rc != 0) {
        return err_sys(e, rc, "start %s", spec->file);
    }
    *out = pid;
    return 0;
}

static void close_moved(struct plan *plan)
{
    for (size_t i = 0; i < plan->spec->n_fds; i++) {
        if (plan->moved[i]) {
            (void)close(plan->sources[i]);
        }
    }
}

int proc_spawn(const struct proc_spec *spec, pid_t *out, struct err *e)
{
    int *sources own_mem = xcalloc(spec->n_fds, sizeof(*sources));
    bool *moved own_mem = xcalloc(spec->n_fds, sizeof(*moved));
    struct plan plan = {.spec = spec, .last_to = STDERR_FILENO, .sources = sources, .moved = moved};
    int rc;

    for (size_t i = 0; i < spec->n_fds; i++) {
        if (spec->fds[i].to > plan.last_to) {
            plan.last_to = spec->fds[i].to;
        }
    }
    rc = posix_spawn_file_actions_init(&plan.actions);
    if (rc != 0) {
        return err_sys(e, rc, "start %s", spec->file);
    }
    rc = posix_spawnattr_init(&plan.attr);
    if (rc != 0) {
        (void)posix_spawn_file_actions_destroy(&plan.actions);
        return err_sys(e, rc, "start %s", spec->file);
    }
    rc = run_plan(&plan, out, e);
    close_moved(&plan);
    (void)posix_spawnattr_destroy(&plan.attr);
    (void)posix_spawn_file_actions_destroy(&plan.actions);
    return rc;
}

int proc_wait(const struct ctx *ctx, pid_t pid, int *status, struct err *e)
{
    int fd own_fd = (int)syscall(SYS_pidfd_open, pid, 0);

    for (;;) {
        struct pollfd pfd = {.fd = fd, .events = POLLIN};
        pid_t done = waitpid(pid, status, WNOHANG);

        if (done == pid) {
            return 0;
        }
        if (done < 0 && errno != EINTR) {
            return err_sys(e, errno, "wait for process %d", (int)pid);
        }
        if (ctx_wait(ctx, &pfd, 1, fd < 0 ? clock_mono_ms() + TICK_MS : 0, e) < 0) {
            return -1;
        }
    }
}

struct str proc_self_dir(struct arena *a)
{
    char target[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", target, sizeof(target));

    if (len <= 0) {
        return STR_EMPTY;
    }
    return arena_str(a, path_dir((struct str){target, (size_t)len}));
}

/* The text of /proc/PID/stat. */
static ssize_t read_stat(pid_t pid, char *text, size_t cap, struct err *e)
{
    char path[40];

    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    int fd own_fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? err_sys(e, errno, "open %s", path) : fd_read(fd, text, cap, e);
}

/* -1, and e->sys is ENOENT or ESRCH when there is no such process. *zombie: it has ended, and
 * its parent has not asked for it yet. */
static long long read_start_time(pid_t pid, bool *zombie, struct err *e)
{
    enum { START_TIME = 22, AFTER_NAME = 3 }; /* fields of /proc/PID/stat, from 1 */
    char text[1024];
    int64_t ticks;
    struct str rest;
    const char *name_end;
    ssize_t len = read_stat(pid, text, sizeof(text), e);

    if (len < 0) {
        return -1;
    }
    /* The name is the second field, in parentheses, and may hold anything. */
    name_end = memrchr(text, ')', (size_t)len);
    if (name_end == NULL) {
        return err_set(e, ERR_SYSTEM, "the state of process %d cannot be read", (int)pid);
    }
    rest = str_skip((struct str){text, (size_t)len}, (size_t)(name_end - text) + 2);
    *zombie = str_starts(rest, S("Z")) || str_starts(rest, S("X"));
    for (int field = AFTER_NAME; field < START_TIME; field++) {
        (void)str_cut(rest, ' ', &rest);
    }
    if (str_to_i64(str_cut(rest, ' ', &rest), 0, INT64_MAX, &ticks, e) < 0) {
        return -1;
    }
    return ticks;
}

long long proc_start_time(pid_t pid)
{
    struct err ignored;
    bool zombie;

    return read_start_time(pid, &zombie, &ignored);
}

static bool is_gone(pid_t pid, long long start, bool *zombie)
{
    struct err e = {0};
    long long now = read_start_time(pid, zombie, &e);

    if (now < 0) {
        return e.sys == ENOENT || e.sys == ESRCH;
    }
    return start >= 0 && now != start;
}

bool proc_is_gone(pid_t pid, long long start)
{
    bool zombie;

    return is_gone(pid, start, &zombie);
}

bool proc_has_ended(pid_t pid, long long start)
{
    bool zombie = false;

    return is_gone(pid, start, &zombie) || zombie;
}

int proc_open(pid_t pid, long long start, struct err *e)
{
    int fd own_fd = (int)syscall(SYS_pidfd_open, pid, 0);

    if (fd < 0 && errno != ESRCH) {
        return err_sys(e, errno, "open process %d", (int)pid);
    }
    /* In this order: whoever has the right start time now is whom the descriptor means. */
    if (fd < 0 || proc_has_ended(pid, start)) {
        return err_set(e, ERR_NOT_FOUND, "process %d has ended", (int)pid);
    }
    return take_fd(&fd);
}

struct str proc_boot_id(struct arena *a)
{
    struct str id;
    struct err e;

    if (fd_read_file(AT_FDCWD, "/proc/sys/kernel/random/boot_id", 256, a, &id, &e) < 0) {
        return STR_EMPTY;
    }
    return str_trim(id);
}
