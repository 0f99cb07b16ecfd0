/*
 * http.c - the HTTP server from its start to its end.
 *
 * The thread that calls http_serve() opens the port, starts the others and sleeps until a
 * signal. Leaving: no new connections and no new work; streams that only wait are closed with
 * their last words; calls have GRACE_MS to end by themselves, then they are cancelled, which
 * kills their commands and lets them answer. When all connections that we suspended have their
 * answer, libmicrohttpd is stopped. What does not end by then is left to _exit(): nothing that
 * we keep is hurt by that, and boxes end by their own clocks.
 */
#include "serve/http/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "base/thread.h"
#include "core/token.h"
#include "mcp/mcp.h"
#include "serve/http/http_own.h"
#include "serve/http/keys.h"
#include "serve/http/openapi.h"
#include "serve/http/session.h"

#define BACKLOG   1024
#define GRACE_MS  1500 /* for calls to end by themselves */
#define CANCEL_MS 2000 /* for those that were cancelled */
#define LAST_MS   500  /* for connections that were cut off */
#define SLICE_MS  20

/* ---- the port -------------------------------------------------------------------------- */

static bool is_loopback(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const void *)a;

        return (ntohl(in->sin_addr.s_addr) >> 24) == 127;
    }
    return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr);
}

static bool is_any(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET) {
        return ((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr == htonl(INADDR_ANY);
    }
    return IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr);
}

static int look_up(const struct http_options *o, struct addrinfo **out, struct err *e)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_ADDRCONFIG};
    char host[256], port[16];
    int rc;

    (void)snprintf(host, sizeof(host), "%.*s", STR_ARG(o->host));
    (void)snprintf(port, sizeof(port), "%u", o->port);
    /* Numbers first, since they need no network to be configured. */
    hints.ai_flags |= AI_NUMERICHOST;
    rc = getaddrinfo(host, port, &hints, out);
    if (rc != 0) {
        hints.ai_flags = AI_PASSIVE;
        rc = getaddrinfo(host, port, &hints, out);
    }
    if (rc != 0) {
        return err_set(e, ERR_INVALID,
                       "the host \"%s\" is no address of this machine and no name of one (%s); "
                       "use 127.0.0.1, or 0.0.0.0 for all addresses",
                       host, gai_strerror(rc));
    }
    return 0;
}

static int listen_on(const struct addrinfo *a, const struct http_options *o, struct err *e)
{
    int fd own_fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int one = 1;

    if (fd < 0) {
        return err_sys(e, errno, "make a socket");
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0) {
        return take_fd(&fd);
    }
    switch (errno) {
    case EADDRINUSE:
        return err_set(e, ERR_EXISTS,
                       "port %u on %.*s is in use by another program; choose another one with "
                       "--port, or 0 for any that is free",
                       o->port, STR_ARG(o->host));
    case EADDRNOTAVAIL:
        return err_set(e, ERR_INVALID,
                       "%.*s is not an address of this machine; use 127.0.0.1, or 0.0.0.0 for all "
                       "addresses",
                       STR_ARG(o->host));
    case EACCES:
        return err_set(e, ERR_DENIED,
                       "port %u may not be opened by this user; choose one from 1024 on", o->port);
    default: return err_sys(e, errno, "listen on %.*s:%u", STR_ARG(o->host), o->port);
    }
}

/* What the port turned out to be, and how a client on this machine reaches it. */
struct place {
    char address[INET6_ADDRSTRLEN];
    char url[INET6_ADDRSTRLEN + 32];
    bool loopback, any;
};

