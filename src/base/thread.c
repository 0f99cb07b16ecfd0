/*
 * How the pool works.
 *
 * A worker is busy (it runs fn) or idle (it sleeps on its own condition variable and
 * is in pool.idle). The last one to fall idle is the first to be woken: its stack and
 * caches are warm. Because of that order the place of an idle worker in the list never
 * changes, so the first few to fall idle sleep for good and those above them go away
 * when nobody needed them for a while. A worker that went away is in pool.ended until
 * somebody joins it: the next one that goes, or pool_free().
 *
 * Everything in struct pool and struct worker is guarded by pool.lock, but fn and arg
 * are read by the worker without it: they are written before it is woken.
 */
#include "base/thread.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/list.h"

#define STACK_BYTES   ((size_t)1 << 20)
#define NAME_SIZE     16 /* the kernel's limit */
#define KEEP_IDLE     4
#define IDLE_LIMIT_MS 30000

struct worker {
    struct pool *pool;
    pthread_t thread;
    pthread_cond_t wake;
    void (*fn)(void *arg); /* NULL: no work */
    void *arg;
    struct list link; /* in pool.idle or pool.ended, else by itself */
};

struct pool {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* n_busy or n_workers went down */
    char name[NAME_SIZE];
    unsigned max, n_busy, n_idle, n_workers;
    bool closing;
    struct list idle;  /* struct worker.link, the last one fell idle last */
    struct list ended; /* struct worker.link, to be joined */
};

NORETURN static void die(int errnum, const char *what)
{
    (void)fprintf(stderr, "anybox: bug: %s: %s\n", what, strerrordesc_np(errnum));
    abort();
}

static void check(int errnum, const char *what)
{
    if (errnum != 0) {
        die(errnum, what);
    }
}

void lock(pthread_mutex_t *m)
{
    check(pthread_mutex_lock(m), "lock a mutex");
}

void unlock(pthread_mutex_t *m)
{
    check(pthread_mutex_unlock(m), "unlock a mutex");
}

/* Called with all signals blocked, which the new thread inherits. */
static int start_blocked(pthread_t *out, const char *name, void *(*fn)(void *), void *arg,
                         struct err *e)
{
    pthread_attr_t attr;
    int rc;

    rc = pthread_attr_init(&attr);
    if (rc != 0) {
        return err_sys(e, rc, "start thread %s", name);
    }
    (void)pthread_attr_setstacksize(&attr, STACK_BYTES); /* else: the default, which is larger */
    rc = pthread_create(out, &attr, fn, arg);
    (void)pthread_attr_destroy(&attr);
    if (rc != 0) {
        return err_sys(e, rc, "start thread %s", name);
    }
    return 0;
}

int thread_start(pthread_t *out, const char *name, void *(*fn)(void *), void *arg, struct err *e)
{
    char kernel_name[NAME_SIZE];
    sigset_t all, old;
    int rc;

    (void)sigfillset(&all);
    check(pthread_sigmask(SIG_SETMASK, &all, &old), "block signals");
    rc = start_blocked(out, name, fn, arg, e);
    check(pthread_sigmask(SIG_SETMASK, &old, NULL), "unblock signals");
    if (rc == 0) {
        (void)snprintf(kernel_name, sizeof(kernel_name), "%s", name);
        (void)pthread_setname_np(*out, kernel_name); /* only for people who look */
    }
    return rc;
}

static void init_cond(pthread_cond_t *cond)
{
    pthread_condattr_t attr;

    check(pthread_condattr_init(&attr), "make a condition");
    check(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC), "make a condition");
    check(pthread_cond_init(cond, &attr), "make a condition");
    (void)pthread_condattr_destroy(&attr);
}

/* False when clock_mono_ms() reached until_ms. */
static bool wait_until(pthread_cond_t *cond, pthread_mutex_t *m, int64_t until_ms)
{
    struct timespec until = {.tv_sec = (time_t)(until_ms / 1000),
                             .tv_nsec = (long)(until_ms % 1000) * 1000000};
    int rc = pthread_cond_timedwait(cond, m, &until);

    if (rc != ETIMEDOUT) {
        check(rc, "wait for a condition");
    }
    return rc == 0;
}

struct pool *pool_new(const char *name, unsigned max)
{
    struct pool *p = xcalloc(1, sizeof(*p));

    check(pthread_mutex_init(&p->lock, NULL), "make a mutex");
    init_cond(&p->changed);
    (void)snprintf(p->name, sizeof(p->name), "%s", name);
    p->max = max;
    list_init(&p->idle);
    list_init(&p->ended);
    return p;
}

