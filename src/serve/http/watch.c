/*
 * watch.c - one thread, one epoll.
 *
 * Armed alarms are in a list without order: there are as many as streams, and the list is
 * walked at most twice a second, because times are rounded up to half seconds. The thread is
 * woken for a new alarm only when that one comes before what it sleeps for.
 *
 * A gaze is found again by the number of its socket and a count of its own, so that an event
 * that is read after the socket was closed, and its number given to another, means nobody.
 *
 * `busy` is what fires just now; *_off() of it waits until it is done.
 */
#include "serve/http/watch.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/own.h"
#include "base/thread.h"

#define GRAIN_MS 500

struct watch {
    int epoll, wake;
    pthread_t thread;
    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t done;  /* busy became NULL */
    struct list alarms;   /* struct alarm.link */
    struct gaze **gazes;  /* by socket */
    size_t n_gazes;
    unsigned count;
    int64_t until_ms; /* the thread sleeps until then; 0: it does not */
    const void *busy;
    bool leaving;
};

static void wake_up(const struct watch *w)
{
    uint64_t one = 1;

    /* Only a full counter can refuse it, and that is readable. */
    (void)!write(w->wake, &one, sizeof(one));
}

/* ---- firing; all with the lock held, but for the firing itself ------------------- */

static void begin_firing(struct watch *w, const void *what)
{
    w->busy = what;
    unlock(&w->lock);
}

static void end_firing(struct watch *w)
{
    lock(&w->lock);
    w->busy = NULL;
    (void)pthread_cond_broadcast(&w->done);
}

static struct alarm *next_due(struct watch *w, int64_t now)
{
    struct list *pos;

    list_each (pos, &w->alarms) {
        struct alarm *a = list_entry(pos, struct alarm, link);

        if (a->at_ms <= now) {
            return a;
        }
    }
    return NULL;
}

static int64_t first_alarm(struct watch *w)
{
    struct list *pos;
    int64_t first = INT64_MAX;

    list_each (pos, &w->alarms) {
        const struct alarm *a = list_entry(pos, struct alarm, link);

        first = a->at_ms < first ? a->at_ms : first;
    }
    return first;
}

/* Those that are due now, and not those that are armed meanwhile. */
static void fire_alarms(struct watch *w)
{
    int64_t now = clock_mono_ms();
    struct list due, *pos, *tmp;

    if (next_due(w, now) == NULL) {
        return;
    }
    list_init(&due);
    list_each_safe (pos, tmp, &w->alarms) {
        if (list_entry(pos, struct alarm, link)->at_ms <= now) {
            list_del(pos);
            list_add_tail(&due, pos);
        }
    }
    while (!list_empty(&due)) {
        struct alarm *a = list_entry(due.next, struct alarm, link);

        list_del(&a->link);
        a->at_ms = 0;
        begin_firing(w, a);
        a->fire(a);
        end_firing(w);
    }
}

static void fire_gaze(struct watch *w, uint64_t data)
{
    size_t fd = (size_t)(data & UINT32_MAX);
    struct gaze *g = fd < w->n_gazes ? w->gazes[fd] : NULL;

    if (g == NULL || g->n != (unsigned)(data >> 32)) {
        return;
    }
    begin_firing(w, g);
    g->fire(g);
    end_firing(w);
}

static int sleep_ms(struct watch *w)
{
    int64_t first = first_alarm(w);
    int64_t left;

    w->until_ms = first;
    if (first == INT64_MAX) {
        return -1;
    }
    left = first - clock_mono_ms();
    if (left <= 0) {
        return 0;
    }
    return left < INT_MAX ? (int)left : INT_MAX;
}

static void *run(void *arg)
{
    struct watch *w = arg;
    struct epoll_event events[64];

    lock(&w->lock);
    while (!w->leaving) {
        int ms = sleep_ms(w);
        int n;

        unlock(&w->lock);
        n = epoll_wait(w->epoll, events, (int)COUNTOF(events), ms);
        lock(&w->lock);
        w->until_ms = 0;
        for (int i = 0; i < n; i++) {
            uint64_t count;

            if (events[i].data.u64 == UINT64_MAX) {
                (void)!read(w->wake, &count, sizeof(count));
            } else {
                fire_gaze(w, events[i].data.u64);
            }
        }
        fire_alarms(w);
    }
    unlock(&w->lock);
    return NULL;
}

