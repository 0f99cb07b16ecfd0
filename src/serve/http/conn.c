/*
 * conn.c - libmicrohttpd's callbacks: connections, and requests from their first line to the
 * handler. All of it runs on libmicrohttpd's one thread.
 *
 * A request that is refused is answered when its body was read and thrown away, so that the
 * client, which is still sending, sees the answer and can go on with the connection. Only a
 * body that is too long for that is answered at once, and the connection closed.
 *
 * libmicrohttpd ends connections on which nothing moves; that something moves now and then
 * does not help a client here: each part of a request has its time, see is_too_slow().
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "serve/http/admit.h"
#include "serve/http/http_own.h"
#include "serve/http/route.h"

#define POOL_SIZE    ((size_t)7 << 10) /* of a connection: headers, and chunks on their way out */
#define DISCARD_MAX  (16ll << 20)      /* of a body that nobody wants */
#define BODIES_MAX   (128ll << 20)     /* bodies of one key that are in memory */
#define BODY_RATE    1024              /* bytes a second that a body must have in the long run */
#define LOOK_MS      5000              /* how often we look for slow clients, at least */
#define STACK_SIZE   ((size_t)512 << 10)
#define PER_IP_LIMIT 256

/* ---- connections ----------------------------------------------------------------------- */

static void set_state(struct http *h, struct conn *c, enum conn_state state)
{
    if (c == NULL) {
        return;
    }
    LOCKED(&h->lock);
    c->state = state;
    c->since_ms = clock_mono_ms();
    c->bytes = 0;
}

static void on_connection(void *cls, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct http *h = cls;
    const union MHD_ConnectionInfo *info;
    struct conn *c = *context;

    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        lock(&h->lock);
        list_del(&c->link);
        unlock(&h->lock);
        free(c);
        *context = NULL;
        count_move(&h->counts.connections, -1);
        return;
    }
    info = h->mhd.get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    c = xcalloc(1, sizeof(*c));
    c->fd = info != NULL ? info->connect_fd : -1;
    c->state = CONN_HEAD; /* who connects has something to say */
    c->since_ms = clock_mono_ms();
    *context = c;
    count_move(&h->counts.connections, 1);
    count_add(&h->counts.connected, 1);
    LOCKED(&h->lock);
    list_add_tail(&h->conns, &c->link);
}

static bool is_too_slow(const struct http *h, const struct conn *c, int64_t now)
{
    const struct config *config = h->services->config;
    int64_t limit_ms = config->http_request_s * 1000;

    switch (c->state) {
    case CONN_HEAD: break;
    case CONN_IDLE: limit_ms += config->http_idle_s * 1000; break;
    case CONN_BODY: limit_ms += (int64_t)(c->bytes * 1000 / BODY_RATE); break;
    case CONN_BUSY: return false;
    }
    return now - c->since_ms > limit_ms;
}

/* libmicrohttpd then reads an end of file and lets go of the connection by itself. */
void conn_alarm(struct alarm *a)
{
    struct http *h = CONTAINER_OF(a, struct http, slow);
    int64_t now = clock_mono_ms();
    int64_t look_ms = h->services->config->http_request_s * 1000 / 4;
    struct list *pos;

    lock(&h->lock);
    list_each (pos, &h->conns) {
        struct conn *c = list_entry(pos, struct conn, link);

        if (c->fd >= 0 && is_too_slow(h, c, now)) {
            log_line(LOG_INFO, "http", "msg=\"client is too slow\"");
            (void)shutdown(c->fd, SHUT_RDWR);
        }
    }
    unlock(&h->lock);
    watch_at(h->watch, a, now + (look_ms < LOOK_MS ? look_ms : LOOK_MS));
}

/* ---- requests ---------------------------------------------------------------------------- */

static void *on_uri(void *cls, const char *uri, struct MHD_Connection *connection)
{
    struct http *h = cls;
    struct live *l = live_new(h, uri);
    const union MHD_ConnectionInfo *info;

    l->mhd = connection;
    info = h->mhd.get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    l->conn = info != NULL ? info->socket_context : NULL;
    set_state(h, l->conn, CONN_HEAD);
    return l;
}

static const char *method_name(enum http_method method)
{
    switch (method) {
    case HTTP_GET: return "GET";
    case HTTP_HEAD: return "HEAD";
    case HTTP_POST: return "POST";
    case HTTP_PUT: return "PUT";
    case HTTP_DELETE: return "DELETE";
    case HTTP_OPTIONS: return "OPTIONS";
    case HTTP_OTHER: break;
    }
    return "other";
}

/* Without the query: there are signatures in it. */
static void log_request(const struct live *l, unsigned status)
{
    char path[LOG_QUOTE_SIZE], owner[LOG_QUOTE_SIZE];
    struct str rest;

    log_line(LOG_INFO, "http", "method=%s path=%s owner=%s status=%u received=%llu ms=%lld",
             method_name(l->pub.method), log_quote(str_cut(str_from(l->uri), '?', &rest), path),
             log_quote(l->pub.caller != NULL ? l->pub.caller->scope.owner : STR_EMPTY, owner),
             status, (unsigned long long)l->received, (long long)(clock_mono_ms() - l->started_ms));
}

