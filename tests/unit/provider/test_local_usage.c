#include "provider/local/local.h"
#include "test.h"

static void test_load(void **state)
{
    (void)state;
    struct usage u = {.load_1m = -1, .load_5m = -1, .load_15m = -1};
    usage_parse_load(S("0.52 1.25 12.00 3/417 9981\n"), &u);
    assert_true(u.load_1m == 0.52 && u.load_5m == 1.25 && u.load_15m == 12.0);
    struct usage unknown = {.load_1m = -1, .load_5m = -1, .load_15m = -1};
    usage_parse_load(S("up 3 days"), &unknown);
    assert_true(unknown.load_1m == -1 && unknown.load_15m == -1);
}

static void test_memory(void **state)
{
    (void)state;
    struct usage u = {.memory_used = -1, .memory_total = -1};
    usage_parse_memory(S("MemTotal:        8000 kB\nMemFree:  10 kB\nMemAvailable:    2000 kB\n"),
                       &u);
    assert_int_equal(u.memory_total, 8000 * 1024);
    assert_int_equal(u.memory_used, 6000 * 1024);
    usage_parse_memory(S("MemTotal: 8000 kB\nMemFree: 1000 kB\nBuffers: 10 kB\nCached: 90 kB\n"),
                       &u);
    assert_int_equal(u.memory_used, 6900 * 1024);
    static const char *const bad[] = {"", "MemTotal: 8000 kB\n",
                                      "MemTotal: x kB\nMemAvailable: 1 kB",
                                      "MemTotal: 10 kB\nMemAvailable: 20 kB\n"};
    for (size_t i = 0; i < COUNTOF(bad); i++) {
        struct usage unknown = {.memory_used = -1, .memory_total = -1};
        usage_parse_memory(str_from(bad[i]), &unknown);
        assert_int_equal(unknown.memory_total, -1);
        assert_int_equal(unknown.memory_used, -1);
    }
}

static void test_gpus(void **state)
{
    (void)state;
    struct usage u = {0};
    usage_parse_gpus(S("0, 37, 1024, 24576\n"
                       "1, [N/A], 0, 24576\n"
                       "2, 100, 24000, 24576\n"
                       "No devices were found\n"
                       "3, 101, [N/A], [N/A]\n"
                       "4, 5\n\n"),
                     &u);
    assert_int_equal(u.n_gpus, 3);
    assert_int_equal(u.gpus[0].index, 0);
    assert_true(u.gpus[0].busy_pct == 37.0);
    assert_int_equal(u.gpus[0].memory_used_mb, 1024);
    assert_int_equal(u.gpus[0].memory_total_mb, 24576);
    assert_int_equal(u.gpus[1].index, 1);
    assert_true(u.gpus[1].busy_pct == -1.0);
    assert_int_equal(u.gpus[1].memory_total_mb, 24576);
    assert_int_equal(u.gpus[2].index, 2);
}

static void test_more_gpus_than_fit(void **state)
{
    (void)state;
    struct buf csv own_buf = {0};
    buf_init(&csv, 4096);
    for (int i = 0; i < USAGE_GPUS + 5; i++) {
        buf_addf(&csv, "%d, 1, 2, 3\n", i);
    }
    struct usage u = {0};
    usage_parse_gpus(buf_str(&csv), &u);
    assert_int_equal(u.n_gpus, USAGE_GPUS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_load),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_gpus),
        cmocka_unit_test(test_more_gpus_than_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
