/*
 * flow.c - bodies that are longer than memory: bytes between a handler's thread and
 * libmicrohttpd's, through a ring.
 *
 * The handler sleeps while it has to wait for the network; the connection is suspended while
 * it has to wait for the handler. An upload is resumed when half of the ring is free, so that
 * the two do not take turns for every few bytes.
 *
 * libmicrohttpd does not see the end of a client that closes right behind what it has sent: it
 * takes a short read for the last one, and epoll tells it no more. So uploads are watched, too:
 * when nothing comes after that, the client is gone, and not only slow.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/thread.h"
#include "serve/http/http_own.h"
#include "serve/http/route.h"

#define RING_SIZE  ((size_t)256 << 10)
#define HUNG_UP_MS 3000               /* what was on its way is here by then */
#define BLOCK      ((size_t)64 << 10) /* what libmicrohttpd sends at once */

struct flow { /* guarded by live.lock */
    pthread_cond_t changed;
    size_t head, len;
    uint64_t left;   /* of what was promised; UINT64_MAX: nothing was */
    uint64_t pushed; /* of an upload, so far */
    bool upload;
    bool hung_up; /* the client of an upload sends nothing more */
    bool ended;   /* nothing more will be put in */
    bool broken;  /* and that was too early */
    char ring[RING_SIZE];
};

static struct flow *flow_new(void)
{
    struct flow *f = xmalloc(sizeof(*f));

    f->head = f->len = 0;
    f->left = UINT64_MAX;
    f->pushed = 0;
    f->ended = f->broken = f->upload = f->hung_up = false;
    (void)pthread_cond_init(&f->changed, NULL);
    return f;
}

void flow_free(struct flow *f)
{
    if (f == NULL) {
        return;
    }
    (void)pthread_cond_destroy(&f->changed);
    free(f);
}