static void free_worker(struct worker *w)
{
    (void)pthread_cond_destroy(&w->wake);
    free(w);
}

/* Joins those that have gone away. They no longer need the lock, so holding it does
 * not keep them from ending. */
static void join_ended(struct pool *p)
{
    while (!list_empty(&p->ended)) {
        struct worker *w = list_entry(p->ended.next, struct worker, link);

        list_del(&w->link);
        check(pthread_join(w->thread, NULL), "join a thread");
        free_worker(w);
    }
}

/* Sleeps until there is work. False when the worker should go away. */
static bool wait_for_work(struct pool *p, struct worker *w)
{
    bool stays = p->n_idle < KEEP_IDLE;
    int64_t until_ms = clock_mono_ms() + IDLE_LIMIT_MS;

    list_add_tail(&p->idle, &w->link);
    p->n_idle++;
    while (w->fn == NULL && !p->closing) {
        if (stays) {
            check(pthread_cond_wait(&w->wake, &p->lock), "wait for a condition");
        } else if (!wait_until(&w->wake, &p->lock, until_ms)) {
            break;
        }
    }
    if (w->fn != NULL) { /* whoever gave it took us out of the list */
        return true;
    }
    list_del(&w->link);
    p->n_idle--;
    return false;
}

static void *work(void *arg)
{
    struct worker *w = arg;
    struct pool *p = w->pool;

    for (;;) {
        w->fn(w->arg);
        lock(&p->lock);
        w->fn = NULL;
        p->n_busy--;
        check(pthread_cond_broadcast(&p->changed), "wake a thread");
        if (!wait_for_work(p, w)) {
            break;
        }
        unlock(&p->lock);
    }
    join_ended(p);
    list_add_tail(&p->ended, &w->link);
    p->n_workers--;
    check(pthread_cond_broadcast(&p->changed), "wake a thread");
    unlock(&p->lock);
    return NULL;
}

static int start_worker(struct pool *p, void (*fn)(void *arg), void *arg, struct err *e)
{
    struct worker *w = xcalloc(1, sizeof(*w));

    init_cond(&w->wake);
    w->pool = p;
    w->fn = fn;
    w->arg = arg;
    list_init(&w->link);
    if (thread_start(&w->thread, p->name, work, w, e) < 0) {
        free_worker(w);
        return -1;
    }
    p->n_workers++;
    return 0;
}

static void wake_worker(struct pool *p, void (*fn)(void *arg), void *arg)
{
    struct worker *w = list_entry(p->idle.prev, struct worker, link);

    list_del(&w->link);
    p->n_idle--;
    w->fn = fn;
    w->arg = arg;
    check(pthread_cond_signal(&w->wake), "wake a thread");
}

int pool_run(struct pool *p, void (*fn)(void *arg), void *arg, struct err *e)
{
    LOCKED(&p->lock);

    if (p->closing) {
        return err_set(e, ERR_CANCELLED, "no new work is taken: shutting down");
    }
    if (p->n_busy >= p->max) {
        return err_set(e, ERR_LIMIT,
                       "all %u %s threads are busy: wait for a running call to end, then retry",
                       p->max, p->name);
    }
    if (!list_empty(&p->idle)) {
        wake_worker(p, fn, arg);
    } else if (start_worker(p, fn, arg, e) < 0) {
        return -1;
    }
    p->n_busy++;
    return 0;
}

bool pool_drain(struct pool *p, int64_t grace_ms)
{
    int64_t until_ms = clock_mono_ms() + grace_ms;
    LOCKED(&p->lock);

    while (p->n_busy > 0) {
        if (!wait_until(&p->changed, &p->lock, until_ms)) {
            break;
        }
    }
    return p->n_busy == 0;
}

static void close_pool(struct pool *p)
{
    struct list *pos;
    LOCKED(&p->lock);

    p->closing = true;
    list_each (pos, &p->idle) {
        check(pthread_cond_signal(&list_entry(pos, struct worker, link)->wake), "wake a thread");
    }
    while (p->n_workers > 0) {
        check(pthread_cond_wait(&p->changed, &p->lock), "wait for a condition");
    }
    join_ended(p);
}

void pool_free(struct pool *p)
{
    if (p == NULL) {
        return;
    }
    close_pool(p);
    (void)pthread_cond_destroy(&p->changed);
    (void)pthread_mutex_destroy(&p->lock);
    free(p);
}
