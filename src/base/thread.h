/*
 * thread.h - worker threads with a cap, and locks that cannot fail silently.
 *
 * A pool starts threads as work arrives, keeps idle ones for the next piece of
 * work (starting a thread costs more than waking one), lets all but a few of them go
 * after half a minute without any, and never has more than `max`. All signals are
 * blocked in workers: the main thread takes them.
 */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct pool;

struct pool *pool_new(const char *name, unsigned max);
/* Runs fn(arg) on a worker. ERR_LIMIT at once when all `max` are busy. */
int pool_run(struct pool *p, void (*fn)(void *arg), void *arg, struct err *e) MUST_CHECK;
/* Waits up to grace_ms for running work to end. True when all has. */
bool pool_drain(struct pool *p, int64_t grace_ms);
/* No new work; drains without limit, joins, frees. NULL is fine. */
void pool_free(struct pool *p);

/* Starts a joinable thread with a 1 MiB stack, all signals blocked. */
int thread_start(pthread_t *out, const char *name, void *(*fn)(void *), void *arg, struct err *e)
    MUST_CHECK;

void lock(pthread_mutex_t *m); /* abort on failure: a broken lock is a bug */
void unlock(pthread_mutex_t *m);

/* Holds the lock until the scope ends: LOCKED(&peer->out_lock); */
static inline void unlock_cleanup_(pthread_mutex_t **m)
{
    unlock(*m);
}
#define LOCKED(m)                                                                                  \
    pthread_mutex_t *locked_ CLEANUP(unlock_cleanup_) UNUSED = (m);                                \
    lock(locked_)

#endif
