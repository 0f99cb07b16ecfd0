/* test_metrics.c - calls are counted by tool, end and duration. */
#include "core/metrics.h"
#include "test.h"

static void calls_are_counted_by_tool_and_end(void **state)
{
    static const char read[] = "read", exec[] = "exec";
    struct metrics *m = metrics_new();
    struct call_counts *calls = calloc(METRICS_TOOLS_MAX, sizeof(*calls));
    int64_t running = -1;

    (void)state;
    for (int i = 0; i < 4; i++) {
        metrics_begin(m);
    }
    metrics_end(m, read, ERR_NONE, 1000);
    metrics_end(m, exec, ERR_TIMEOUT, 1001);
    metrics_end(m, exec, ERR_NONE, 700ll * 1000000);
    assert_int_equal(metrics_calls(m, calls, &running), 2);
    assert_int_equal(running, 1);
    assert_string_equal(calls[0].tool, "exec");
    assert_int_equal(calls[0].n, 2);
    assert_int_equal(calls[0].by_end[ERR_NONE], 1);
    assert_int_equal(calls[0].by_end[ERR_TIMEOUT], 1);
    assert_int_equal(calls[0].buckets[0], 0);
    assert_int_equal(calls[0].buckets[1], 1);
    assert_int_equal(calls[0].buckets[METRICS_BUCKETS - 1], 0);
    assert_int_equal(calls[0].total_us, 700001001);
    assert_int_equal(calls[1].buckets[0], 1); /* a bound belongs to its bucket */
    metrics_free(m);
    free(calls);
}

static void nothing_is_counted_without_a_place(void **state)
{
    static struct call_counts none[METRICS_TOOLS_MAX];
    int64_t running = -1;

    (void)state;
    metrics_begin(NULL);
    metrics_end(NULL, "x", ERR_NONE, 1);
    assert_int_equal(metrics_calls(NULL, none, &running), 0);
    assert_int_equal(running, 0);
    metrics_free(NULL);
}

static void bounds_ascend(void **state)
{
    (void)state;
    for (size_t i = 1; i < METRICS_BUCKETS; i++) {
        assert_true(metrics_bounds[i] > metrics_bounds[i - 1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_are_counted_by_tool_and_end),
        cmocka_unit_test(nothing_is_counted_without_a_place),
        cmocka_unit_test(bounds_ascend),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