void flow_wake(struct flow *f)
{
    (void)pthread_cond_broadcast(&f->changed);
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t put(struct flow *f, const char *from, size_t n)
{
    size_t all = least(n, RING_SIZE - f->len);
    size_t tail = (f->head + f->len) % RING_SIZE;
    size_t first = least(all, RING_SIZE - tail);

    memcpy(f->ring + tail, from, first);
    memcpy(f->ring, from + first, all - first);
    f->len += all;
    return all;
}

static size_t take_out(struct flow *f, char *to, size_t n)
{
    size_t all = least(n, f->len);
    size_t first = least(all, RING_SIZE - f->head);

    memcpy(to, f->ring + f->head, first);
    memcpy(to + first, f->ring, all - first);
    f->head = (f->head + all) % RING_SIZE;
    f->len -= all;
    return all;
}

static int check(const struct live *l, struct err *e)
{
    if (l->gone) {
        return err_set(e, ERR_CANCELLED, "the client closed the connection");
    }
    if (atomic_load(&l->pub.http->leaving) && l->has_cancel && atomic_load(&l->cancel.fired)) {
        return err_set(e, ERR_CANCELLED, "the server is leaving");
    }
    return 0;
}

/* ---- down ---------------------------------------------------------------------------- */

static ssize_t give(void *cls, uint64_t pos, char *to, size_t max)
{
    struct live *l = cls;
    struct flow *f = l->flow;
    size_t n;
    LOCKED(&l->lock);

    (void)pos;
    if (l->gone) {
        return MHD_CONTENT_READER_END_WITH_ERROR;
    }
    n = take_out(f, to, max);
    if (n > 0) {
        flow_wake(f);
        count_add(&l->pub.http->counts.bytes_out, n);
        return (ssize_t)n;
    }
    if (f->ended) {
        return f->broken ? MHD_CONTENT_READER_END_WITH_ERROR : MHD_CONTENT_READER_END_OF_STREAM;
    }
    live_suspend_locked(l);
    return 0;
}

static void on_response_freed(void *cls)
{
    request_unref(&((struct live *)cls)->pub);
}

int request_begin(struct request *r, unsigned status, const char *type, int64_t size, struct err *e)
{
    struct live *l = LIVE_OF(r);
    const struct mhd *mhd = &r->http->mhd;
    struct MHD_Response *response;

    lock(&l->lock);
    flow_free(l->flow);
    l->flow = flow_new();
    l->flow->left = size >= 0 ? (uint64_t)size : UINT64_MAX;
    unlock(&l->lock);
    request_hold(r);
    response = mhd->create_response_from_callback(size >= 0 ? (uint64_t)size : MHD_SIZE_UNKNOWN,
                                                  BLOCK, give, l, on_response_freed);
    if (response == NULL) {
        request_unref(r);
        return err_set(e, ERR_SYSTEM, "there is no memory for the answer");
    }
    if (type != NULL) {
        (void)mhd->add_response_header(response, "Content-Type", type);
    }
    (void)mhd->add_response_header(response, "X-Content-Type-Options", "nosniff");
    live_add_headers(l, response);
    if (!live_answer(l, status, response)) {
        return err_set(e, ERR_CANCELLED, "the client closed the connection");
    }
    live_watch(l);
    return 0;
}

int request_write(struct request *r, struct str bytes, struct err *e)
{
    struct live *l = LIVE_OF(r);
    struct flow *f = l->flow;
    LOCKED(&l->lock);

    while (bytes.len > 0) {
        size_t n;

        if (check(l, e) < 0) {
            return -1;
        }
        n = put(f, bytes.p, bytes.len);
        if (n == 0) {
            (void)pthread_cond_wait(&f->changed, &l->lock);
            continue;
        }
        bytes = str_skip(bytes, n);
        f->left -= f->left == UINT64_MAX ? 0 : least(n, (size_t)f->left);
        live_resume_locked(l);
    }
    return 0;
}

void request_end(struct request *r, bool whole)
{
    struct live *l = LIVE_OF(r);
    LOCKED(&l->lock);

    l->flow->ended = true;
    l->flow->broken = !whole || (l->flow->left != 0 && l->flow->left != UINT64_MAX);
    live_resume_locked(l);
}

/* ---- up -------------------------------------------------------------------------------- */

void flow_open_upload(struct live *l)
{
    LOCKED(&l->lock);

    l->flow = flow_new();
    l->flow->upload = true;
}

size_t flow_push(struct live *l, const char *bytes, size_t n)
{
    size_t taken;
    LOCKED(&l->lock);

    if (l->answered) { /* by who did not need all of it */
        return n;
    }
    taken = put(l->flow, bytes, n);
    l->flow->pushed += taken;
    if (taken > 0) {
        flow_wake(l->flow);
    }
    if (taken < n) {
        live_suspend_locked(l);
    }
    return taken;
}

void flow_push_end(struct live *l)
{
    LOCKED(&l->lock);

    if (!l->answered) {
        l->flow->ended = true;
        flow_wake(l->flow);
    }
}

bool flow_hang_up(struct live *l)
{
    LOCKED(&l->lock);

    /* Who has sent all of an upload may well stop sending, and still gets an answer. */
    if (l->flow == NULL || l->answered || l->gone || !l->flow->upload) {
        return false;
    }
    l->flow->hung_up = true;
    flow_wake(l->flow);
    return true;
}

/* Until there is more; ERR_CANCELLED when there never will be. */
static int wait_for_more(struct live *l, struct err *e)
{
    struct flow *f = l->flow;
    int64_t until_ms = clock_mono_ms() + HUNG_UP_MS;
    struct timespec until = {.tv_sec = until_ms / 1000, .tv_nsec = until_ms % 1000 * 1000000};

    if (check(l, e) < 0) {
        return -1;
    }
    if (!f->hung_up) {
        (void)pthread_cond_wait(&f->changed, &l->lock);
        return 0;
    }
    if (pthread_cond_clockwait(&f->changed, &l->lock, CLOCK_MONOTONIC, &until) == 0) {
        return 0;
    }
    if (l->mhd != NULL && l->conn != NULL) {
        (void)shutdown(l->conn->fd, SHUT_RDWR); /* libmicrohttpd sees that */
    }
    return err_set(e, ERR_CANCELLED, "the client closed the connection");
}

int request_read(struct request *r, void *to, size_t cap, size_t *got, struct err *e)
{
    struct live *l = LIVE_OF(r);
    struct flow *f = l->flow;
    LOCKED(&l->lock);

    while (f->len == 0 && !f->ended) {
        if (wait_for_more(l, e) < 0) {
            return -1;
        }
    }
    if (f->pushed > request_body_max(r)) {
        return err_set(e, ERR_LIMIT, "the body is longer than the %zu bytes that are accepted here",
                       request_body_max(r));
    }
    *got = take_out(f, to, cap);
    if (f->len <= RING_SIZE / 2) {
        live_resume_locked(l);
    }
    return 0;
}