static void on_completed(void *cls, struct MHD_Connection *connection, void **context,
                         enum MHD_RequestTerminationCode code)
{
    struct http *h = cls;
    struct live *l = *context;
    unsigned status;

    (void)connection;
    if (l == NULL) {
        return;
    }
    *context = NULL;
    set_state(h, l->conn, CONN_IDLE);
    lock(&l->lock); /* The handler of an upload may still be about to answer. */
    status = l->status;
    unlock(&l->lock);
    count_add(&h->counts.requests[status / 100 < 6 ? status / 100 : 0], 1);
    count_add(&h->counts.bytes_in, l->received);
    log_request(l, status);
    live_done(l, code == MHD_REQUEST_TERMINATED_COMPLETED_OK);
}

/* Gives the answer to libmicrohttpd, if it is there. */
static enum MHD_Result queue_answer(struct live *l)
{
    const struct mhd *mhd = &l->pub.http->mhd;
    struct MHD_Response *response;
    enum MHD_Result rc;

    lock(&l->lock);
    response = l->response;
    l->response = NULL;
    if (response == NULL && !l->answered) {
        live_suspend_locked(l);
    }
    unlock(&l->lock);
    if (response == NULL) {
        return MHD_YES;
    }
    rc = mhd->queue_response(l->mhd, l->status, response);
    mhd->destroy_response(response);
    return rc;
}

/* `refs` are those of the core itself: with more, somebody will answer later. */
static void check_answer(struct live *l, unsigned refs)
{
    bool forgotten;

    lock(&l->lock);
    forgotten = !l->answered && !l->gone && atomic_load(&l->refs) == refs;
    unlock(&l->lock);
    if (forgotten) {
        request_fail(&l->pub, MHD_HTTP_INTERNAL_SERVER_ERROR, "bug",
                     "The server gave no answer, which is a mistake of its own.");
    }
}

/* On a thread of services->calls. */
static void run_handler(void *arg)
{
    struct live *l = arg;

    l->pub.route->run(&l->pub);
    check_answer(l, 2);
    request_unref(&l->pub);
}

static void start_handler(struct live *l)
{
    struct http *h = l->pub.http;
    struct err e;

    request_hold(&l->pub);
    if (cancel_init(&l->cancel, &e) < 0) {
        request_fail(&l->pub, MHD_HTTP_SERVICE_UNAVAILABLE, "limit", "%s", e.msg);
        request_unref(&l->pub);
        return;
    }
    l->has_cancel = true;
    l->pub.ctx.cancel = &l->cancel;
    if (pool_run(h->services->calls, run_handler, l, &e) < 0) {
        request_set_header(&l->pub, "Retry-After", S("1"));
        request_fail(&l->pub, MHD_HTTP_SERVICE_UNAVAILABLE, "limit", "%s", e.msg);
        request_unref(&l->pub);
    }
}

/* All of the request is there. */
static enum MHD_Result on_whole(struct live *l)
{
    struct request *r = &l->pub;

    l->phase = LIVE_RUNS;
    set_state(r->http, l->conn, CONN_BUSY);
    r->body = buf_str(&l->body);
    if ((r->route->flags & ROUTE_QUICK) != 0) {
        r->route->run(r);
        check_answer(l, 1);
        return queue_answer(l);
    }
    /* First it is suspended, so that the handler finds it so. */
    lock(&l->lock);
    live_suspend_locked(l);
    unlock(&l->lock);
    start_handler(l);
    live_watch(l);
    return MHD_YES;
}

static enum MHD_Result on_headers(struct live *l, const char *method)
{
    bool refused = !admit(l, method);

    set_state(l->pub.http, l->conn, CONN_BODY);
    if (refused) {
        l->phase = LIVE_DISCARD;
        /* Answered before the body is read, the connection is closed behind the answer. */
        return l->length > DISCARD_MAX ? queue_answer(l) : MHD_YES;
    }
    if ((l->pub.route->flags & ROUTE_UPLOAD) != 0) {
        l->phase = LIVE_UPLOAD;
        live_keep_headers(l);
        flow_open_upload(l);
        start_handler(l);
        live_watch(l);
        return MHD_YES;
    }
    l->phase = LIVE_BODY;
    buf_init(&l->body, l->pub.route->body_max);
    return MHD_YES;
}

/* Who sends on and on what nobody reads. Up to a length the answer waits for the end of it. */
static bool is_endless(const struct live *l)
{
    uint64_t read = 0;

    if (l->phase == LIVE_UPLOAD) {
        read = request_body_max(&l->pub);
    } else if (l->phase == LIVE_BODY) {
        read = l->pub.route->body_max;
    }
    return l->received > read && l->received - read > DISCARD_MAX;
}

