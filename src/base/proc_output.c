#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "base/proc.h"

#define PIECE 1024

/* What the child writes until every holder of the other end has closed it. */
static int read_all(const struct ctx *ctx, int fd, struct buf *out, struct err *e)
{
    for (;;) {
        struct pollfd readable = {.fd = fd, .events = POLLIN};
        char *room = buf_room(out, PIECE);
        ssize_t n;

        if (room == NULL) {
            return err_set(e, ERR_LIMIT, "it wrote more than %zu bytes", out->max);
        }
        if (ctx_wait(ctx, &readable, 1, 0, e) < 0) {
            return -1;
        }
        n = fd_read(fd, room, PIECE, e);
        if (n <= 0) {
            return (int)n;
        }
        out->len += (size_t)n;
    }
}

int proc_output(const struct ctx *ctx, const char *const *argv, const char *const *envp,
                struct buf *out, int *status, struct err *e)
{
    const struct ctx patient = {.arena = ctx->arena};
    struct err ignored;
    int ends[2];
    pid_t pid = 0;
    int rc;

    if (pipe2(ends, O_CLOEXEC) < 0) {
        return err_sys(e, errno, "cannot make a pipe");
    }
    int in own_fd = ends[0];
    int write_end own_fd = ends[1];
    const struct proc_fd fds[] = {{write_end, STDOUT_FILENO}};
    const struct proc_spec spec = {.file = argv[0],
                                   .argv = argv,
                                   .envp = envp,
                                   .fds = fds,
                                   .n_fds = COUNTOF(fds),
                                   .new_session = true};

    if (proc_spawn(&spec, &pid, e) < 0) {
        return -1;
    }
    (void)close(take_fd(&write_end));
    rc = read_all(ctx, in, out, e);
    if (rc == 0) {
        rc = proc_wait(ctx, pid, status, e);
    }
    if (rc < 0) {
        (void)kill(-pid, SIGKILL);
        (void)!proc_wait(&patient, pid, status, &ignored);
    }
    return rc;
}
