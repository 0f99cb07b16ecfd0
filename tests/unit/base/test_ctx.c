#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/ctx.h"
#include "test.h"

static void sleep_ms(long ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    (void)nanosleep(&t, NULL);
}

static void returns_what_is_ready(void **state)
{
    struct ctx ctx = {0};
    struct pollfd fds[2];
    int a[2];
    int b[2];
    struct err e;

    (void)state;
    assert_int_equal(pipe(a), 0);
    assert_int_equal(pipe(b), 0);
    fds[0] = (struct pollfd){.fd = a[0], .events = POLLIN, .revents = POLLERR};
    fds[1] = (struct pollfd){.fd = b[0], .events = POLLIN};
    assert_int_equal(write(b[1], "x", 1), 1);
    assert_int_equal(ctx_wait(&ctx, fds, 2, 0, &e), 1);
    assert_int_equal(fds[0].revents, 0);
    assert_int_equal(fds[1].revents, POLLIN);
    (void)close(a[0]);
    (void)close(a[1]);
    (void)close(b[0]);
    (void)close(b[1]);
}

static void waits_for_many_descriptors(void **state)
{
    struct ctx ctx = {0};
    struct pollfd fds[60];
    int p[2];
    struct err e;

    (void)state;
    assert_int_equal(pipe(p), 0);
    for (size_t i = 0; i < COUNTOF(fds); i++) {
        fds[i] = (struct pollfd){.fd = i == 59 ? p[1] : p[0], .events = POLLIN | POLLOUT};
    }
    assert_int_equal(ctx_wait(&ctx, fds, COUNTOF(fds), 0, &e), 1);
    assert_int_equal(fds[59].revents, POLLOUT);
    (void)close(p[0]);
    (void)close(p[1]);
}

static void stops_at_the_earlier_time(void **state)
{
    int64_t start_ms = clock_mono_ms();
    struct ctx ctx = {.deadline_ms = start_ms + 60000};
    struct err e;

    (void)state;
    assert_int_equal(ctx_wait(&ctx, NULL, 0, start_ms + 30, &e), 0);
    assert_true(clock_mono_ms() >= start_ms + 30);
    assert_true(clock_mono_ms() < start_ms + 30000);
    ctx.deadline_ms = clock_mono_ms() + 20;
    assert_fails(ctx_wait(&ctx, NULL, 0, start_ms + 60000, &e), &e, ERR_TIMEOUT,
                 "the deadline passed");
    assert_fails(ctx_check(&ctx, &e), &e, ERR_TIMEOUT, "the deadline passed");
    assert_true(clock_mono_ms() < start_ms + 40000);
}

static void looks_once_when_the_time_is_over(void **state)
{
    struct ctx ctx = {0};
    struct pollfd pfd = {.events = POLLIN};
    int p[2];
    struct err e;

    (void)state;
    assert_int_equal(pipe(p), 0);
    pfd.fd = p[0];
    assert_int_equal(ctx_wait(&ctx, &pfd, 1, 1, &e), 0);
    assert_int_equal(write(p[1], "x", 1), 1);
    assert_int_equal(ctx_wait(&ctx, &pfd, 1, 1, &e), 1);
    (void)close(p[0]);
    (void)close(p[1]);
}

static void a_cancel_comes_before_everything(void **state)
{
    struct cancel cancel;
    struct ctx ctx = {.cancel = &cancel, .deadline_ms = 1};
    struct pollfd pfd = {.events = POLLIN};
    int p[2];
    struct err e;

    (void)state;
    assert_int_equal(pipe(p), 0);
    assert_int_equal(write(p[1], "x", 1), 1);
    pfd.fd = p[0];
    assert_ok(cancel_init(&cancel, &e), &e);
    assert_fails(ctx_wait(&ctx, &pfd, 1, 0, &e), &e, ERR_TIMEOUT, "deadline");
    cancel_fire(&cancel);
    cancel_fire(&cancel);
    assert_fails(ctx_wait(&ctx, &pfd, 1, 0, &e), &e, ERR_CANCELLED, "cancelled");
    assert_fails(ctx_check(&ctx, &e), &e, ERR_CANCELLED, "cancelled");
    cancel_fini(&cancel);
    (void)close(p[0]);
    (void)close(p[1]);
}

static void *fire_soon(void *arg)
{
    sleep_ms(30);
    cancel_fire(arg);
    return NULL;
}

static void a_cancel_wakes_the_sleeper(void **state)
{
    struct cancel cancel;
    struct ctx ctx = {.cancel = &cancel};
    pthread_t thread;
    struct err e;

    (void)state;
    assert_ok(cancel_init(&cancel, &e), &e);
    assert_ok(ctx_check(&ctx, &e), &e);
    assert_int_equal(pthread_create(&thread, NULL, fire_soon, &cancel), 0);
    assert_fails(ctx_wait(&ctx, NULL, 0, 0, &e), &e, ERR_CANCELLED, "cancelled");
    assert_int_equal(pthread_join(thread, NULL), 0);
    cancel_fini(&cancel);
}

static void on_alarm(int signo)
{
    (void)signo;
}

static void goes_on_after_a_signal(void **state)
{
    struct sigaction action = {.sa_handler = on_alarm};
    struct itimerval often = {.it_interval.tv_usec = 2000, .it_value.tv_usec = 2000};
    struct itimerval never = {0};
    int64_t until_ms = clock_mono_ms() + 60;
    struct ctx ctx = {0};
    struct err e;

    (void)state;
    assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
    assert_int_equal(ctx_wait(&ctx, NULL, 0, until_ms, &e), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
    assert_true(clock_mono_ms() >= until_ms);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(returns_what_is_ready),
        cmocka_unit_test(waits_for_many_descriptors),
        cmocka_unit_test(stops_at_the_earlier_time),
        cmocka_unit_test(looks_once_when_the_time_is_over),
        cmocka_unit_test(a_cancel_comes_before_everything),
        cmocka_unit_test(a_cancel_wakes_the_sleeper),
        cmocka_unit_test(goes_on_after_a_signal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
