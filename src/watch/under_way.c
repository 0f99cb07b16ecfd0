#include "watch/under_way.h"

int under_way_init(struct under_way *u, const char *name, unsigned threads, struct err *e)
{
    if (cancel_init(&u->cancel, e) < 0) {
        return -1;
    }
    u->pool = pool_new(name, threads);
    (void)pthread_mutex_init(&u->lock, NULL);
    list_init(&u->jobs);
    return 0;
}

void under_way_fini(struct under_way *u)
{
    cancel_fire(&u->cancel);
    pool_free(u->pool);
    cancel_fini(&u->cancel);
    (void)pthread_mutex_destroy(&u->lock);
}

bool under_way_has(struct under_way *u, under_way_fn *is, const void *arg)
{
    LOCKED(&u->lock);
    struct list *at;

    list_each (at, &u->jobs) {
        if (is(at, arg)) {
            return true;
        }
    }
    return false;
}

bool under_way_start(struct under_way *u, struct list *link, void (*work)(void *), void *arg)
{
    struct err ignored;

    lock(&u->lock);
    list_add_tail(&u->jobs, link);
    unlock(&u->lock);
    if (pool_run(u->pool, work, arg, &ignored) < 0) {
        under_way_done(u, link);
        return false;
    }
    return true;
}

void under_way_done(struct under_way *u, struct list *link)
{
    lock(&u->lock);
    list_del(link);
    unlock(&u->lock);
}