static void name_place(int fd, struct place *out)
{
    struct sockaddr_storage bound = {0};
    socklen_t len = sizeof(bound);
    const struct sockaddr_in6 *in6 = (const void *)&bound;
    const struct sockaddr_in *in = (const void *)&bound;
    bool six;
    const char *shown;

    (void)getsockname(fd, (struct sockaddr *)&bound, &len);
    six = bound.ss_family == AF_INET6;
    (void)inet_ntop(bound.ss_family, six ? (const void *)&in6->sin6_addr : &in->sin_addr,
                    out->address, sizeof(out->address));
    out->loopback = is_loopback((const struct sockaddr *)&bound);
    out->any = is_any((const struct sockaddr *)&bound);
    shown = !out->any ? out->address : six ? "::1" : "127.0.0.1";
    (void)snprintf(out->url, sizeof(out->url), six ? "http://[%s]:%u/mcp" : "http://%s:%u/mcp",
                   shown, ntohs(six ? in6->sin6_port : in->sin_port));
}

static int open_port(const struct http_options *o, struct place *place, struct err *e)
{
    struct addrinfo *found = NULL;
    int fd;

    if (look_up(o, &found, e) < 0) {
        return -1;
    }
    if (o->no_auth && !is_loopback(found->ai_addr)) {
        freeaddrinfo(found);
        return err_set(e, ERR_DENIED,
                       "without keys the server listens on this machine only, and %.*s is open to "
                       "others: leave --no-auth (or auth.require_auth = false) away, or use "
                       "--host 127.0.0.1",
                       STR_ARG(o->host));
    }
    fd = listen_on(found, o, e);
    freeaddrinfo(found);
    if (fd >= 0) {
        name_place(fd, place);
    }
    return fd;
}

/* ---- leaving ----------------------------------------------------------------------------- */

static bool has_requests(struct http *h)
{
    LOCKED(&h->lock);

    return !list_empty(&h->requests);
}

static void end_all(struct http *h, enum end_why why)
{
    struct live **all own_mem = NULL;
    struct list *pos;
    size_t n = 0;

    lock(&h->lock);
    list_each (pos, &h->requests) {
        n++;
    }
    all = xcalloc(n + 1, sizeof(struct live *));
    n = 0;
    list_each (pos, &h->requests) {
        all[n] = list_entry(pos, struct live, link);
        request_hold(&all[n]->pub);
        n++;
    }
    unlock(&h->lock);
    for (size_t i = 0; i < n; i++) {
        live_end(all[i], why);
        request_unref(&all[i]->pub);
    }
}

static void wait_for_requests(struct http *h, int signals, int64_t until_ms)
{
    while (has_requests(h) && clock_mono_ms() < until_ms) {
        struct pollfd hurried = {.fd = signals, .events = POLLIN};

        if (poll(&hurried, 1, SLICE_MS) > 0) {
            _exit(1); /* somebody is in a hurry */
        }
    }
}

/* Who is still sending gets no answer any more; at the very end nor does who does not read. */
static void cut_off(struct http *h, bool all)
{
    struct list *pos;
    LOCKED(&h->lock);

    list_each (pos, &h->conns) {
        const struct conn *c = list_entry(pos, struct conn, link);

        if (c->fd >= 0 && (all || c->state != CONN_BUSY)) {
            (void)shutdown(c->fd, SHUT_RDWR);
        }
    }
}

static void leave(struct http *h, int signals)
{
    int64_t start = clock_mono_ms();
    int listener = h->mhd.quiesce_daemon(h->daemon);

    if (listener >= 0) {
        (void)close(listener);
    }
    atomic_store(&h->leaving, true);
    sessions_close(h->sessions);
    wait_for_requests(h, signals, start + GRACE_MS);
    cut_off(h, false);
    while (has_requests(h) && clock_mono_ms() < start + GRACE_MS + CANCEL_MS) {
        end_all(h, END_LEAVING);
        wait_for_requests(h, signals, clock_mono_ms() + ((int64_t)10 * SLICE_MS));
    }
    cut_off(h, true);
    wait_for_requests(h, signals, clock_mono_ms() + LAST_MS);
    if (has_requests(h) || !pool_drain(h->services->calls, CANCEL_MS)) {
        log_line(LOG_WARN, "http", "msg=\"calls did not end in time\"");
        _exit(0);
    }
    h->mhd.stop_daemon(h->daemon);
    h->daemon = NULL;
}

/* ---- running ------------------------------------------------------------------------------- */

