/*
 * request.c - the life of a request between libmicrohttpd's thread and those that answer.
 *
 * A request whose answer is not there when its body is has its connection suspended. Whoever
 * answers puts the response into the request and resumes the connection; libmicrohttpd's
 * thread then comes by and queues it. Both sides hold live.lock, so that neither an answer nor
 * a suspension is missed.
 */
#include "serve/http/request.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/percent.h"
#include "base/thread.h"
#include "serve/http/http_own.h"
#include "serve/http/parse.h"
#include "serve/http/route.h"

#define ARENA_MAX ((size_t)256 << 20) /* as a call over /mcp: the same tools run in it */

static void on_gaze(struct gaze *g)
{
    struct live *l = CONTAINER_OF(g, struct live, gaze);

    if (!flow_hang_up(l)) {
        live_end(l, END_GONE);
    }
}

struct live *live_new(struct http *h, const char *uri)
{
    size_t len = strlen(uri);
    struct live *l = xcalloc(1, sizeof(*l) + (2 * (len + 1)));

    memcpy(l->uri, uri, len + 1);
    l->pub.http = h;
    l->pub.services = h->services;
    l->pub.arena = &l->arena;
    l->pub.ctx = (struct ctx){.arena = &l->arena};
    atomic_init(&l->refs, 1);
    (void)pthread_mutex_init(&l->lock, NULL);
    arena_init(&l->arena, ARENA_MAX);
    l->gaze = (struct gaze){.fd = -1, .fire = on_gaze};
    l->length = -1;
    l->started_ms = clock_mono_ms();
    (void)atomic_fetch_add(&h->n_live, 1);
    lock(&h->lock);
    list_add_tail(&h->requests, &l->link);
    unlock(&h->lock);
    return l;
}

void request_hold(struct request *r)
{
    (void)atomic_fetch_add(&LIVE_OF(r)->refs, 1);
}

bool live_try_hold(struct live *l)
{
    unsigned refs = atomic_load(&l->refs);

    while (refs > 0) {
        if (atomic_compare_exchange_weak(&l->refs, &refs, refs + 1)) {
            return true;
        }
    }
    return false;
}

void request_unref(struct request *r)
{
    struct live *l = LIVE_OF(r);
    struct http *h = r->http;

    if (atomic_fetch_sub(&l->refs, 1) > 1) {
        return;
    }
    stream_off(l);
    if (l->free_arg != NULL) {
        l->free_arg(l->arg);
    }
    if (l->response != NULL) {
        h->mhd.destroy_response(l->response);
    }
    if (l->has_cancel) {
        cancel_fini(&l->cancel);
    }
    flow_free(l->flow);
    stream_free(l->stream);
    live_free_body(l);
    arena_fini(&l->arena);
    (void)pthread_mutex_destroy(&l->lock);
    free(l);
    (void)atomic_fetch_sub(&h->n_live, 1);
}

void live_free_body(struct live *l)
{
    l->pub.body = STR_EMPTY;
    buf_fini(&l->body);
    if (l->body_counted > 0) {
        (void)atomic_fetch_sub(&l->pub.caller->body_bytes, (long long)l->body_counted);
        l->body_counted = 0;
    }
}

void request_drop_body(struct request *r)
{
    live_free_body(LIVE_OF(r));
}

bool request_waits(struct request *r)
{
    struct live *l = LIVE_OF(r);
    LOCKED(&l->lock);

    return !l->gone;
}

/* ---- what came ---------------------------------------------------------------------- */

#define KEPT_MAX 64 /* more than fit into the memory of a connection */

static enum MHD_Result keep_one(void *cls, enum MHD_ValueKind kind, const char *key, size_t key_len,
                                const char *value, size_t value_len)
{
    struct live *l = cls;

    (void)kind;
    if (l->n_kept == KEPT_MAX) {
        return MHD_NO;
    }
    l->kept[l->n_kept++] = (struct kept_header){
        .name = arena_str(&l->arena, (struct str){key, key_len}),
        .value = arena_str(&l->arena, http_trim((struct str){value, value_len})),
    };
    return MHD_YES;
}

void live_keep_headers(struct live *l)
{
    l->kept = arena_alloc(&l->arena, KEPT_MAX, sizeof(l->kept[0]));
    (void)l->pub.http->mhd.get_connection_values_n(l->mhd, MHD_HEADER_KIND, keep_one, l);
}

static struct str kept_header(const struct live *l, struct str name)
{
    for (size_t i = 0; i < l->n_kept; i++) {
        if (str_eq_nocase(l->kept[i].name, name)) {
            return l->kept[i].value;
        }
    }
    return STR_EMPTY;
}

struct str request_header(struct request *r, const char *name)
{
    const struct live *l = LIVE_OF(r);
    const char *value = NULL;
    size_t len = 0;

    if (l->kept != NULL) {
        return kept_header(l, str_from(name));
    }
    if (l->mhd == NULL ||
        r->http->mhd.lookup_connection_value_n(l->mhd, MHD_HEADER_KIND, name, strlen(name), &value,
                                               &len) != MHD_YES) {
        return STR_EMPTY;
    }
    return http_trim((struct str){value, len});
}

