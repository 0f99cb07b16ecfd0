/*
 * session.c - the table of sessions that this process has seen.
 *
 * It is a cache of what ids say, with the state that may be lost: when it is full, the one
 * that was not used for longest goes. Those that were ended by their clients stay until their
 * ids expire, or until there are too many of them.
 */
#include "serve/http/session.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/own.h"
#include "base/thread.h"
#include "core/token.h"
#include "serve/http/http_own.h"
#include "serve/http/mcp_post.h"

#define SESSIONS_MAX 8192
#define LIFE_MS      (30ll * 24 * 3600 * 1000)
#define FORMAT       "1" /* of the payload */
#define BUCKETS      1024u

struct sessions {
    struct http *http;
    pthread_mutex_t lock;
    struct list buckets[BUCKETS]; /* struct session.link; guarded by lock, like those below */
    struct list used, ended;      /* struct session.by_use, the last one used last */
    size_t n;
};

struct sessions *sessions_new(struct http *h)
{
    struct sessions *ss = xcalloc(1, sizeof(*ss));

    ss->http = h;
    (void)pthread_mutex_init(&ss->lock, NULL);
    for (size_t i = 0; i < BUCKETS; i++) {
        list_init(&ss->buckets[i]);
    }
    list_init(&ss->used);
    list_init(&ss->ended);
    return ss;
}

static void free_session(struct session *s)
{
    if (s->stream != NULL) {
        stream_close(s->stream);
        stream_unref(s->stream);
    }
    scope_fini(&s->scope);
    (void)pthread_mutex_destroy(&s->lock);
    free(s);
}

void sessions_free(struct sessions *ss)
{
    if (ss == NULL) {
        return;
    }
    for (size_t i = 0; i < BUCKETS; i++) {
        while (!list_empty(&ss->buckets[i])) {
            struct session *s = list_entry(ss->buckets[i].next, struct session, link);

            list_del(&s->link);
            free_session(s);
        }
    }
    (void)pthread_mutex_destroy(&ss->lock);
    free(ss);
}

void session_set_stream(struct session *s, struct event_stream *stream)
{
    struct event_stream *old;

    lock(&s->lock);
    old = s->stream;
    s->stream = stream;
    unlock(&s->lock);
    if (old != NULL) {
        stream_close(old);
        stream_unref(old);
    }
}

void session_drop_stream(struct session *s, const struct request *r)
{
    struct event_stream *gone = NULL;

    lock(&s->lock);
    if (s->stream != NULL && stream_is_of(s->stream, r)) {
        gone = s->stream;
        s->stream = NULL;
    }
    unlock(&s->lock);
    if (gone != NULL) {
        stream_close(gone);
        stream_unref(gone);
    }
}

/* With a reference for each: the end of a stream may be that of its session's user, which needs
 * the table's lock. */
static struct session **hold_all(struct sessions *ss, size_t *n)
{
    struct session **all;
    LOCKED(&ss->lock);

    all = xcalloc(ss->n + 1, sizeof(struct session *));
    *n = 0;
    for (size_t i = 0; i < BUCKETS; i++) {
        struct list *pos;

        list_each (pos, &ss->buckets[i]) {
            all[*n] = list_entry(pos, struct session, link);
            all[*n]->refs++;
            (*n)++;
        }
    }
    return all;
}

void sessions_close(struct sessions *ss)
{
    size_t n = 0;
    struct session **all own_mem = hold_all(ss, &n);

    for (size_t i = 0; i < n; i++) {
        session_set_stream(all[i], NULL);
        session_unref(ss, all[i]);
    }
}

/* ---- ids ---------------------------------------------------------------------------- */

int session_make(struct sessions *ss, const struct caller *caller, enum revision rev, unsigned can,
                 struct buf *id, struct err *e)
{
    struct buf payload own_buf = {0};
    char nonce[SESSION_NONCE_SIZE];

    id_hex(nonce, (SESSION_NONCE_SIZE - 1) / 2);
    buf_init(&payload, TOKEN_PAYLOAD_MAX);
    buf_addf(&payload, FORMAT " %s %u %s %.*s", revision_name(rev), can, nonce,
             STR_ARG(caller->name));
    return token_make(ss->http->services->tokens, TOKEN_SESSION, buf_str(&payload),
                      clock_wall_ms() + LIFE_MS, id, e);
}

struct told { /* what an id says */
    enum revision rev;
    unsigned can;
    struct str nonce, key;
};

static bool read_payload(struct str payload, struct told *out)
{
    struct str rest;
    struct str format = str_cut(payload, ' ', &rest);
    struct str rev = str_cut(rest, ' ', &rest);
    struct str can = str_cut(rest, ' ', &rest);
    int64_t bits = 0;
    struct err ignored;

    out->nonce = str_cut(rest, ' ', &out->key);
    out->rev = revision_find(rev);
    if (str_to_i64(can, 0, UINT32_MAX, &bits, &ignored) < 0) {
        return false;
    }
    out->can = (unsigned)bits;
    return str_eq(format, S(FORMAT)) && out->rev != REV_NONE &&
           out->nonce.len == SESSION_NONCE_SIZE - 1;
}

