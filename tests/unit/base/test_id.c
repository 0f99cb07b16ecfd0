#include "base/id.h"
#include "test.h"

static void is_hex_of_the_wanted_length(void **state)
{
    char a[256];
    char b[256];

    (void)state;
    for (size_t n = 0; n < 100; n++) {
        memset(a, 'X', sizeof(a));
        id_hex(a, n);
        assert_int_equal(strlen(a), 2 * n);
        assert_int_equal(strspn(a, "0123456789abcdef"), 2 * n);
        assert_int_equal(a[2 * n + 1], 'X');
    }
    id_hex(a, 16);
    id_hex(b, 16);
    assert_string_not_equal(a, b);
}

static void is_spread_over_the_range(void **state)
{
    int seen[7] = {0};

    (void)state;
    assert_int_equal(id_below(0), 0);
    assert_int_equal(id_below(1), 0);
    for (int i = 0; i < 7000; i++) {
        uint32_t n = id_below(7);

        assert_true(n < 7);
        seen[n]++;
    }
    for (int i = 0; i < 7; i++) {
        assert_in_range(seen[i], 700, 1300); /* ten standard deviations */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_hex_of_the_wanted_length),
        cmocka_unit_test(is_spread_over_the_range),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
