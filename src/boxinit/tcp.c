/*
 * tcp.c - a worker that is a connection to a port inside the box.
 *
 * It connects as code in the box would, to the loopback, says OK, and from then on moves
 * bytes between its conversation and the port: each direction has one buffer, so neither
 * is read faster than the other is written, and ends on its own. When one of the two is closed
 * for good, what it said is still delivered, for GRACE_MS at most.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/own.h"
#include "boxinit/box.h"
#include "boxinit/files.h"

#define PIECE     (64u << 10)
#define CONNECT_S 10
#define GRACE_MS  10000

/* ---- the connection -------------------------------------------------------- */

static int try_address(const struct sockaddr *at, socklen_t len, int *why)
{
    struct timeval patience = {.tv_sec = CONNECT_S};
    int on = 1;
    int fd own_fd = socket(at->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) < 0 ||
        connect(fd, at, len) < 0) {
        *why = errno;
        return -1;
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return take_fd(&fd);
}

static bool is_nobody(int errnum)
{
    return errnum == ECONNREFUSED || errnum == EADDRNOTAVAIL || errnum == EAFNOSUPPORT ||
           errnum == ENETUNREACH || errnum == EHOSTUNREACH;
}

/* Programs listen on either family's address. */
static int dial(uint16_t port, struct err *e)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    int why = 0;
    int other = 0;
    int fd;

    v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    v6.sin6_addr = in6addr_loopback;
    fd = try_address((const struct sockaddr *)&v4, sizeof(v4), &why);
    if (fd < 0 && is_nobody(why)) {
        fd = try_address((const struct sockaddr *)&v6, sizeof(v6), &other);
        why = is_nobody(other) ? why : other;
    }
    if (fd >= 0) {
        return fd;
    }
    if (is_nobody(why)) {
        return err_set(e, ERR_NOT_FOUND,
                       "nothing listens on port %u in the sandbox; start the program that should, "
                       "or look whether it runs",
                       port);
    }
    if (why == EAGAIN || why == EINPROGRESS || why == ETIMEDOUT) {
        return err_set(
            e, ERR_UNREACHABLE,
            "what listens on port %u in the sandbox takes no connection: it hangs, or it "
            "has too many",
            port);
    }
    return err_sys(e, why, "connect to port %u in the sandbox", port);
}

/* ---- the bytes ------------------------------------------------------------- */

struct flow {
    int from, to;
    char *bytes;
    size_t start, end;
    bool at_end; /* no more will come */
    bool done;   /* and that was told, or nobody wants it */
};

/* What one event may move. False: nothing was moved. */
static bool move(struct flow *f)
{
    bool moved = false;

    if (f->start == f->end && !f->at_end && !f->done) {
        ssize_t n = recv(f->from, f->bytes, PIECE, MSG_DONTWAIT);

        f->at_end = n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
        f->start = 0;
        f->end = n > 0 ? (size_t)n : 0;
        moved = n > 0;
    }
    if (f->start < f->end) {
        ssize_t n =
            send(f->to, f->bytes + f->start, f->end - f->start, MSG_DONTWAIT | MSG_NOSIGNAL);

        f->start += n > 0 ? (size_t)n : 0;
        f->done |= n < 0 && errno != EAGAIN && errno != EINTR;
    }
    if (f->start == f->end && f->at_end && !f->done) {
        f->done = true;
        (void)shutdown(f->to, SHUT_WR);
    }
    return moved;
}

static bool is_full(const struct flow *f)
{
    return f->start < f->end;
}

/* One of the two as poll() is to see it. A closed one is ready for ever: it is looked at only
 * while there is something to be had of it. */
static struct pollfd watch_end(const struct flow *in, const struct flow *out, bool closed)
{
    struct pollfd p = {.fd = in->from};

    p.events |= !in->done && !in->at_end && !is_full(in) ? POLLIN : 0;
    p.events |= !out->done && is_full(out) ? POLLOUT : 0;
    if (closed && p.events == 0) {
        p.fd = -1;
    }
    return p;
}

static void move_all(struct worker *w, struct flow *there, struct flow *back)
{
    bool closed[2] = {false, false};

    while (!there->done || !back->done) {
        struct pollfd fds[2] = {watch_end(there, back, closed[0]),
                                watch_end(back, there, closed[1])};
        bool moved;
        int n = poll(fds, 2, closed[0] || closed[1] ? GRACE_MS : -1);

        if (n == 0 || (n < 0 && errno != EINTR)) {
            return;
        }
        for (int i = 0; n > 0 && i < 2; i++) {
            closed[i] |= fds[i].fd >= 0 && (fds[i].revents & (POLLHUP | POLLERR)) != 0;
        }
        back->done |= closed[0]; /* nobody takes it */
        there->done |= closed[1];
        moved = move(there);
        moved |= move(back);
        if (moved) {
            atomic_store(w->used_ms, clock_mono_ms());
        }
    }
}

static void run(struct worker *w, int port)
{
    struct flow there = {.from = w->fd, .to = port, .bytes = xmalloc(PIECE)};
    struct flow back = {.from = port, .to = w->fd, .bytes = xmalloc(PIECE)};
    struct str early = str_skip(buf_str(w->in), w->used);

    /* The client need not wait for OK before it speaks. */
    while (early.len > 0) {
        ssize_t n = send(port, early.p, early.len, MSG_NOSIGNAL);

        if (n <= 0) {
            break;
        }
        early = str_skip(early, (size_t)n);
    }
    buf_fini(w->in);
    move_all(w, &there, &back);
}

void tcp_serve(struct worker *w)
{
    struct frame frame;
    struct request r;
    struct err e;
    int port own_fd = -1;

    if (worker_next(w, &frame, &e) < 0) {
        return;
    }
    if (request_parse(frame, &w->arena, &r, &e) == 0) {
        port = dial(r.port, &e);
    }
    if (port < 0) {
        box_put_fail(&w->out, &e);
        (void)!worker_flush(w, &e);
        return;
    }
    worker_put_ok(w, 0);
    if (worker_flush(w, &e) == 0) {
        run(w, port);
    }
}
