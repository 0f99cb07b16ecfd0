/* relay.c - "boxinit relay": see agent.h. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/mux.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/own.h"
#include "boxinit/agent.h"
#include "boxinit/box.h"
#include "boxinit/place.h"

#define READ_SIZE (64u << 10)
#define START_MS  5000 /* for an agent to be there */
#define RETRY_MS  10
#define AGAIN_MS  1000 /* after a start that failed nobody waits for another one */

struct relay {
    const struct agent_args *args;
    int place;
    struct mux *mux;
    struct err failed; /* why it could not be started */
    int64_t failed_ms;
};

/* ---- to the agent ---------------------------------------------------------- */

NORETURN static void become_serve(const struct agent_args *args, int say)
{
    char *const argv[] = {xstrdup("boxinit"),
                          xstrdup("serve"),
                          xstrdup("--socket"),
                          xstrdup(args->dir),
                          xstrdup("--idle"),
                          xstrdup(args->idle),
                          NULL};
    int null = open("/dev/null", O_RDWR);

    /* The channel must end with us, not with what we start. */
    if (null >= 0 && dup2(null, STDIN_FILENO) >= 0 && dup2(null, STDOUT_FILENO) >= 0 &&
        dup2(say, STDERR_FILENO) >= 0) {
        (void)close(null);
        (void)execv("/proc/self/exe", argv);
    }
    (void)fprintf(stderr, "cannot start /proc/self/exe: %s\n", strerror(errno));
    _exit(1);
}

/* Waits until the agent is there, or another one is. */
static int start_serve(const struct agent_args *args, struct err *e)
{
    char text[sizeof(e->msg)] = "";
    int ends[2];
    int status = 0;
    ssize_t n;
    pid_t pid;

    if (pipe2(ends, O_CLOEXEC) < 0) {
        return err_sys(e, errno, "make a pipe");
    }
    pid = fork();
    if (pid == 0) {
        become_serve(args, ends[1]);
    }
    (void)close(ends[1]);
    if (pid < 0) {
        (void)close(ends[0]);
        return err_sys(e, errno, "start the agent");
    }
    n = fd_read(ends[0], text, sizeof(text) - 1, e);
    (void)close(ends[0]);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        return 0;
    }
    text[n > 0 ? n : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    return err_set(e, ERR_UNREACHABLE, "the agent on the host could not be started: %s", text);
}

/* Another one may be on its way in or out: then the lock is held and nobody takes us yet. */
static int reach(struct relay *r, struct err *e)
{
    int64_t until = clock_mono_ms() + START_MS;

    for (;;) {
        int fd = place_connect(r->place, e);

        if (fd >= 0 || e->kind != ERR_NOT_FOUND) {
            return fd;
        }
        if (start_serve(r->args, e) < 0) {
            return -1;
        }
        fd = place_connect(r->place, e);
        if (fd >= 0) {
            return fd;
        }
        if (clock_mono_ms() >= until) {
            return err_set(e, ERR_UNREACHABLE,
                           "the agent on the host holds its lock and takes nobody: it is stopped, "
                           "or it hangs; end its process (boxinit serve) and try again");
        }
        (void)poll(NULL, 0, RETRY_MS);
    }
}

/* A conversation that only says why there is none. */
static int answer_failed(const struct err *why)
{
    struct buf said own_buf = {0};
    int fds[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0) {
        return -1;
    }
    buf_init(&said, 1024);
    box_put_fail(&said, why);
    (void)!send(fds[1], said.p, said.len, MSG_DONTWAIT | MSG_NOSIGNAL);
    (void)close(fds[1]);
    return fds[0];
}

static int on_begin(void *arg)
{
    struct relay *r = arg;
    int fd;

    if (r->failed_ms > 0 && clock_mono_ms() - r->failed_ms < AGAIN_MS) {
        return answer_failed(&r->failed);
    }
    fd = reach(r, &r->failed);
    r->failed_ms = fd < 0 ? clock_mono_ms() : 0;
    return fd >= 0 ? fd : answer_failed(&r->failed);
}

/* ---- to the client --------------------------------------------------------- */

/* False: the client is gone. */
static bool send_out(struct mux *m)
{
    struct str out = mux_out(m);

    while (out.len > 0) {
        ssize_t n = write(STDOUT_FILENO, out.p, out.len);

        if (n < 0) {
            return errno == EAGAIN || errno == EINTR;
        }
        mux_sent(m, (size_t)n);
        out = mux_out(m);
    }
    return true;
}

/* 0: the client is gone, as it should; -1: it sent what cannot be read. */
static int relay_turn(struct relay *r, char *bytes, struct err *e)
{
    bool unsent = mux_out(r->mux).len > 0;
    struct pollfd fds[3] = {
        {.fd = STDIN_FILENO, .events = POLLIN},
        {.fd = mux_fd(r->mux), .events = POLLIN},
        {.fd = STDOUT_FILENO, .events = unsent ? POLLOUT : 0},
    };

    if (poll(fds, 3, -1) < 0) {
        return errno == EINTR ? 1 : err_sys(e, errno, "wait");
    }
    if (fds[0].revents != 0) {
        ssize_t n = read(STDIN_FILENO, bytes, READ_SIZE);

        if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) {
            return 0;
        }
        if (n > 0 && mux_feed(r->mux, (struct str){bytes, (size_t)n}, e) < 0) {
            return -1;
        }
    }
    if (fds[1].revents != 0) {
        mux_turn(r->mux);
    }
    if (fds[2].revents & (POLLERR | POLLHUP)) {
        return 0;
    }
    return send_out(r->mux) ? 1 : 0;
}

static int run(struct relay *r, struct err *e)
{
    char *bytes own_mem = xmalloc(READ_SIZE);
    int first = reach(r, e); /* before the marker: who reads it may rely on us */
    int rc = 1;

    if (first < 0) {
        return -1;
    }
    (void)close(first);
    r->mux = mux_new(on_begin, r, e);
    if (r->mux == NULL || fd_set_nonblock(STDOUT_FILENO, true, e) < 0) {
        return -1;
    }
    if (r->args->marker.len > 0 && (fd_write_all(STDOUT_FILENO, r->args->marker, e) < 0 ||
                                    fd_write_all(STDOUT_FILENO, S("\n"), e) < 0)) {
        return -1;
    }
    while (rc > 0) {
        rc = relay_turn(r, bytes, e);
    }
    return rc;
}

int agent_relay(const struct agent_args *args)
{
    struct relay r = {.args = args};
    struct err e;
    int rc = -1;

    (void)signal(SIGPIPE, SIG_IGN);
    if (getppid() == 0) {
        (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* in a container, whose code has our uid */
    }
    r.place = place_open(args->dir, &e);
    if (r.place >= 0) {
        rc = run(&r, &e);
        mux_free(r.mux);
        (void)close(r.place);
    }
    if (rc < 0) {
        (void)fprintf(stderr, "boxinit relay: %s\n", e.msg);
        return 1;
    }
    return 0;
}
