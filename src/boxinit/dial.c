/*
 * dial.c - a worker that is a connection to a port or a unix socket inside the box.
 *
 * It connects as code in the box would, to the loopback or to the path, says OK, and from then
 * on moves bytes between its conversation and whoever listens there, with their ends.
 */
#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/duplex.h"
#include "base/own.h"
#include "base/path.h"
#include "boxinit/box.h"
#include "boxinit/command.h"
#include "boxinit/files.h"

#define CONNECT_S 10

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
    if (at->sa_family != AF_UNIX) {
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    }
    return take_fd(&fd);
}

static bool is_nobody(int errnum)
{
    return errnum == ECONNREFUSED || errnum == EADDRNOTAVAIL || errnum == EAFNOSUPPORT ||
           errnum == ENETUNREACH || errnum == EHOSTUNREACH;
}

/* Programs listen on either family's address. */
static int dial_port(uint16_t port, struct err *e)
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

/* An address holds about 100 bytes, and the worker is at home nowhere: it goes to the folder and
 * names what is there. */
static int dial_path(struct worker *w, struct str path, struct err *e)
{
    struct str whole = str_from(command_path(w->spec, &w->arena, path));
    struct str name = path_base(whole);
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int why = ENAMETOOLONG;
    int fd = -1;

    if (name.len == 0 || name.len >= sizeof(at.sun_path)) {
        return worker_fail(w, why, path, "connect to", e);
    }
    memcpy(at.sun_path, name.p, name.len);
    if (chdir(arena_cstr(&w->arena, path_dir(whole))) < 0) {
        why = errno;
    } else {
        fd = try_address((const struct sockaddr *)&at, sizeof(at), &why);
    }
    if (fd < 0 && (why == ECONNREFUSED || why == ENOENT || why == EPROTOTYPE)) {
        return err_set(e, ERR_NOT_FOUND, "nothing listens at \"%.*s\" in the sandbox",
                       STR_ARG(str_head(path, 300)));
    }
    return fd < 0 ? worker_fail(w, why, path, "connect to", e) : fd;
}

/* ---- the bytes ------------------------------------------------------------- */

/* A measure of what the client has not read yet. */
static int count_unread(int fd)
{
    int bytes = 0;

    return ioctl(fd, SIOCOUTQ, &bytes) == 0 ? bytes : 0;
}

/* The client uses the box when it says something or reads something. A connection that it only
 * holds is no use, however much is said to it: code in the box must not live on by that. */
static void run(struct worker *w, int port)
{
    struct str early = str_skip(buf_str(w->in), w->used);
    struct pollfd fds[2];
    struct duplex d;
    int unread = 0;

    /* The client need not wait for OK before it speaks. */
    while (early.len > 0) {
        ssize_t n = send(port, early.p, early.len, MSG_NOSIGNAL);

        if (n <= 0) {
            break;
        }
        early = str_skip(early, (size_t)n);
    }
    buf_fini(w->in);
    duplex_init(&d, w->fd, port);
    while (duplex_wants(&d, fds)) {
        int n = poll(fds, 2, duplex_wait_ms(&d));

        if (n == 0 || (n < 0 && errno != EINTR)) {
            break;
        }
        if (n < 0) {
            continue;
        }
        if ((fds[0].revents & POLLIN) != 0 || count_unread(w->fd) < unread) {
            atomic_store(w->used_ms, clock_mono_ms());
        }
        (void)duplex_move(&d, fds);
        unread = count_unread(w->fd);
    }
    duplex_fini(&d);
}

void dial_serve(struct worker *w)
{
    struct frame frame;
    struct request r;
    struct err e;
    int port own_fd = -1;

    if (worker_next(w, &frame, &e) < 0) {
        return;
    }
    if (request_parse(frame, &w->arena, &r, &e) == 0) {
        port = r.type == FRAME_UNIX ? dial_path(w, r.path, &e) : dial_port(r.port, &e);
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