static void keep_body(struct live *l, struct str bytes)
{
    long long all = atomic_fetch_add(&l->pub.caller->body_bytes, (long long)bytes.len);

    l->body_counted += bytes.len;
    buf_add(&l->body, bytes);
    if (l->body.cut) {
        admit_refuse_length(l);
    } else if (all + (long long)bytes.len > BODIES_MAX) {
        admit_refuse_bodies(l, BODIES_MAX);
    } else {
        return;
    }
    live_free_body(l);
    l->phase = LIVE_DISCARD;
}

static enum MHD_Result on_body(struct live *l, const char *bytes, size_t *n)
{
    size_t taken = *n;

    if (l->phase == LIVE_UPLOAD) {
        taken = flow_push(l, bytes, *n);
    } else if (l->phase == LIVE_BODY && l->pub.route->body_max > 0) {
        keep_body(l, (struct str){bytes, *n});
    }
    l->received += taken;
    if (l->conn != NULL) {
        LOCKED(&l->pub.http->lock);
        l->conn->bytes = l->received;
    }
    *n -= taken;
    return is_endless(l) ? MHD_NO : MHD_YES;
}

static enum MHD_Result on_access(void *cls, struct MHD_Connection *connection, const char *url,
                                 const char *method, const char *version, const char *upload,
                                 size_t *upload_size, void **context)
{
    struct live *l = *context;

    (void)cls;
    (void)url;
    (void)connection;
    (void)version;
    if (l == NULL) {
        return MHD_NO;
    }
    if (l->phase == LIVE_FRESH) {
        return on_headers(l, method);
    }
    if (*upload_size > 0) {
        return on_body(l, upload, upload_size);
    }
    switch (l->phase) {
    case LIVE_FRESH:
    case LIVE_BODY: return on_whole(l);
    case LIVE_UPLOAD:
        flow_push_end(l);
        l->phase = LIVE_RUNS;
        set_state(l->pub.http, l->conn, CONN_BUSY);
        return queue_answer(l);
    case LIVE_DISCARD:
    case LIVE_RUNS: break;
    }
    return queue_answer(l);
}

/* ---- start --------------------------------------------------------------------------------- */

static void on_log(void *cls, const char *fmt, va_list args)
{
    char text[256];
    char quoted[LOG_QUOTE_SIZE];
    int n;

    (void)cls;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    n = vsnprintf(text, sizeof(text), fmt, args);
#pragma GCC diagnostic pop
    if (n > 0) {
        log_line(LOG_DEBUG, "http", "library=%s", log_quote(str_trim(str_from(text)), quoted));
    }
}

/* We take paths and queries apart ourselves. */
static size_t leave_escapes(void *cls, struct MHD_Connection *connection, char *text)
{
    (void)cls;
    (void)connection;
    return strlen(text);
}

/* Calls and boxes need descriptors too: clients without a key must not have them all. */
static unsigned most_connections(const struct config *config)
{
    unsigned most = (unsigned)config->http_max_connections;
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) < 0 || most <= files.rlim_cur - (files.rlim_cur / 4)) {
        return most;
    }
    most = (unsigned)(files.rlim_cur - (files.rlim_cur / 4));
    log_line(LOG_WARN, "http", "msg=\"few open files are allowed\" limit=%llu max_connections=%u",
             (unsigned long long)files.rlim_cur, most);
    return most;
}

int conn_start(struct http *h, int listener, bool loopback, struct err *e)
{
    const struct config *config = h->services->config;
    struct MHD_OptionItem options[] = {
        {MHD_OPTION_EXTERNAL_LOGGER, (intptr_t)on_log, NULL},
        {MHD_OPTION_LISTEN_SOCKET, listener, NULL},
        {MHD_OPTION_CONNECTION_MEMORY_LIMIT, POOL_SIZE, NULL},
        {MHD_OPTION_CONNECTION_LIMIT, most_connections(config), NULL},
        {MHD_OPTION_PER_IP_CONNECTION_LIMIT, loopback ? 0 : PER_IP_LIMIT, NULL},
        {MHD_OPTION_CONNECTION_TIMEOUT, (intptr_t)config->http_idle_s, NULL},
        {MHD_OPTION_THREAD_STACK_SIZE, STACK_SIZE, NULL},
        {MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, NULL},
        {MHD_OPTION_NOTIFY_CONNECTION, (intptr_t)on_connection, h},
        {MHD_OPTION_URI_LOG_CALLBACK, (intptr_t)on_uri, h},
        {MHD_OPTION_UNESCAPE_CALLBACK, (intptr_t)leave_escapes, NULL},
        {MHD_OPTION_NOTIFY_COMPLETED, (intptr_t)on_completed, h},
        {MHD_OPTION_END, 0, NULL},
    };
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;

    errno = 0;
    h->daemon = h->mhd.start_daemon(flags, 0, NULL, NULL, on_access, h, MHD_OPTION_ARRAY, options,
                                    MHD_OPTION_END);
    if (h->daemon == NULL) {
        return err_sys(e, errno != 0 ? errno : EINVAL, "start the HTTP server");
    }
    return 0;
}
