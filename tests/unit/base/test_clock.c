#include <time.h>

#include "base/clock.h"
#include "test.h"

static void writes_utc(void **state)
{
    static const struct {
        int64_t ms;
        const char *text;
    } cases[] = {
        {0, "1970-01-01T00:00:00Z"},
        {-5, "1970-01-01T00:00:00Z"},
        {951782400000, "2000-02-29T00:00:00Z"},
        {951868799999, "2000-02-29T23:59:59Z"},
        {4107542400000, "2100-03-01T00:00:00Z"},
        {1794732753123, "2026-11-15T08:52:33Z"},
        {INT64_MAX, "9999-12-31T23:59:59Z"},
    };
    char text[CLOCK_RFC3339_SIZE];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_string_equal(clock_rfc3339(cases[i].ms, text), cases[i].text);
    }
}

static void agrees_with_libc(void **state)
{
    (void)state;
    for (int64_t s = 1; s < 8000000000; s += 86400 * 17 + 12345) {
        time_t t = (time_t)s;
        struct tm tm;
        char ours[CLOCK_RFC3339_SIZE];
        char theirs[CLOCK_RFC3339_SIZE];

        assert_non_null(gmtime_r(&t, &tm));
        assert_true(strftime(theirs, sizeof(theirs), "%Y-%m-%dT%H:%M:%SZ", &tm) > 0);
        assert_string_equal(clock_rfc3339(s * 1000, ours), theirs);
    }
}

static void goes_forward(void **state)
{
    int64_t mono = clock_mono_ms();
    int64_t boot = clock_boot_ms();
    struct timespec pause = {.tv_nsec = 5000000};

    (void)state;
    assert_true(clock_wall_ms() > 1700000000000);
    assert_int_equal(nanosleep(&pause, NULL), 0);
    assert_true(clock_mono_ms() >= mono + 4);
    assert_true(clock_boot_ms() >= boot + 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_utc),
        cmocka_unit_test(agrees_with_libc),
        cmocka_unit_test(goes_forward),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
