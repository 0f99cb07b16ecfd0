/*
 * stream.c - server-sent events over a suspended connection.
 *
 * A stream is part of its request and guarded by its lock. The connection is suspended while
 * nothing is queued and resumed by whoever queues something. The first bytes are a comment, so
 * that the headers leave at once.
 */
#include "serve/http/stream.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "serve/http/http_own.h"

/* For clients of HTTP/1.0 only: else the chunk is made in the connection's own memory. */
#define BLOCK 512

struct event_stream {
    struct live *live;
    struct alarm keepalive;
    struct buf queue; /* guarded by live.lock, like those below */
    size_t out;       /* how much of the queue was taken */
    int64_t sent_ms;
    bool closed;
};

static ssize_t give(void *cls, uint64_t pos, char *to, size_t max)
{
    struct live *l = cls;
    struct event_stream *s = l->stream;
    size_t left;
    LOCKED(&l->lock);

    (void)pos;
    left = s->queue.len - s->out;
    if (l->gone) {
        return MHD_CONTENT_READER_END_WITH_ERROR;
    }
    if (left > 0) {
        size_t n = left < max ? left : max;

        memcpy(to, s->queue.p + s->out, n);
        s->out += n;
        count_add(&l->pub.http->counts.bytes_out, n);
        if (n == left) {
            buf_fini(&s->queue);
            s->out = 0;
        }
        return (ssize_t)n;
    }
    if (s->closed) {
        return MHD_CONTENT_READER_END_OF_STREAM;
    }
    live_suspend_locked(l);
    return 0;
}

static void on_response_freed(void *cls)
{
    request_unref(&((struct live *)cls)->pub);
}

static bool add(struct live *l, struct str a, struct str b, struct str c)
{
    struct event_stream *s = l->stream;

    if (l->gone || s->closed) {
        return false;
    }
    buf_add(&s->queue, a);
    buf_add(&s->queue, b);
    buf_add(&s->queue, c);
    if (s->queue.cut) {
        l->gone = true; /* it does not read: half a message is worth nothing */
    }
    s->sent_ms = clock_mono_ms();
    live_resume_locked(l);
    return !l->gone;
}

static void on_keepalive(struct alarm *a)
{
    struct event_stream *s = CONTAINER_OF(a, struct event_stream, keepalive);
    struct live *l = s->live;
    int64_t now = clock_mono_ms();
    LOCKED(&l->lock);

    if (l->gone || s->closed) {
        return;
    }
    if (now - s->sent_ms >= STREAM_KEEPALIVE_MS && s->queue.len == 0) {
        (void)add(l, S(": keepalive\n\n"), STR_EMPTY, STR_EMPTY);
    }
    watch_at(l->pub.http->watch, a, s->sent_ms + STREAM_KEEPALIVE_MS);
}

static struct MHD_Response *make_response(struct live *l)
{
    const struct mhd *mhd = &l->pub.http->mhd;
    struct MHD_Response *response;

    request_hold(&l->pub);
    response =
        mhd->create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, give, l, on_response_freed);
    if (response == NULL) {
        request_unref(&l->pub);
        return NULL;
    }
    (void)mhd->add_response_header(response, "Content-Type", "text/event-stream");
    (void)mhd->add_response_header(response, "Cache-Control", "no-cache, no-transform");
    (void)mhd->add_response_header(response, "X-Accel-Buffering", "no");
    live_add_headers(l, response);
    return response;
}

struct event_stream *stream_open(struct request *r)
{
    struct live *l = LIVE_OF(r);
    struct event_stream *s = xcalloc(1, sizeof(*s));
    struct MHD_Response *response;

    s->live = l;
    s->keepalive.fire = on_keepalive;
    s->sent_ms = clock_mono_ms();
    buf_init(&s->queue, STREAM_QUEUE_MAX);
    buf_add(&s->queue, S(": open\n\n"));
    request_hold(r);
    count_move(&r->http->counts.streams, 1);
    lock(&l->lock);
    l->stream = s;
    unlock(&l->lock);
    response = make_response(l);
    if (response == NULL || !live_answer(l, MHD_HTTP_OK, response)) {
        lock(&l->lock);
        s->closed = true;
        unlock(&l->lock);
        return s;
    }
    live_watch(l);
    watch_at(r->http->watch, &s->keepalive, s->sent_ms + STREAM_KEEPALIVE_MS);
    return s;
}

bool stream_send(struct event_stream *s, struct str message, bool may_drop)
{
    LOCKED(&s->live->lock);

    if (may_drop && s->queue.len - s->out + message.len > STREAM_NOTICE_MAX) {
        return false;
    }
    return add(s->live, S("event: message\ndata: "), message, S("\n\n"));
}

bool stream_is_of(const struct event_stream *s, const struct request *r)
{
    return &s->live->pub == r;
}

void stream_close(struct event_stream *s)
{
    LOCKED(&s->live->lock);

    s->closed = true;
    live_resume_locked(s->live);
}

void stream_unref(struct event_stream *s)
{
    request_unref(&s->live->pub);
}

void stream_wake(struct live *l)
{
    live_resume_locked(l);
}

void stream_off(struct live *l)
{
    if (l->stream != NULL) {
        watch_at_off(l->pub.http->watch, &l->stream->keepalive);
    }
}

void stream_free(struct event_stream *s)
{
    if (s == NULL) {
        return;
    }
    count_move(&s->live->pub.http->counts.streams, -1);
    buf_fini(&s->queue);
    free(s);
}
