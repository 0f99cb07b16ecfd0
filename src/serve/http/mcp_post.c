#include "serve/http/mcp_post.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "mcp/check.h"
#include "serve/http/http_own.h"

#define LOOK_MS   500  /* when we begin to look whether the client is still there */
#define EVENTS_MS 1000 /* when the answer becomes a stream; alarms come up to 500 ms late */

static struct post *post_of(struct peer *p)
{
    return CONTAINER_OF(p, struct post, peer);
}

/* ---- answers; p->lock is held -------------------------------------------------------- */

/* A problem of the transport's own kind is told by the status too. */
static unsigned status_of(const struct post *p, struct str message)
{
    if (rpc_error_code(message, STR_EMPTY) != 0) {
        return MHD_HTTP_BAD_REQUEST; /* nobody's answer: the message as a whole is wrong */
    }
    if (!p->modern) {
        return MHD_HTTP_OK;
    }
    switch (rpc_error_code(message, p->raw_id)) {
    case RPC_METHOD_NOT_FOUND: return MHD_HTTP_NOT_FOUND;
    case RPC_HEADER_MISMATCH:
    case RPC_MISSING_CAPABILITY:
    case RPC_UNSUPPORTED_VERSION: return MHD_HTTP_BAD_REQUEST;
    default: return MHD_HTTP_OK;
    }
}

static void open_stream(struct post *p)
{
    p->stream = stream_open(p->r);
    p->state = POST_STREAMS;
}

static void close_stream(struct post *p)
{
    stream_close(p->stream);
    stream_unref(p->stream);
    p->stream = NULL;
    p->state = POST_DONE;
}

static void name_session(struct post *p)
{
    struct buf id own_buf = {0};
    struct err e;

    buf_init(&id, 8192);
    if (session_make(p->r->http->sessions, p->r->caller, (enum revision)p->peer.legacy, p->peer.can,
                     &id, &e) < 0) {
        log_line(LOG_ERROR, "http", "msg=\"no session\" problem=\"%s\"", e.msg);
        return;
    }
    request_set_header(p->r, "Mcp-Session-Id", buf_str(&id));
}

/* Before the answer leaves: who has it may send the next call at once. */
static void count_out(struct post *p)
{
    caller_leave(p->r->caller, p->calls);
    p->calls = 0;
}

static void send_first(struct post *p, struct str message, enum send_kind kind)
{
    if (kind == SEND_ANSWER) {
        unsigned status = status_of(p, message);

        p->state = POST_DONE;
        if (p->initialize && rpc_error_code(message, p->raw_id) == 0) {
            name_session(p);
        }
        request_reply(p->r, status, "application/json", message);
        return;
    }
    if (p->takes_events) {
        open_stream(p);
        (void)stream_send(p->stream, message, kind == SEND_NOTICE);
    }
}

static void send_message(struct peer *peer, struct str message, enum send_kind kind)
{
    struct post *p = post_of(peer);
    LOCKED(&p->lock);

    if (kind == SEND_ANSWER) {
        count_out(p);
    }
    switch (p->state) {
    case POST_WAITS: send_first(p, message, kind); break;
    case POST_STREAMS:
        (void)stream_send(p->stream, message, kind == SEND_NOTICE);
        if (kind == SEND_ANSWER) {
            close_stream(p);
        }
        break;
    case POST_DONE: break;
    }
}

/* All that could answer has ended: the client took its request back. */
static void end_empty(struct post *p)
{
    count_out(p);
    if (p->state == POST_WAITS && p->takes_events) {
        open_stream(p);
    }
    if (p->state == POST_STREAMS) {
        close_stream(p);
    } else if (p->state == POST_WAITS) {
        p->state = POST_DONE;
        request_reply(p->r, MHD_HTTP_ACCEPTED, NULL, STR_EMPTY);
    }
}

/* ---- lifetime --------------------------------------------------------------------------- */

static void hold(struct peer *peer)
{
    struct post *p = post_of(peer);
    LOCKED(&p->lock);

    p->busy++;
    request_hold(p->r);
}

static void release(struct peer *peer)
{
    struct post *p = post_of(peer);

    lock(&p->lock);
    p->busy--;
    if (p->busy == 0) {
        end_empty(p);
    }
    unlock(&p->lock);
    request_unref(p->r);
}

static const struct peer_ops ops = {
    .send = send_message,
    .transport = "http",
    .hold = hold,
    .release = release,
};

static void on_alarm(struct alarm *a)
{
    struct post *p = CONTAINER_OF(a, struct post, alarm);
    int64_t events_ms = p->started_ms + EVENTS_MS;

    live_watch(LIVE_OF(p->r));
    LOCKED(&p->lock);
    if (p->state != POST_WAITS || !p->takes_events) {
        return;
    }
    if (clock_mono_ms() < events_ms) {
        watch_at(p->r->http->watch, a, events_ms);
        return;
    }
    open_stream(p);
}

static void on_end(void *arg, enum end_why why)
{
    struct post *p = arg;

    if (why == END_LEAVING || p->modern) {
        peer_cancel(&p->peer);
    }
}

static void free_post(void *arg)
{
    struct post *p = arg;
    struct http *h = p->r->http;

    watch_at_off(h->watch, &p->alarm);
    if (p->session != NULL) {
        lock(&p->session->lock);
        list_del(&p->link);
        unlock(&p->session->lock);
        session_unref(h->sessions, p->session);
    }
    count_out(p);
    peer_fini(&p->peer);
    (void)pthread_mutex_destroy(&p->lock);
    free(p);
}

struct post *post_new(struct request *r, struct session *session, bool modern, bool takes_events)
{
    struct post *p = xcalloc(1, sizeof(*p));

    p->r = r;
    p->session = session;
    p->modern = modern;
    p->takes_events = takes_events;
    p->alarm.fire = on_alarm;
    p->started_ms = clock_mono_ms();
    p->busy = 1;
    LIVE_OF(r)->patient = !modern;
    (void)pthread_mutex_init(&p->lock, NULL);
    peer_init(&p->peer, &ops, r->http->mcp, session != NULL ? &session->scope : &r->caller->scope);
    p->peer.link_base = request_base_url(r);
    if (session != NULL) {
        /* A question goes out as an event; who takes none cannot be asked. */
        peer_set_legacy(&p->peer, (int)session->rev, takes_events ? session->can : 0);
        lock(&session->lock);
        if (session->level >= 0) {
            p->peer.level = session->level;
        }
        list_add_tail(&session->posts, &p->link);
        unlock(&session->lock);
    }
    live_own(LIVE_OF(r), p, free_post, on_end);
    return p;
}

/* What logging/setLevel chose is good for the requests that follow. */
static void keep_level(struct post *p, int before)
{
    int now;

    lock(&p->peer.lock);
    now = p->peer.level;
    unlock(&p->peer.lock);
    if (p->session != NULL && now != before) {
        LOCKED(&p->session->lock);
        p->session->level = now;
    }
}

void post_take(struct post *p, struct mcp_message *m)
{
    struct request *r = p->r;
    int level = p->peer.level;
    bool waits;

    request_hold(r);
    mcp_take(&p->peer, m);
    keep_level(p, level);
    lock(&p->lock);
    if (p->state == POST_WAITS && p->busy > 1 && p->wants_events) {
        open_stream(p);
    }
    waits = p->state == POST_WAITS && p->busy > 1;
    unlock(&p->lock);
    if (waits) {
        watch_at(r->http->watch, &p->alarm, p->started_ms + LOOK_MS);
    }
    release(&p->peer);
}
