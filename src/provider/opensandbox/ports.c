/*
 * ports.c - ports of a box, through execd's own way to the loopback of its sandbox.
 *
 * The platform has no streams to ports, only HTTP that it passes on by path. So what dial() gives
 * is one end of a pair of sockets; at the other end a worker reads the head of a request, writes it
 * anew for the platform (gate.h), connects by libcurl as it does for all else, and then moves
 * bytes. A connection is one request: the answer ends it, as the client is told. After a change of
 * protocol (WebSocket) it lasts as long as both like.
 *
 * The platform takes requests for ports on which nobody listens. Whether somebody does is asked of
 * the sandbox's own table of sockets, and believed for a moment.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/own.h"
#include "base/thread.h"
#include "provider/curl.h"
#include "provider/opensandbox/gate.h"
#include "provider/opensandbox/own.h"

#define PORTS_MAX   256
#define BELIEVED_MS 2000
#define CONNECT_MS  10000
#define HEAD_MS     20000 /* for who connects and says nothing */
#define USE_MS      30000 /* between two looks whether the sandbox's life is to be renewed */
#define PIECE       (64u << 10)
#define STATUS_LEN  12 /* "HTTP/1.1 101" */
#define USE_ARENA   (1u << 20)

struct flow {
    char *bytes;
    size_t start, end;
};

struct relay {
    struct osb_box *box;
    struct osb_provider *provider;
    struct way *way;
    uint16_t port;
    int fd; /* our end of the pair */
    const struct curl_library *lib;
    CURL *easy;
    curl_socket_t socket;
    struct buf said; /* the head as the client said it; then what followed at once */
    struct buf head; /* as it goes to the platform */
    struct flow up, down;
    char status[STATUS_LEN];
    size_t n_status;
    bool is_change; /* another protocol was asked for: the client's bytes wait until it is agreed */
    bool near_ended, far_ended; /* no more comes from there */
};

static void relay_free(struct relay *r)
{
    if (r->easy != NULL) {
        r->lib->easy_cleanup(r->easy);
    }
    if (r->fd >= 0) {
        (void)close(r->fd);
    }
    buf_fini(&r->said);
    buf_fini(&r->head);
    free(r->up.bytes);
    free(r->down.bytes);
    free(r->way);
    box_unref(&r->box->box);
    free(r);
}

/* ---- the request ----------------------------------------------------------------------------- */

/* The base of a way: "https://host:port/path" in three. */
static void split_base(struct str base, struct str *origin, struct str *host, struct str *path)
{
    size_t scheme = str_starts(base, S("https://")) ? 8 : 7;
    struct str rest = str_skip(base, scheme);

    *host = str_cut(rest, '/', path);
    *origin = str_head(base, scheme + host->len);
    *path = str_skip(base, origin->len);
}

