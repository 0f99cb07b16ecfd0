#include "boxinit/server.h"
#include "test.h"

static void a_wait_that_takes_much_longer_was_a_stop(void **state)
{
    (void)state;
    assert_false(server_was_stopped(1000, 1000));
    assert_false(server_was_stopped(1000, 2500)); /* a busy machine */
    assert_true(server_was_stopped(1000, 60000));
    assert_true(server_was_stopped(0, 60000));
}

static void something_may_come_sooner_and_at_any_time(void **state)
{
    (void)state;
    assert_false(server_was_stopped(1800000, 5));
    assert_false(server_was_stopped(-1, 86400000)); /* it was to wait for ever */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wait_that_takes_much_longer_was_a_stop),
        cmocka_unit_test(something_may_come_sooner_and_at_any_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
