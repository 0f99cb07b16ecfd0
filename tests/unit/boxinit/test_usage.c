#include "boxinit/usage.h"
#include "test.h"

static void counters_of_both_cgroup_versions(void **state)
{
    (void)state;
    assert_int_equal(
        usage_counter(S("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"), S("oom_kill")), 3);
    assert_int_equal(usage_counter(S("low 0\nhigh 0\nmax 9\noom 4\noom_kill 12\n"
                                     "oom_group_kill 0\n"),
                                   S("oom_kill")),
                     12);
    assert_int_equal(usage_counter(S("oom 4"), S("oom")), 4);
}

static void what_is_not_there_counts_nothing(void **state)
{
    (void)state;
    assert_int_equal(usage_counter(STR_EMPTY, S("oom_kill")), 0);
    assert_int_equal(usage_counter(S("oom_killer 5\n"), S("oom_kill")), 0);
    assert_int_equal(usage_counter(S("oom_kill\n"), S("oom_kill")), 0);
    assert_int_equal(usage_counter(S("oom_kill -3\n"), S("oom_kill")), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counters_of_both_cgroup_versions),
        cmocka_unit_test(what_is_not_there_counts_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
