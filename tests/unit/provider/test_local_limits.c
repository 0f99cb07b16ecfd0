#include "provider/local/local.h"
#include "test.h"

#define MIB (1024ll * 1024)

static const struct limits defaults = {
    .memory_bytes = 256 * MIB, .pids = 100, .open_files = 64, .idle_s = 1800};

#define HOST_MEMORY (4096 * MIB)

static int settle(const struct limits *asked, struct limits *out, struct err *e)
{
    struct arena a own_arena = {0};
    arena_init(&a, 1u << 20);
    struct local l = {.defaults = defaults, .memory_here = HOST_MEMORY};
    int rc = limits_settle(&l, asked, &a, out, e);
    snapshots_fini(&l.snapshots);
    return rc;
}

static void test_defaults(void **state)
{
    (void)state;
    struct limits got;
    struct err e;
    assert_ok(settle(&(struct limits){0}, &got, &e), &e);
    assert_int_equal(got.memory_bytes, 256 * MIB);
    assert_int_equal(got.disk_bytes, 64 * MIB);
    assert_int_equal(got.cpu_millis, 0);
    assert_int_equal(got.pids, 100);
    assert_int_equal(got.open_files, 64);
    assert_int_equal(got.lifetime_s, 0);
    assert_int_equal(got.idle_s, 1800);
}

static void assert_limits(const struct limits *got, const struct limits *want)
{
    assert_int_equal(got->memory_bytes, want->memory_bytes);
    assert_int_equal(got->disk_bytes, want->disk_bytes);
    assert_int_equal(got->cpu_millis, want->cpu_millis);
    assert_int_equal(got->pids, want->pids);
    assert_int_equal(got->open_files, want->open_files);
    assert_int_equal(got->lifetime_s, want->lifetime_s);
    assert_int_equal(got->idle_s, want->idle_s);
}

static void test_asked_for(void **state)
{
    (void)state;
    struct limits got;
    struct err e;
    const struct limits asked = {.memory_bytes = 64 * MIB,
                                 .disk_bytes = 32 * MIB,
                                 .cpu_millis = 500,
                                 .pids = 5,
                                 .open_files = 16,
                                 .lifetime_s = 1,
                                 .idle_s = 7};
    assert_ok(settle(&asked, &got, &e), &e);
    assert_limits(&got, &asked);
}

static void test_without_defaults(void **state)
{
    (void)state;
    struct arena a own_arena = {0};
    arena_init(&a, 1u << 20);
    const struct limits none = {0};
    struct limits got;
    struct err e;
    struct local l = {0};
    assert_ok(limits_settle(&l, &none, &a, &got, &e), &e);
    snapshots_fini(&l.snapshots);
    int64_t host = l.memory_here;
    assert_true(host > 0 && host <= usage_host_memory(&a));
    assert_int_equal(got.memory_bytes, host / 2 < 4096 * MIB ? host / 2 : 4096 * MIB);
    assert_int_equal(got.disk_bytes, got.memory_bytes / 4);
}

static void test_out_of_range(void **state)
{
    (void)state;
    struct limits got;
    struct err e;
    const struct {
        struct limits asked;
        const char *word;
    } bad[] = {
        {{.memory_bytes = 16 * MIB - 1},
         "memory of 15 MiB is too small: a sandbox takes at least 16 MiB"},
        {{.memory_bytes = -1}, "memory"},
        {{.memory_bytes = HOST_MEMORY + MIB},
         "memory of 4097 MiB is more than this machine has for a sandbox: ask for at most 4096 MiB"},
        {{.memory_bytes = INT64_MAX}, "at most 4096 MiB"},
        {{.disk_bytes = 1}, "disk of 1 bytes is too small"},
        {{.disk_bytes = 193 * MIB}, "at most 192 MiB"},
        {{.cpu_millis = 9}, "cpus"},
        {{.cpu_millis = INT32_MAX}, "more than this machine has"},
        {{.pids = 3}, "pids"},
        {{.pids = INT32_MAX}, "pids of 2147483647 is more than this machine has"},
        {{.open_files = 15}, "open_files of 15 is too small"},
        {{.open_files = INT32_MAX}, "open_files"},
        {{.lifetime_s = -1}, "lifetime"},
        {{.idle_s = -5}, "idle time"},
    };
    for (size_t i = 0; i < COUNTOF(bad); i++) {
        assert_fails(settle(&bad[i].asked, &got, &e), &e, ERR_INVALID, bad[i].word);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_asked_for),
        cmocka_unit_test(test_without_defaults),
        cmocka_unit_test(test_out_of_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