/* ---- lifetime -------------------------------------------------------------------- */

static struct watch *make(struct err *e)
{
    int epoll own_fd = epoll_create1(EPOLL_CLOEXEC);
    int wake own_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = UINT64_MAX};
    struct watch *w;

    if (epoll < 0 || wake < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, wake, &event) < 0) {
        (void)err_sys(e, errno, "epoll");
        return NULL;
    }
    w = xcalloc(1, sizeof(*w));
    w->epoll = take_fd(&epoll);
    w->wake = take_fd(&wake);
    (void)pthread_mutex_init(&w->lock, NULL);
    (void)pthread_cond_init(&w->done, NULL);
    list_init(&w->alarms);
    return w;
}

static void release(struct watch *w)
{
    (void)close(w->epoll);
    (void)close(w->wake);
    (void)pthread_cond_destroy(&w->done);
    (void)pthread_mutex_destroy(&w->lock);
    free(w->gazes);
    free(w);
}

struct watch *watch_new(struct err *e)
{
    struct watch *w = make(e);

    if (w != NULL && thread_start(&w->thread, "watch", run, w, e) < 0) {
        release(w);
        return NULL;
    }
    return w;
}

void watch_free(struct watch *w)
{
    if (w == NULL) {
        return;
    }
    lock(&w->lock);
    w->leaving = true;
    unlock(&w->lock);
    wake_up(w);
    (void)pthread_join(w->thread, NULL);
    release(w);
}

/* Not for who is called by the firing: that would wait for itself. */
static void wait_for(struct watch *w, const void *what)
{
    while (w->busy == what && !pthread_equal(pthread_self(), w->thread)) {
        (void)pthread_cond_wait(&w->done, &w->lock);
    }
}

/* ---- alarms ----------------------------------------------------------------------- */

void watch_at(struct watch *w, struct alarm *a, int64_t at_ms)
{
    LOCKED(&w->lock);
    if (a->at_ms != 0) {
        list_del(&a->link);
    }
    a->at_ms = (at_ms + GRAIN_MS - 1) / GRAIN_MS * GRAIN_MS;
    list_add_tail(&w->alarms, &a->link);
    if (a->at_ms < w->until_ms) {
        w->until_ms = a->at_ms;
        wake_up(w);
    }
}

void watch_at_off(struct watch *w, struct alarm *a)
{
    LOCKED(&w->lock);
    wait_for(w, a);
    if (a->at_ms != 0) {
        list_del(&a->link);
        a->at_ms = 0;
    }
}

/* ---- sockets ---------------------------------------------------------------------- */

static void make_room(struct watch *w, size_t fd)
{
    size_t n = w->n_gazes == 0 ? 256 : w->n_gazes;

    while (n <= fd) {
        n *= 2;
    }
    if (n == w->n_gazes) {
        return;
    }
    w->gazes = xrealloc(w->gazes, n, sizeof(struct gaze *));
    for (size_t i = w->n_gazes; i < n; i++) {
        w->gazes[i] = NULL;
    }
    w->n_gazes = n;
}

void watch_socket(struct watch *w, struct gaze *g, int fd)
{
    struct epoll_event event = {.events = EPOLLRDHUP | EPOLLONESHOT};

    if (fd < 0) {
        return;
    }
    LOCKED(&w->lock);
    make_room(w, (size_t)fd);
    g->fd = fd;
    g->n = w->count++ & INT_MAX;
    w->gazes[fd] = g;
    event.data.u64 = ((uint64_t)g->n << 32) | (uint64_t)(unsigned)fd;
    if (epoll_ctl(w->epoll, EPOLL_CTL_ADD, fd, &event) < 0) {
        w->gazes[fd] = NULL;
        g->fd = -1;
    }
}

void watch_socket_off(struct watch *w, struct gaze *g)
{
    LOCKED(&w->lock);
    wait_for(w, g);
    if (g->fd < 0) {
        return;
    }
    (void)epoll_ctl(w->epoll, EPOLL_CTL_DEL, g->fd, NULL);
    w->gazes[g->fd] = NULL;
    g->fd = -1;
}
