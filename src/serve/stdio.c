/*
 * stdio.c - the stdio server's main loop.
 *
 * One thread (the one that calls stdio_run()) sleeps in poll() on the client's
 * messages, on signals by signalfd, on a queue of unsent answers, and looks after its
 * parent every two seconds. It answers quick methods itself; tool calls run on the
 * threads of services->calls and write their answers themselves, and only what the
 * client does not take at once comes back here to be written later. While too much is
 * unsent no further messages are read.
 *
 * Leaving: after EOF, calls that are nearly done may still answer; then, and at once
 * for any other reason, the rest is cancelled, which kills its commands. All of it
 * takes less than a second, because clients kill us soon after. A call that does not
 * end by then is left to _exit(): nothing that we keep is hurt by that, and boxes end
 * by their own clocks.
 */
#include "serve/stdio.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "core/boxes.h"
#include "mcp/mcp.h"
#include "serve/lines.h"
#include "serve/outbox.h"

#define QUEUE_FULL      ((size_t)64 << 20) /* unsent bytes at which reading stops */
#define PARENT_CHECK_MS 2000
/* Leaving, in milliseconds from its start: until then ... */
#define GRACE_MS   500 /* ... what is nearly done may end after EOF */
#define CANCEL_MS  850 /* ... what was cancelled may end */
#define FLUSH_MS   950 /* ... the client may take the last answers */
#define HURRIED_MS 50  /* the same after a signal, from when the calls have ended */
#define SLICE_MS   20  /* how long a signal may go unnoticed while we wait */

struct stdio {
    struct peer peer;
    struct scope scope;
    struct mcp *mcp;
    struct end in;
    struct outbox out;
    struct lines lines;
    int signals; /* signalfd */
    sigset_t old_mask;
    unsigned n_signals;
    pid_t parent;
    int64_t parent_checked_ms;
    bool at_end;
    const char *leaving; /* why; NULL: we are not */
};

static void send_line(struct peer *p, struct str message, enum send_kind kind)
{
    outbox_send(&CONTAINER_OF(p, struct stdio, peer)->out, message, kind == SEND_NOTICE);
}

static const struct peer_ops ops = {
    .send = send_line,
    .transport = "stdio",
    .one_stream = true,
};

/* 0 and 1 must be the client and 2 anything at all, before another descriptor is made
 * and takes one of these numbers. */
static int check_standard(struct err *e)
{
    if (fcntl(STDIN_FILENO, F_GETFD) < 0 || fcntl(STDOUT_FILENO, F_GETFD) < 0) {
        return err_set(e, ERR_INVALID,
                       "standard input or output is closed: a client has to be at both");
    }
    /* The lowest free number is 2, if it is free. */
    if (fcntl(STDERR_FILENO, F_GETFD) < 0 && open("/dev/null", O_WRONLY | O_NOCTTY) < 0) {
        return err_sys(e, errno, "open /dev/null");
    }
    return 0;
}

/* Nothing may write to the client but us, and nothing may read from it. */
static int point_away(struct err *e)
{
    int null own_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
        return err_sys(e, errno, "turn standard input and output away from the client");
    }
    return 0;
}

static int open_ends(struct stdio *io, struct err *e)
{
    if (check_standard(e) < 0) {
        return -1;
    }
    if (end_open(&io->in, STDIN_FILENO, O_RDONLY, e) < 0) {
        return err_wrap(e, "standard input");
    }
    if (outbox_init(&io->out, STDOUT_FILENO, e) < 0) {
        (void)close(io->in.fd);
        return err_wrap(e, "standard output");
    }
    if (point_away(e) < 0) {
        (void)close(io->in.fd);
        outbox_fini(&io->out);
        return -1;
    }
    return 0;
}

static int open_signals(struct stdio *io, struct err *e)
{
    sigset_t mask;

    (void)signal(SIGPIPE, SIG_IGN);
    (void)sigemptyset(&mask);
    (void)sigaddset(&mask, SIGTERM);
    (void)sigaddset(&mask, SIGINT);
    (void)sigaddset(&mask, SIGHUP);
    (void)pthread_sigmask(SIG_BLOCK, &mask, &io->old_mask);
    io->signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    return io->signals < 0 ? err_sys(e, errno, "signalfd") : 0;
}

static void leave(struct stdio *io, const char *why)
{
    if (io->leaving == NULL) {
        io->leaving = why;
    }
}