/* ---- the table; its lock is held ------------------------------------------------------- */

/* The nonce is random, so a few digits of it are as good as any hash. */
static struct list *bucket_of(struct sessions *ss, struct str nonce)
{
    unsigned hash = 0;

    for (size_t i = 0; i < 8; i++) {
        hash = (hash * 31) + (unsigned char)nonce.p[i];
    }
    return &ss->buckets[hash % BUCKETS];
}

/* The first that nobody uses; NULL: all are in use. */
static struct session *first_idle(struct list *by_use)
{
    struct list *pos;

    list_each (pos, by_use) {
        struct session *s = list_entry(pos, struct session, by_use);

        if (s->refs == 0) { /* a stream has one, too */
            return s;
        }
    }
    return NULL;
}

/* Ended ones are the last to go. */
static void forget_one(struct sessions *ss)
{
    struct session *s = first_idle(&ss->used);

    if (s == NULL) {
        s = first_idle(&ss->ended);
    }
    if (s != NULL) {
        list_del(&s->link);
        list_del(&s->by_use);
        ss->n--;
        free_session(s);
    }
}

static struct session *add(struct sessions *ss, struct caller *caller, const struct told *told)
{
    struct session *s = xcalloc(1, sizeof(*s));

    if (ss->n >= SESSIONS_MAX) {
        forget_one(ss);
    }
    memcpy(s->nonce, told->nonce.p, SESSION_NONCE_SIZE - 1);
    s->rev = told->rev;
    s->can = told->can;
    s->level = -1;
    s->caller = caller;
    scope_init(&s->scope, caller->scope.owner, caller->scope.folder);
    (void)pthread_mutex_init(&s->lock, NULL);
    list_init(&s->posts);
    list_add_tail(bucket_of(ss, told->nonce), &s->link);
    list_init(&s->by_use);
    ss->n++;
    return s;
}

static struct session *look_up(struct sessions *ss, const struct told *told)
{
    struct list *head = bucket_of(ss, told->nonce);
    struct list *pos;

    list_each (pos, head) {
        struct session *s = list_entry(pos, struct session, link);

        if (str_eq(str_from(s->nonce), told->nonce)) {
            return s;
        }
    }
    return NULL;
}

struct session *session_find(struct sessions *ss, struct caller *caller, struct str id,
                             struct err *e)
{
    struct arena arena own_arena = {.limit = 64u << 10}; /* a request that waits has none */
    struct session *s = NULL;
    struct str payload;
    struct told told;

    if (token_read(ss->http->services->tokens, TOKEN_SESSION, id, &arena, &payload, e) < 0 ||
        !read_payload(payload, &told) || !str_eq(told.key, caller->name)) {
        (void)err_set(e, ERR_NOT_FOUND, "Session not found");
        return NULL;
    }
    LOCKED(&ss->lock);
    s = look_up(ss, &told);
    if (s == NULL) {
        s = add(ss, caller, &told);
    }
    if (s->ended) {
        (void)err_set(e, ERR_NOT_FOUND, "Session not found");
        return NULL;
    }
    s->refs++;
    list_del(&s->by_use);
    list_add_tail(&ss->used, &s->by_use);
    return s;
}

void session_unref(struct sessions *ss, struct session *s)
{
    LOCKED(&ss->lock);

    s->refs--;
}

/* Those under way, each with a reference: what is done to them may be their end, which needs
 * the session's lock. */
static struct post **hold_posts(struct session *s, size_t *n)
{
    struct post **all;
    struct list *pos;
    size_t max = 1;
    LOCKED(&s->lock);

    list_each (pos, &s->posts) {
        max++;
    }
    all = xcalloc(max, sizeof(struct post *));
    *n = 0;
    list_each (pos, &s->posts) {
        struct post *p = list_entry(pos, struct post, link);

        if (live_try_hold(LIVE_OF(p->r))) {
            all[(*n)++] = p;
        }
    }
    return all;
}

void session_end(struct sessions *ss, struct session *s)
{
    struct post **all own_mem = NULL;
    size_t n = 0;

    lock(&ss->lock);
    s->ended = true;
    list_del(&s->by_use);
    list_add_tail(&ss->ended, &s->by_use);
    unlock(&ss->lock);
    session_set_stream(s, NULL);
    all = hold_posts(s, &n);
    for (size_t i = 0; i < n; i++) {
        peer_cancel(&all[i]->peer);
        request_unref(all[i]->r);
    }
}

void session_notify(struct session *s, struct mcp_message *m)
{
    size_t n = 0;
    struct post **all own_mem = hold_posts(s, &n);

    for (size_t i = 0; i < n; i++) {
        mcp_take(&all[i]->peer, m);
        request_unref(all[i]->r);
    }
}