struct counted {
    struct str name;
    unsigned n;
};

static enum MHD_Result count_one(void *cls, enum MHD_ValueKind kind, const char *key,
                                 size_t key_len, const char *value, size_t value_len)
{
    struct counted *counted = cls;

    (void)kind;
    (void)value;
    (void)value_len;
    if (str_eq_nocase((struct str){key, key_len}, counted->name)) {
        counted->n++;
    }
    return MHD_YES;
}

unsigned request_header_count(struct request *r, const char *name)
{
    const struct live *l = LIVE_OF(r);
    struct counted counted = {.name = str_from(name)};

    for (size_t i = 0; i < l->n_kept; i++) {
        counted.n += str_eq_nocase(l->kept[i].name, counted.name) ? 1 : 0;
    }
    if (l->kept == NULL && l->mhd != NULL) {
        (void)r->http->mhd.get_connection_values_n(l->mhd, MHD_HEADER_KIND, count_one, &counted);
    }
    return counted.n;
}

int request_query(struct request *r, struct str name, struct str *out, struct err *e)
{
    bool found = false;

    if (percent_query(r->arena, r->query, name, out, &found, e) < 0) {
        return -1;
    }
    if (!found) {
        *out = STR_EMPTY;
    } else if (out->p == NULL) {
        *out = S("");
    }
    return 0;
}

struct str request_base_url(struct request *r)
{
    struct str url = r->services->config->http_public_url;

    while (str_ends(url, S("/"))) {
        url.len--;
    }
    if (url.len > 0) {
        return url;
    }
    return arena_printf(r->arena, "http://%.*s", STR_ARG(request_header(r, "Host")));
}

size_t request_body_max(const struct request *r)
{
    return (r->route->flags & ROUTE_UPLOAD) != 0 ? (size_t)r->services->config->http_max_upload
                                                 : r->route->body_max;
}

int64_t request_length(struct request *r)
{
    return LIVE_OF(r)->length;
}

/* ---- waiting and waking ------------------------------------------------------------------------- */

void live_suspend_locked(struct live *l)
{
    l->suspended = true;
    l->pub.http->mhd.suspend_connection(l->mhd);
}

void live_resume_locked(struct live *l)
{
    if (l->suspended) {
        l->suspended = false;
        l->pub.http->mhd.resume_connection(l->mhd);
    }
}

bool live_answer(struct live *l, unsigned status, struct MHD_Response *response)
{
    struct MHD_Connection *suspended = NULL;
    bool taken;

    lock(&l->lock);
    taken = !l->answered && l->mhd != NULL;
    if (taken) {
        l->answered = true;
        l->response = response;
        l->status = status;
        suspended = l->suspended ? l->mhd : NULL;
        l->suspended = false;
    }
    unlock(&l->lock);
    if (!taken) {
        l->pub.http->mhd.destroy_response(response);
    }
    /* Who cleared the mark resumes, so it is still there; and its thread, which wakes at once,
     * finds the lock free. */
    if (suspended != NULL) {
        l->pub.http->mhd.resume_connection(suspended);
    }
    return taken;
}

/* ---- the end --------------------------------------------------------------------------- */

void live_own(struct live *l, void *arg, void (*free_arg)(void *arg),
              void (*on_end)(void *arg, enum end_why why))
{
    LOCKED(&l->lock);

    l->arg = arg;
    l->free_arg = free_arg;
    l->on_end = on_end;
}

/* A client that is gone is waited for no more; when we leave, it still gets its answer. */
void live_end(struct live *l, enum end_why why)
{
    void (*fn)(void *arg, enum end_why why) = NULL;
    void *arg = NULL;

    lock(&l->lock);
    if (why == END_LEAVING || !l->gone) {
        fn = l->on_end;
        arg = l->arg;
    }
    l->gone = l->gone || why == END_GONE;
    if (l->has_cancel) {
        cancel_fire(&l->cancel);
    }
    if (l->flow != NULL) {
        flow_wake(l->flow);
    }
    if (l->gone && l->stream != NULL) {
        stream_wake(l);
    }
    unlock(&l->lock);
    if (fn != NULL) {
        fn(arg, why);
    }
}

void live_watch(struct live *l)
{
    struct watch *w = l->pub.http->watch;
    LOCKED(&l->lock);

    /* Whoever is done with the connection looks away first, and needs the lock after. */
    if (l->mhd == NULL || l->conn == NULL || l->gaze.fd >= 0 || l->patient) {
        return;
    }
    watch_socket(w, &l->gaze, l->conn->fd);
}

void live_done(struct live *l, bool well)
{
    struct http *h = l->pub.http;
    struct MHD_Response *response;

    lock(&l->lock);
    l->mhd = NULL;
    l->suspended = false;
    response = l->response;
    l->response = NULL;
    unlock(&l->lock);
    /* One that was never queued may hold the request that holds it. */
    if (response != NULL) {
        h->mhd.destroy_response(response);
    }
    watch_socket_off(h->watch, &l->gaze);
    if (!well) {
        live_end(l, END_GONE);
    }
    lock(&h->lock);
    list_del(&l->link);
    unlock(&h->lock);
    request_unref(&l->pub);
}
