#include <signal.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "test.h"

struct gate {
    pthread_mutex_t lock;
    pthread_cond_t opened;
    bool open;
    int inside;
};

#define GATE_INIT                                                                                  \
    {                                                                                              \
        .lock = PTHREAD_MUTEX_INITIALIZER, .opened = PTHREAD_COND_INITIALIZER                      \
    }

static void pass_gate(void *arg)
{
    struct gate *g = arg;
    LOCKED(&g->lock);

    g->inside++;
    while (!g->open) {
        (void)pthread_cond_wait(&g->opened, &g->lock);
    }
}

static void open_gate(struct gate *g)
{
    LOCKED(&g->lock);

    g->open = true;
    (void)pthread_cond_broadcast(&g->opened);
}

static void count_up(void *arg)
{
    (void)atomic_fetch_add((atomic_int *)arg, 1);
}

static void refuses_work_when_all_are_busy(void **state)
{
    struct gate gate = GATE_INIT;
    struct pool *p = pool_new("test", 3);
    struct err e;

    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_ok(pool_run(p, pass_gate, &gate, &e), &e);
    }
    assert_fails(pool_run(p, pass_gate, &gate, &e), &e, ERR_LIMIT, "all 3 test threads are busy");
    assert_false(pool_drain(p, 30));
    open_gate(&gate);
    assert_true(pool_drain(p, 10000));
    assert_int_equal(gate.inside, 3);
    assert_ok(pool_run(p, pass_gate, &gate, &e), &e);
    pool_free(p);
    assert_int_equal(gate.inside, 4);
}

static void runs_everything_it_accepts(void **state)
{
    struct pool *p = pool_new("test", 4);
    atomic_int done = 0;
    int accepted = 0;
    struct err e;

    (void)state;
    for (int i = 0; i < 20000; i++) {
        if (pool_run(p, count_up, &done, &e) == 0) {
            accepted++;
        } else {
            assert_int_equal(e.kind, ERR_LIMIT);
        }
    }
    assert_true(pool_drain(p, 60000));
    assert_int_equal(atomic_load(&done), accepted);
    assert_true(accepted > 0);
    pool_free(p);
}

static void store_self(void *arg)
{
    *(pthread_t *)arg = pthread_self();
}

static void uses_an_idle_thread_again(void **state)
{
    struct pool *p = pool_new("test", 4);
    pthread_t first, again;
    struct err e;

    (void)state;
    assert_ok(pool_run(p, store_self, &first, &e), &e);
    assert_true(pool_drain(p, 10000));
    for (int i = 0; i < 50; i++) {
        assert_ok(pool_run(p, store_self, &again, &e), &e);
        assert_true(pool_drain(p, 10000));
        assert_true(pthread_equal(first, again));
    }
    pool_free(p);
}

struct seen {
    sigset_t blocked;
    char name[16];
    size_t stack;
};

#define LONG_NAME      "a-rather-long-name"
#define LONG_NAME_SEEN "a-rather-long-n"

static void *look_around(void *arg)
{
    struct timespec pause = {.tv_nsec = 20000000};
    struct seen *seen = arg;
    pthread_attr_t attr;

    (void)pthread_sigmask(SIG_SETMASK, NULL, &seen->blocked);
    for (int i = 0; i < 1500 && strcmp(seen->name, LONG_NAME_SEEN) != 0; i++) {
        (void)nanosleep(&pause, NULL); /* the name is given from outside */
        (void)pthread_getname_np(pthread_self(), seen->name, sizeof(seen->name));
    }
    if (pthread_getattr_np(pthread_self(), &attr) == 0) {
        (void)pthread_attr_getstacksize(&attr, &seen->stack);
        (void)pthread_attr_destroy(&attr);
    }
    return NULL;
}

static void starts_a_thread_that_takes_no_signals(void **state)
{
    struct seen seen = {0};
    pthread_t thread;
    sigset_t mine;
    struct err e;

    (void)state;
    assert_ok(thread_start(&thread, LONG_NAME, look_around, &seen, &e), &e);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_string_equal(seen.name, LONG_NAME_SEEN);
    assert_true(seen.stack >= 1 << 20);
    assert_true(sigismember(&seen.blocked, SIGTERM) == 1);
    assert_true(sigismember(&seen.blocked, SIGINT) == 1);
    assert_true(sigismember(&seen.blocked, SIGCHLD) == 1);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &mine), 0);
    assert_true(sigismember(&mine, SIGTERM) == 0);
}

static void frees_an_unused_pool(void **state)
{
    (void)state;
    pool_free(NULL);
    pool_free(pool_new("test", 0));
}

static void a_pool_of_none_takes_no_work(void **state)
{
    struct pool *p = pool_new("test", 0);
    atomic_int done = 0;
    struct err e;

    (void)state;
    assert_fails(pool_run(p, count_up, &done, &e), &e, ERR_LIMIT, "busy");
    assert_true(pool_drain(p, 0));
    pool_free(p);
}

struct spinner {
    struct pool *pool;
    atomic_int *done;
    int accepted;
};

static void *submit_many(void *arg)
{
    struct spinner *s = arg;
    struct err e;

    for (int i = 0; i < 3000; i++) {
        s->accepted += pool_run(s->pool, count_up, s->done, &e) == 0;
    }
    return NULL;
}

static void takes_work_from_many_threads(void **state)
{
    struct pool *p = pool_new("test", 8);
    struct spinner spinners[4];
    pthread_t threads[4];
    atomic_int done = 0;
    int accepted = 0;
    struct err e;

    (void)state;
    for (int i = 0; i < 4; i++) {
        spinners[i] = (struct spinner){.pool = p, .done = &done};
        assert_ok(thread_start(&threads[i], "spin", submit_many, &spinners[i], &e), &e);
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        accepted += spinners[i].accepted;
    }
    pool_free(p);
    assert_int_equal(atomic_load(&done), accepted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_work_when_all_are_busy),
        cmocka_unit_test(runs_everything_it_accepts),
        cmocka_unit_test(uses_an_idle_thread_again),
        cmocka_unit_test(starts_a_thread_that_takes_no_signals),
        cmocka_unit_test(frees_an_unused_pool),
        cmocka_unit_test(a_pool_of_none_takes_no_work),
        cmocka_unit_test(takes_work_from_many_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
