/* Alarms that come, come again and are taken back; sockets whose other end closes. */
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "serve/http/watch.h"
#include "test.h"

struct clock {
    struct alarm alarm;
    struct watch *watch;
    atomic_int entered, fired;
    int again; /* how often it arms itself anew */
    int sleep_ms;
};

static void on_alarm(struct alarm *a)
{
    struct clock *c = CONTAINER_OF(a, struct clock, alarm);

    (void)atomic_fetch_add(&c->entered, 1);
    if (c->sleep_ms > 0) {
        (void)usleep((unsigned)c->sleep_ms * 1000);
    }
    (void)atomic_fetch_add(&c->fired, 1);
    if (c->again > 0) {
        c->again--;
        watch_at(c->watch, a, clock_mono_ms());
    }
}

struct end {
    struct gaze gaze;
    atomic_int fired;
};

static void on_gone(struct gaze *g)
{
    (void)atomic_fetch_add(&CONTAINER_OF(g, struct end, gaze)->fired, 1);
}

/* Up to half a minute. */
static bool becomes(atomic_int *value, int wanted)
{
    for (int i = 0; i < 3000 && atomic_load(value) != wanted; i++) {
        (void)usleep(10000);
    }
    return atomic_load(value) == wanted;
}

static struct watch *start(void)
{
    struct err e;
    struct watch *w = watch_new(&e);

    assert_non_null(w);
    return w;
}

static void an_alarm_fires_once_and_may_arm_itself_again(void **state)
{
    struct watch *w = start();
    struct clock once = {.alarm.fire = on_alarm, .watch = w};
    struct clock thrice = {.alarm.fire = on_alarm, .watch = w, .again = 2};
    int64_t before = clock_mono_ms();

    (void)state;
    watch_at(w, &once.alarm, before + 200);
    watch_at(w, &thrice.alarm, before);
    assert_true(becomes(&once.fired, 1));
    assert_true(clock_mono_ms() - before >= 200);
    assert_true(becomes(&thrice.fired, 3));
    (void)usleep(50000);
    assert_int_equal(atomic_load(&once.fired), 1);
    watch_at_off(w, &once.alarm);
    watch_at_off(w, &thrice.alarm);
    watch_free(w);
}

static void an_alarm_that_is_taken_back_does_not_fire(void **state)
{
    struct watch *w = start();
    struct clock c = {.alarm.fire = on_alarm, .watch = w};
    struct clock later = {.alarm.fire = on_alarm, .watch = w};

    (void)state;
    watch_at(w, &c.alarm, clock_mono_ms() + 2000);
    watch_at_off(w, &c.alarm);
    /* One that is moved fires at the later time only. */
    watch_at(w, &later.alarm, clock_mono_ms() + 2000);
    watch_at(w, &later.alarm, clock_mono_ms() + 60000);
    (void)usleep(2500000);
    assert_int_equal(atomic_load(&c.fired), 0);
    assert_int_equal(atomic_load(&later.fired), 0);
    watch_at_off(w, &later.alarm);
    watch_free(w);
}

static void taking_back_waits_for_what_fires(void **state)
{
    struct watch *w = start();
    struct clock c = {.alarm.fire = on_alarm, .watch = w, .sleep_ms = 300};

    (void)state;
    watch_at(w, &c.alarm, clock_mono_ms());
    assert_true(becomes(&c.entered, 1));
    watch_at_off(w, &c.alarm);
    assert_int_equal(atomic_load(&c.fired), 1);
    watch_free(w);
}

static void a_closed_socket_is_noticed(void **state)
{
    struct watch *w = start();
    struct end ends[2] = {{.gaze = {.fd = -1, .fire = on_gone}},
                          {.gaze = {.fd = -1, .fire = on_gone}}};
    int one[2], two[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, one), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, two), 0);
    watch_socket(w, &ends[0].gaze, one[0]);
    watch_socket(w, &ends[1].gaze, two[0]);
    assert_int_equal(write(one[1], "x", 1), 1); /* bytes are no end */
    (void)usleep(50000);
    assert_int_equal(atomic_load(&ends[0].fired), 0);
    (void)shutdown(one[1], SHUT_WR);
    assert_true(becomes(&ends[0].fired, 1));
    watch_socket_off(w, &ends[0].gaze);
    watch_socket_off(w, &ends[1].gaze);
    (void)close(two[1]);
    (void)usleep(50000);
    assert_int_equal(atomic_load(&ends[0].fired), 1);
    assert_int_equal(atomic_load(&ends[1].fired), 0);
    /* An end that came before anybody looked. */
    watch_socket(w, &ends[1].gaze, two[0]);
    assert_true(becomes(&ends[1].fired, 1));
    watch_socket_off(w, &ends[1].gaze);
    (void)close(one[0]);
    (void)close(one[1]);
    (void)close(two[0]);
    watch_free(w);
}

static void what_is_no_socket_never_fires(void **state)
{
    struct watch *w = start();
    struct end end = {.gaze = {.fd = -1, .fire = on_gone}};

    (void)state;
    watch_socket(w, &end.gaze, -1);
    watch_socket(w, &end.gaze, 9999);
    assert_int_equal(end.gaze.fd, -1);
    watch_socket_off(w, &end.gaze);
    watch_free(w);
    watch_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_alarm_fires_once_and_may_arm_itself_again),
        cmocka_unit_test(an_alarm_that_is_taken_back_does_not_fire),
        cmocka_unit_test(taking_back_waits_for_what_fires),
        cmocka_unit_test(a_closed_socket_is_noticed),
        cmocka_unit_test(what_is_no_socket_never_fires),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