static void take_signals(struct stdio *io)
{
    struct signalfd_siginfo info;

    while (read(io->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        io->n_signals++;
        if (io->n_signals > 1) {
            _exit(1); /* somebody is in a hurry */
        }
        leave(io, "signal");
    }
}

static void check_parent(struct stdio *io)
{
    int64_t now = clock_mono_ms();

    if (now - io->parent_checked_ms < PARENT_CHECK_MS) {
        return;
    }
    io->parent_checked_ms = now;
    if (getppid() != io->parent) {
        leave(io, "parent gone");
    }
}

static void feed_lines(struct stdio *io)
{
    for (;;) {
        const char *text;
        size_t len;

        switch (lines_next(&io->lines, io->at_end, &text, &len)) {
        case LINE_NONE: return;
        case LINE_TEXT: mcp_feed(&io->peer, text, len); break;
        case LINE_TOO_LONG: mcp_feed_too_long(&io->peer); break;
        }
    }
}

static void read_input(struct stdio *io)
{
    size_t cap;
    char *to = lines_room(&io->lines, &cap);
    ssize_t n = end_read(&io->in, to, cap);

    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (n > 0) {
        lines_added(&io->lines, (size_t)n);
    } else {
        io->at_end = true;
        leave(io, "end of input");
    }
    feed_lines(io);
}

static void step(struct stdio *io)
{
    size_t queued = outbox_queued(&io->out);
    bool full = queued >= QUEUE_FULL;
    struct pollfd fds[] = {
        {.fd = io->signals, .events = POLLIN},
        {.fd = io->out.wake, .events = POLLIN},
        {.fd = io->out.end.fd, .events = queued > 0 ? POLLOUT : 0},
        {.fd = io->in.fd, .events = full ? POLLRDHUP : POLLIN},
    };
    uint64_t count;

    if (poll(fds, COUNTOF(fds), PARENT_CHECK_MS) < 0) {
        return; /* EINTR */
    }
    if (fds[0].revents != 0) {
        take_signals(io);
    }
    if (fds[1].revents != 0) {
        (void)!read(io->out.wake, &count, sizeof(count));
    }
    if ((fds[2].revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) {
        outbox_break(&io->out);
    } else if (queued > 0) {
        (void)outbox_flush(&io->out);
    }
    if (outbox_broken(&io->out)) {
        leave(io, "output closed");
    }
    check_parent(io);
    if (fds[3].revents != 0 && full) {
        leave(io, "the client left with answers unread");
    } else if (fds[3].revents != 0 && io->leaving == NULL) {
        read_input(io);
    }
}

static bool is_disturbed(struct stdio *io)
{
    return io->n_signals > 0 || outbox_broken(&io->out);
}

/* Waits for calls to end while signals and unsent answers are looked after. */
static bool wait_for_calls(struct stdio *io, int64_t until_ms, bool undisturbed)
{
    while (!peer_wait(&io->peer, SLICE_MS)) {
        take_signals(io);
        (void)outbox_flush(&io->out);
        if (clock_mono_ms() >= until_ms || (undisturbed && is_disturbed(io))) {
            return false;
        }
    }
    return true;
}

static void flush_rest(struct stdio *io, int64_t until_ms)
{
    int64_t left = until_ms - clock_mono_ms();

    while (outbox_flush(&io->out) > 0 && left > 0) {
        struct pollfd fds[] = {{.fd = io->out.end.fd, .events = POLLOUT},
                               {.fd = io->signals, .events = POLLIN}};

        (void)poll(fds, COUNTOF(fds), (int)left);
        take_signals(io);
        left = until_ms - clock_mono_ms();
    }
}

static void wind_down(struct stdio *io)
{
    int64_t start = clock_mono_ms();
    bool ended = io->at_end && wait_for_calls(io, start + GRACE_MS, true);

    if (!ended) {
        peer_cancel(&io->peer);
        ended = wait_for_calls(io, start + CANCEL_MS, false);
    }
    flush_rest(io, is_disturbed(io) ? clock_mono_ms() + HURRIED_MS : start + FLUSH_MS);
    if (!ended) {
        log_line(LOG_WARN, "stdio", "msg=\"calls did not end in time\" why=\"%s\"", io->leaving);
        _exit(0);
    }
    log_line(LOG_DEBUG, "stdio", "msg=leaving why=\"%s\"", io->leaving);
}

static void serve_client(struct stdio *io, const struct services *services, unsigned toolsets)
{
    scope_init(&io->scope, STR_EMPTY, services->config->folder);
    io->mcp = mcp_new(services, toolsets);
    peer_init(&io->peer, &ops, io->mcp, &io->scope);
    lines_init(&io->lines, MCP_LINE_MAX);
    while (io->leaving == NULL) {
        step(io);
    }
    wind_down(io);
    lines_fini(&io->lines);
    peer_fini(&io->peer);
    mcp_free(io->mcp);
    scope_fini(&io->scope);
}

int stdio_run(const struct services *services, unsigned toolsets, struct err *e)
{
    struct stdio io = {.parent = getppid(), .parent_checked_ms = clock_mono_ms()};

    if (open_ends(&io, e) < 0) {
        return -1;
    }
    if (open_signals(&io, e) < 0) {
        (void)close(io.in.fd);
        outbox_fini(&io.out);
        return -1;
    }
    serve_client(&io, services, toolsets);
    (void)close(io.signals);
    (void)close(io.in.fd);
    outbox_fini(&io.out);
    (void)pthread_sigmask(SIG_SETMASK, &io.old_mask, NULL);
    return 0;
}
