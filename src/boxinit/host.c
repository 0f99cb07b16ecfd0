#include "boxinit/host.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/own.h"
#include "base/path.h"
#include "boxinit/limits.h"
#include "boxinit/process.h"

#define LISTEN_BACKLOG 128

/* ---- the process ------------------------------------------------------------------- */

int host_reset_process(struct err *e)
{
    process_reset_signals();
    (void)signal(SIGPIPE, SIG_IGN);
    (void)umask(022);
    (void)prctl(PR_SET_NAME, "boxinit", 0, 0, 0); /* a copy has another name */
    return process_null_stdio(e);
}

/* ---- files ------------------------------------------------------------------------- */

static int open_counter(const char *path, int *out, struct err *e)
{
    *out = -1;
    if (path[0] == '\0') {
        return 0;
    }
    *out = open(path, O_RDONLY | O_CLOEXEC);
    return *out < 0 ? err_sys(e, errno, "open %s", path) : 0;
}

static int make_listener(int *out, struct err *e)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd own_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0) {
        return err_sys(e, errno, "make a socket");
    }
    /* Through /proc: sun_path is short, the state folder's path need not be. */
    (void)snprintf(at.sun_path, sizeof(at.sun_path), "/proc/self/fd/%d/" AGENT_SOCKET, FOLDER_FD);
    if (bind(fd, (const struct sockaddr *)&at, sizeof(at)) < 0) {
        return err_sys(e, errno, "make " AGENT_SOCKET " in the sandbox's folder");
    }
    if (chmod(at.sun_path, 0600) < 0 || listen(fd, LISTEN_BACKLOG) < 0) {
        return err_sys(e, errno, "listen on " AGENT_SOCKET);
    }
    *out = take_fd(&fd);
    return 0;
}

int host_open(const struct spec *spec, struct box_fds *fds, struct err *e)
{
    /* First: what is opened below takes the next free number. */
    fds->keep = spec->keep_fd ? KEEP_FD : -1;
    if (spec->keep_fd && fcntl(KEEP_FD, F_GETFD) < 0) {
        return err_set(e, ERR_INVALID, "the spec promises descriptor %d, which is not there",
                       KEEP_FD);
    }
    if (open_counter(spec->oom_file, &fds->oom, e) < 0 ||
        open_counter(spec->memory_file, &fds->memory, e) < 0 ||
        open_counter(spec->pids_file, &fds->pids, e) < 0 || make_listener(&fds->listener, e) < 0) {
        return -1;
    }
    fds->end = openat(FOLDER_FD, END_FILE, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fds->end < 0) {
        return err_sys(e, errno, "make " END_FILE " in the sandbox's folder");
    }
    return 0;
}

static void close_one(int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd);
        *fd = -1;
    }
}

void host_close(struct box_fds *fds)
{
    close_one(&fds->oom);
    close_one(&fds->memory);
    close_one(&fds->pids);
    close_one(&fds->listener);
    close_one(&fds->end);
}

/* ---- cgroups ----------------------------------------------------------------------- */

/* The folder of a cgroup of version 2, which alone has this file; else -1. */
static int open_unified(const char *procs)
{
    char path[PATH_MAX_BYTES + 16];
    size_t dir = strlen(procs) - strlen(path_base(str_from(procs)).p);

    (void)snprintf(path, sizeof(path), "%.*scgroup.events", (int)dir, procs);
    if (access(path, F_OK) < 0) {
        return -1;
    }
    (void)snprintf(path, sizeof(path), "%.*s", (int)dir, procs);
    return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static int open_procs(const char *path, struct host_groups *to, struct err *e)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);

    if (fd < 0) {
        return err_sys(e, errno, "open the cgroup %s", path);
    }
    to->joins[to->n_joins++] = fd;
    return 0;
}

/* To join one waits for a grace period of the kernel, which takes longer than all the rest.
 * A process can be born into one of version 2 instead. */
int host_open_groups(const struct spec *spec, bool born, struct host_groups *out, struct err *e)
{
    for (size_t i = 0; i < spec->n_cgroup_procs; i++) {
        const char *path = spec->cgroup_procs[i];

        if (born && out->born_into < 0) {
            out->born_into = open_unified(path);
            out->born_procs = path;
            if (out->born_into >= 0) {
                continue;
            }
        }
        if (open_procs(path, out, e) < 0) {
            return -1;
        }
    }
    return 0;
}

int host_join(const struct host_groups *groups, struct err *e)
{
    for (size_t i = 0; i < groups->n_joins; i++) {
        if (write(groups->joins[i], "0", 1) != 1) {
            return err_sys(e, errno, "join the sandbox's cgroups");
        }
    }
    return 0;
}

void host_close_groups(struct host_groups *groups)
{
    for (size_t i = 0; i < groups->n_joins; i++) {
        close_one(&groups->joins[i]);
    }
    groups->n_joins = 0;
    close_one(&groups->born_into);
}

/* ---- the birth --------------------------------------------------------------------- */

pid_t host_clone(const struct spec *spec, struct host_groups *groups)
{
    unsigned long flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS |
                          (spec->host_net ? 0 : CLONE_NEWNET);
    struct clone_args args = {
        .flags = flags | CLONE_INTO_CGROUP,
        .exit_signal = SIGCHLD,
        .cgroup = (uint64_t)groups->born_into,
    };
    struct err ignored;

    if (groups->born_into >= 0) {
        pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));

        /* Before 5.7, and where a container's filter does not let it pass, it has to join. */
        if (pid >= 0 || open_procs(groups->born_procs, groups, &ignored) < 0) {
            return pid;
        }
    }
    return (pid_t)syscall(SYS_clone, flags | SIGCHLD, NULL, NULL, NULL, NULL);
}

void host_be_inner(const struct spec *spec, const struct box_fds *fds,
                   const struct host_groups *groups, int go, int net_made)
{
    struct err e;

    (void)signal(SIGCHLD, SIG_DFL);
    if (host_join(groups, &e) < 0) {
        box_say_failed(SETUP_OTHER, &e);
        _exit(1);
    }
    limits_share();
    box_init(spec, *fds, go, net_made);
}
