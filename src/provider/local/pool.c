#include "provider/local/pool.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/ctx.h"
#include "base/id.h"
#include "base/log.h"
#include "base/thread.h"

#define POOL_MOST 64
#define PER_ASKED 2
/* What was just asked for is being used now: that has the machine first. */
#define CALM_MS 30

struct blank_pool {
    struct local *local;
    unsigned most;
    struct cancel stop;

    pthread_mutex_t lock; /* all below */
    struct blank *blanks[POOL_MOST];
    size_t n;
    unsigned asked;
    int64_t asked_ms;
    pthread_t filler;
    bool has_filler; /* to be joined */
    bool filling;    /* it has not come to its end */
    bool stopping;
};

struct blank_pool *blank_pool_new(struct local *l, unsigned most)
{
    struct err e;
    struct blank_pool *p = xcalloc(1, sizeof *p);
    *p = (struct blank_pool){
        .local = l, .most = most < POOL_MOST ? most : POOL_MOST, .lock = PTHREAD_MUTEX_INITIALIZER};
    if (cancel_init(&p->stop, &e) < 0) {
        free(p);
        return NULL;
    }
    return p;
}

/* ---- taking ------------------------------------------------------------------------------ */

static struct blank *remove_at(struct blank_pool *p, size_t i)
{
    struct blank *b = p->blanks[i];
    p->n--;
    for (; i < p->n; i++) {
        p->blanks[i] = p->blanks[i + 1];
    }
    return b;
}

struct blank *blank_pool_take(struct blank_pool *p, const struct limits *limits)
{
    LOCKED(&p->lock);
    for (size_t i = 0; i < p->n; i++) {
        if (blank_fits(p->blanks[i], limits)) {
            return remove_at(p, i);
        }
    }
    return NULL;
}

/* One that fits nobody any more. */
static struct blank *take_stale(struct blank_pool *p)
{
    LOCKED(&p->lock);
    for (size_t i = 0; i < p->n; i++) {
        if (!blank_fits(p->blanks[i], &p->blanks[i]->kind.limits)) {
            return remove_at(p, i);
        }
    }
    return NULL;
}

static void discard(struct blank *b)
{
    blank_undo(b);
    blank_free(b);
}

void blank_pool_prune(struct blank_pool *p)
{
    for (struct blank *b = take_stale(p); b != NULL; b = take_stale(p)) {
        discard(b);
    }
}

/* ---- filling ----------------------------------------------------------------------------- */

static struct blank *make_one(struct blank_pool *p)
{
    struct arena a own_arena = {0};
    arena_init(&a, 16u << 20);
    struct ctx ctx = {.arena = &a, .cancel = &p->stop};
    struct blank_kind kind = {.network = NETWORK_NONE};
    const struct limits nothing_asked = {0};
    char id[BOX_ID_SIZE];
    struct err e = {0};
    id_hex(id, (BOX_ID_SIZE - 1) / 2);
    if (limits_settle(p->local, &nothing_asked, &a, &kind.limits, &e) < 0) {
        return NULL;
    }
    struct blank *b = blank_make(p->local, &ctx, &kind, p->local->pool_dir, str_from(id), &e);
    if (b == NULL && e.kind != ERR_CANCELLED) {
        log_line(LOG_INFO, "local", "no sandbox was prepared in advance: %s", e.msg);
    }
    /* It has less than one can have whom systemd does not refuse later. */
    if (b != NULL && b->refused) {
        discard(b);
        return NULL;
    }
    return b;
}

/* True: one more is to be made, when it is calm. */
static bool wants_more(struct blank_pool *p, int64_t *calm_ms)
{
    LOCKED(&p->lock);
    unsigned want = p->asked < p->most ? p->asked * PER_ASKED : p->most;
    want = want < p->most ? want : p->most;
    *calm_ms = p->asked_ms + CALM_MS;
    p->filling = !p->stopping && p->n < want;
    return p->filling;
}

static bool put(struct blank_pool *p, struct blank *b)
{
    LOCKED(&p->lock);
    if (p->stopping || b == NULL) {
        p->filling = false;
        return false;
    }
    p->blanks[p->n++] = b;
    return true;
}

static void *fill(void *arg)
{
    struct blank_pool *p = arg;
    struct arena a own_arena = {0};
    arena_init(&a, 4096);
    struct ctx ctx = {.arena = &a, .cancel = &p->stop};
    int64_t calm_ms = 0;
    blank_pool_prune(p);
    while (wants_more(p, &calm_ms)) {
        struct err ignored;
        if (clock_mono_ms() < calm_ms) {
            (void)!ctx_wait(&ctx, NULL, 0, calm_ms, &ignored);
            continue;
        }
        struct blank *b = make_one(p);
        if (!put(p, b)) {
            if (b != NULL) {
                discard(b);
            }
            return NULL;
        }
    }
    return NULL;
}

void blank_pool_fill(struct blank_pool *p)
{
    LOCKED(&p->lock);
    p->asked++;
    p->asked_ms = clock_mono_ms();
    if (p->filling || p->stopping) {
        return;
    }
    if (p->has_filler) {
        (void)pthread_join(p->filler, NULL); /* at its end, or past it */
        p->has_filler = false;
    }
    struct err e;
    p->filling = true;
    p->has_filler = thread_start(&p->filler, "pool", fill, p, &e) == 0;
    p->filling = p->has_filler;
}

void blank_pool_free(struct blank_pool *p)
{
    if (p == NULL) {
        return;
    }
    lock(&p->lock);
    p->stopping = true;
    bool join = p->has_filler;
    unlock(&p->lock);
    cancel_fire(&p->stop);
    if (join) {
        (void)pthread_join(p->filler, NULL);
    }
    for (size_t i = 0; i < p->n; i++) {
        discard(p->blanks[i]);
    }
    cancel_fini(&p->stop);
    (void)pthread_mutex_destroy(&p->lock);
    free(p);
}
