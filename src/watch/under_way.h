/*
 * under_way.h - what the threads of a pool are busy with, so that nothing is begun twice.
 *
 * A job is a struct of its own with a link in it. It is on the list from its start until it
 * calls under_way_done(), which its work does last but for freeing itself.
 */
#ifndef WATCH_UNDER_WAY_H
#define WATCH_UNDER_WAY_H

#include "base/ctx.h"
#include "base/list.h"
#include "base/thread.h"

struct under_way {
    struct pool *pool;
    struct cancel cancel; /* of all jobs: fired when we leave */
    pthread_mutex_t lock;
    struct list jobs; /* guarded by lock */
};

int under_way_init(struct under_way *u, const char *name, unsigned threads, struct err *e)
    MUST_CHECK;
/* Waits for the jobs, which are cancelled. */
void under_way_fini(struct under_way *u);

typedef bool under_way_fn(struct list *link, const void *arg);
bool under_way_has(struct under_way *u, under_way_fn *is, const void *arg);
/* False: all threads are busy. work(arg) runs on a thread. */
bool under_way_start(struct under_way *u, struct list *link, void (*work)(void *), void *arg)
    MUST_CHECK;
void under_way_done(struct under_way *u, struct list *link);

#endif