/* A client that is told why, where it can read that. */
static void refuse(struct relay *r, const struct err *why)
{
    struct buf text own_buf = {0};

    buf_init(&text, 4096);
    buf_addf(&text,
             "HTTP/1.1 %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %zu\r\n"
             "Connection: close\r\n\r\n%s\n",
             why->kind == ERR_INVALID   ? "400 Bad Request"
             : why->kind == ERR_TIMEOUT ? "408 Request Timeout"
                                        : "502 Bad Gateway",
             strlen(why->msg) + 1, why->msg);
    (void)!send(r->fd, text.p, text.len, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static int fail_late(struct err *e)
{
    return err_set(e, ERR_TIMEOUT,
                   "no request came for %d s: only HTTP/1 requests go to a port of this sandbox, "
                   "because the platform leads to it by HTTP",
                   HEAD_MS / 1000);
}

/* 1: the head is whole and written anew; 0: the client went. */
static int take_head(struct relay *r, const struct ctx *ctx, struct err *e)
{
    struct str headers[COUNTOF(r->way->headers) + 1];
    struct gate g = {.headers = headers};
    struct str origin, host, path;
    struct gate_found found;
    int rc = 0;

    split_base(str_from(r->way->base), &origin, &host, &path);
    g.host = host;
    g.prefix = arena_printf(ctx->arena, "%.*s/proxy/%u", STR_ARG(path), (unsigned)r->port);
    for (size_t i = 0; i < r->way->n_headers; i++) {
        headers[g.n_headers++] = str_from(r->way->headers[i]);
    }
    if (r->way->is_proxy && r->provider->api_key[0] != '\0') {
        headers[g.n_headers++] =
            arena_printf(ctx->arena, "OPEN-SANDBOX-API-KEY: %s", r->provider->api_key);
    }
    while (rc == 0) {
        struct pollfd near = {.fd = r->fd, .events = POLLIN};
        char *room = buf_room(&r->said, 4096);

        int woken = room != NULL ? ctx_wait(ctx, &near, 1, clock_mono_ms() + HEAD_MS, e) : -1;
        if (woken <= 0) {
            return woken == 0 ? fail_late(e) : 0;
        }
        ssize_t n = recv(r->fd, room, 4096, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
            return 0;
        }
        r->said.len += n > 0 ? (size_t)n : 0;
        rc = gate_head(buf_str(&r->said), &g, &r->head, &found, e);
    }
    if (rc > 0) {
        r->is_change = found.is_change;
        buf_drop(&r->said, found.used);
    }
    return rc;
}

static int connect_far(struct relay *r, const struct ctx *ctx, struct err *e)
{
    struct str origin, host, path;
    CURLcode code;

    split_base(str_from(r->way->base), &origin, &host, &path);
    r->lib = curl_library(e);
    if (r->lib == NULL) {
        return -1;
    }
    r->easy = r->lib->easy_init();
    if (r->easy == NULL) {
        return err_set(e, ERR_SYSTEM, "libcurl gives no handle");
    }
    (void)r->lib->easy_setopt(r->easy, CURLOPT_URL, arena_cstr(ctx->arena, origin));
    (void)r->lib->easy_setopt(r->easy, CURLOPT_CONNECT_ONLY, 1L);
    (void)r->lib->easy_setopt(r->easy, CURLOPT_HTTPPROXYTUNNEL, 1L);
    (void)r->lib->easy_setopt(r->easy, CURLOPT_NOSIGNAL, 1L);
    (void)r->lib->easy_setopt(r->easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    (void)r->lib->easy_setopt(r->easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    if (r->provider->ca_file[0] != '\0') {
        (void)r->lib->easy_setopt(r->easy, CURLOPT_CAINFO, r->provider->ca_file);
    }
    code = r->lib->easy_perform(r->easy);
    if (code == CURLE_OK) {
        code = r->lib->easy_getinfo(r->easy, CURLINFO_ACTIVESOCKET, &r->socket);
    }
    return code == CURLE_OK ? 0
                            : err_set(e, ERR_UNREACHABLE, "%.*s: %s", STR_ARG(origin),
                                      r->lib->easy_strerror(code));
}

/* ---- bytes ------------------------------------------------------------------------------------- */

static bool is_empty(const struct flow *f)
{
    return f->start == f->end;
}

/* Those who asked for another protocol say nothing in it before it was agreed to. */
static bool may_speak(const struct relay *r)
{
    return !r->is_change ||
           (r->n_status == STATUS_LEN && memcmp(r->status + STATUS_LEN - 3, "101", 3) == 0);
}

static void look_at_status(struct relay *r)
{
    size_t n = r->down.end - r->down.start;
    size_t room = STATUS_LEN - r->n_status;

    n = n < room ? n : room;
    memcpy(r->status + r->n_status, r->down.bytes + r->down.start, n);
    r->n_status += n;
}

/* Each of these: 1: something was done; 0: not now; -1: it is over. */
static int read_near(struct relay *r)
{
    if (!is_empty(&r->up) || r->near_ended || !may_speak(r)) {
        return 0;
    }
    r->up.start = 0;
    if (r->said.len > 0) {
        struct str piece = str_head(buf_str(&r->said), PIECE);

        memcpy(r->up.bytes, piece.p, piece.len);
        r->up.end = piece.len;
        buf_drop(&r->said, piece.len);
        return 1;
    }
    ssize_t n = recv(r->fd, r->up.bytes, PIECE, MSG_DONTWAIT);
    if (n < 0) {
        r->up.end = 0;
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    }
    r->near_ended = n == 0;
    r->up.end = (size_t)n;
    return 1;
}

static int write_near(struct relay *r)
{
    if (is_empty(&r->down)) {
        return r->far_ended ? -1 : 0;
    }
    ssize_t n = send(r->fd, r->down.bytes + r->down.start, r->down.end - r->down.start,
                     MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0) {
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    }
    r->down.start += (size_t)n;
    return 1;
}

static int read_far(struct relay *r)
{
    size_t n = 0;

    if (!is_empty(&r->down) || r->far_ended) {
        return 0;
    }
    CURLcode code = r->lib->easy_recv(r->easy, r->down.bytes, PIECE, &n);
    if (code == CURLE_AGAIN) {
        return 0;
    }
    r->far_ended = code != CURLE_OK || n == 0;
    r->down.start = 0;
    r->down.end = r->far_ended ? 0 : n;
    look_at_status(r);
    return 1;
}

static int write_far(struct relay *r)
{
    size_t n = 0;

    if (is_empty(&r->up) || r->far_ended) {
        return 0;
    }
    CURLcode code =
        r->lib->easy_send(r->easy, r->up.bytes + r->up.start, r->up.end - r->up.start, &n);
    if (code == CURLE_AGAIN) {
        return 0;
    }
    if (code != CURLE_OK) {
        /* What was answered before is still to be read. */
        r->up.start = r->up.end;
        r->near_ended = true;
        return 1;
    }
    r->up.start += n;
    return 1;
}

static int move_once(struct relay *r)
{
    int (*const steps[])(struct relay *) = {write_far, read_near, read_far, write_near};
    int done = 0;

    for (size_t i = 0; i < COUNTOF(steps); i++) {
        int rc = steps[i](r);

        if (rc < 0) {
            return -1;
        }
        done |= rc;
    }
    return done;
}

static void keep_alive(struct relay *r, int64_t *used_ms)
{
    struct arena arena own_arena = {0};
    struct ctx ctx = {.arena = &arena, .cancel = &r->provider->closing};

    if (clock_mono_ms() - *used_ms < USE_MS) {
        return;
    }
    arena_init(&arena, USE_ARENA);
    osb_use(r->box, &ctx);
    *used_ms = clock_mono_ms();
}

static void move_all(struct relay *r, const struct ctx *ctx)
{
    int64_t used_ms = clock_mono_ms();
    struct err ignored;

    for (;;) {
        int rc = move_once(r);

        if (rc < 0) {
            return;
        }
        if (rc > 0) {
            keep_alive(r, &used_ms);
            continue;
        }
        bool hears = is_empty(&r->up) && !r->near_ended && may_speak(r);
        struct pollfd fds[2] = {{.fd = r->fd}, {.fd = r->socket}};

        fds[0].events = (short)((hears ? POLLIN : 0) | (is_empty(&r->down) ? 0 : POLLOUT));
        fds[1].events = (short)((is_empty(&r->down) && !r->far_ended ? POLLIN : 0) |
                                (is_empty(&r->up) || r->far_ended ? 0 : POLLOUT));
        if (fds[1].events == 0) {
            fds[1].fd = -1; /* its end would be told again and again */
        }
        if (ctx_wait(ctx, fds, 2, 0, &ignored) < 0 || (fds[0].revents & (POLLHUP | POLLERR)) != 0) {
            return;
        }
    }
}

static void run_relay(void *arg)
{
    struct relay *r = arg;
    struct arena arena own_arena = {0};
    struct ctx ctx = {.arena = &arena, .cancel = &r->provider->closing};
    struct err e;

    arena_init(&arena, USE_ARENA);
    int rc = take_head(r, &ctx, &e);
    if (rc > 0) {
        rc = connect_far(r, &ctx, &e) < 0 ? -1 : 1;
    }
    if (rc < 0) {
        refuse(r, &e);
    } else if (rc > 0) {
        /* The head may be longer than a piece: it is the first that goes up. */
        r->up.end = r->head.len;
        r->up.bytes = xrealloc(r->up.bytes, r->head.len > PIECE ? r->head.len : PIECE, 1);
        memcpy(r->up.bytes, r->head.p, r->head.len);
        r->down.bytes = xrealloc(NULL, PIECE, 1);
        move_all(r, &ctx);
    }
    relay_free(r);
}

/* ---- dialling ----------------------------------------------------------------------------------- */

static int check_listens(struct osb_box *b, const struct ctx *ctx, uint16_t port, struct err *e)
{
    struct buf script own_buf = {0}, said own_buf = {0};
    int status = 0;

    {
        LOCKED(&b->lock);
        if (b->heard_port == port && clock_mono_ms() - b->heard_ms < BELIEVED_MS) {
            return 0;
        }
    }
    buf_init(&script, 1024);
    buf_init(&said, 4096);
    buf_addf(&script,
             "[ -r /proc/net/tcp ]||exit 0;cat /proc/net/tcp /proc/net/tcp6 2>/dev/null|"
             "grep -q ':%04X [0-9A-F]*:0000 0A'",
             (unsigned)port);
    if (osb_run(b, ctx, NULL, buf_str(&script), &said, &status, e) < 0) {
        return -1;
    }
    if (status == 1) {
        return err_set(e, ERR_NOT_FOUND, "nothing listens on port %u in the sandbox",
                       (unsigned)port);
    }
    LOCKED(&b->lock);
    b->heard_port = port;
    b->heard_ms = clock_mono_ms();
    return 0;
}

static int start_relay(struct osb_box *b, const struct way *way, uint16_t port, int fd,
                       struct err *e)
{
    struct osb_provider *p = osb_of(b->box.provider);
    struct relay *r = xcalloc(1, sizeof(*r));

    r->box = osb_box_of(box_ref(&b->box));
    r->provider = p;
    r->way = xcalloc(1, sizeof(*r->way));
    *r->way = *way;
    r->port = port;
    r->fd = fd;
    buf_init(&r->said, GATE_HEAD_MAX + 8192);
    buf_init(&r->head, (size_t)2 * GATE_HEAD_MAX);
    {
        LOCKED(&p->lock);
        if (p->relays == NULL) {
            p->relays = pool_new("osb-port", PORTS_MAX);
        }
    }
    if (pool_run(p->relays, run_relay, r, e) < 0) {
        relay_free(r);
        return err_set(e, ERR_LIMIT, "%d connections to ports of sandboxes are open, the most",
                       PORTS_MAX);
    }
    return 0;
}

static int dial(struct box *box, const struct ctx *ctx, uint16_t port, struct err *e)
{
    struct osb_box *b = osb_box_of(box);
    struct way *way own_mem = xcalloc(1, sizeof(*way));
    int ends[2];

    if (check_listens(b, ctx, port, e) < 0 || osb_reach(b, ctx, way, e) < 0) {
        return -1;
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0) {
        return err_sys(e, errno, "make a pair of sockets");
    }
    if (start_relay(b, way, port, ends[1], e) < 0) {
        (void)close(ends[0]);
        return -1;
    }
    return ends[0];
}

void osb_ports_free(struct osb_provider *p)
{
    cancel_fire(&p->closing);
    pool_free(p->relays);
    cancel_fini(&p->closing);
}

const struct port_ops osb_ports = {.dial = dial};