static int open_signals(sigset_t *old, struct err *e)
{
    sigset_t mask;
    int fd;

    (void)signal(SIGPIPE, SIG_IGN);
    (void)sigemptyset(&mask);
    (void)sigaddset(&mask, SIGTERM);
    (void)sigaddset(&mask, SIGINT);
    (void)sigaddset(&mask, SIGHUP);
    (void)pthread_sigmask(SIG_BLOCK, &mask, old);
    fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    return fd < 0 ? err_sys(e, errno, "signalfd") : fd;
}

static void wait_for_signal(int signals)
{
    struct pollfd one = {.fd = signals, .events = POLLIN};
    struct signalfd_siginfo info;

    while (poll(&one, 1, -1) <= 0) {
    }
    (void)!read(signals, &info, sizeof(info));
}

static int open_keys(struct http *h, struct buf *made_key, struct err *e)
{
    bool made = false;

    if (h->options->no_auth) {
        return 0;
    }
    h->keys = keys_open(h->services->config, e);
    if (h->keys == NULL) {
        return -1;
    }
    return keys_need_one(h->keys, made_key, &made, e);
}

static int start(struct http *h, int *listener, const struct place *place, struct buf *made_key,
                 struct err *e)
{
    const struct config *config = h->services->config;

    if (mhd_open(&h->mhd, e) < 0 || tokens_ready(h->services->tokens, e) < 0 ||
        open_keys(h, made_key, e) < 0) {
        return -1;
    }
    h->watch = watch_new(e);
    if (h->watch == NULL) {
        return -1;
    }
    h->guard = (struct guard){
        .hosts = config->http_hosts,
        .origins = config->http_cors_origins,
        .bound = str_from(place->address),
        .any_address = place->any,
    };
    if (h->options->no_auth && guard_any_origin(&h->guard)) {
        return err_set(
            e, ERR_DENIED,
            "without keys and with http.cors_origins = \"*\" every page of the web that is "
            "looked at on this machine could use the server: name the origins, or leave "
            "--no-auth (or auth.require_auth = false) away");
    }
    h->mcp = mcp_new(h->services, h->options->toolsets);
    h->callers = callers_new(h);
    h->sessions = sessions_new(h);
    if (conn_start(h, *listener, place->loopback, e) < 0) {
        return -1;
    }
    *listener = -1; /* the daemon's now */
    h->slow.fire = conn_alarm;
    watch_at(h->watch, &h->slow, clock_mono_ms());
    return 0;
}

static void release(struct http *h)
{
    if (h->watch != NULL) {
        watch_at_off(h->watch, &h->slow);
    }
    sessions_free(h->sessions);
    if (atomic_load(&h->n_live) != 0) {
        log_line(LOG_WARN, "http", "msg=\"requests were not freed\" n=%d", atomic_load(&h->n_live));
    }
    openapi_free(h->openapi);
    callers_free(h->callers);
    mcp_free(h->mcp);
    watch_free(h->watch);
    keys_close(h->keys);
    (void)pthread_mutex_destroy(&h->lock);
}

static int serve(struct http *h, int signals, struct err *e)
{
    struct place place = {0};
    struct buf made_key own_buf = {0};
    int listener own_fd = open_port(h->options, &place, e);

    buf_init(&made_key, KEY_LEN_MAX);
    if (listener < 0 || start(h, &listener, &place, &made_key, e) < 0) {
        return -1;
    }
    if (h->options->ready != NULL) {
        h->options->ready(h->options->arg, str_from(place.url), buf_str(&made_key));
    }
    buf_fini(&made_key);
    wait_for_signal(signals);
    leave(h, signals);
    return 0;
}

int http_serve(const struct services *services, const struct http_options *options, struct err *e)
{
    struct http h = {.services = services, .options = options};
    sigset_t old;
    int signals own_fd = open_signals(&old, e);
    int rc;

    if (signals < 0) {
        return -1;
    }
    (void)pthread_mutex_init(&h.lock, NULL);
    list_init(&h.requests);
    list_init(&h.conns);
    rc = serve(&h, signals, e);
    release(&h);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    return rc;
}
