#include "base/str.h"
#include "test.h"

static void compares_bytes(void **state)
{
    (void)state;
    assert_true(str_eq(S("a\0b"), S("a\0b")));
    assert_false(str_eq(S("a\0b"), S("a\0c")));
    assert_true(str_eq(STR_EMPTY, S("")));
    assert_true(str_eq_nocase(S("HeLLo"), S("hEllO")));
    assert_false(str_eq_nocase(S("a"), S("ab")));
    assert_false(str_eq_nocase(S("["), S("{")));
    assert_true(str_cmp(S("a"), S("b")) < 0);
    assert_true(str_cmp(S("ab"), S("a")) > 0);
    assert_true(str_cmp(S("\xFF"), S("a")) > 0);
    assert_int_equal(str_cmp(STR_EMPTY, S("")), 0);
}

static void looks_at_both_ends(void **state)
{
    (void)state;
    assert_true(str_starts(S("abc"), S("ab")));
    assert_true(str_starts(S("abc"), STR_EMPTY));
    assert_false(str_starts(S("a"), S("ab")));
    assert_true(str_ends(S("abc"), S("bc")));
    assert_false(str_ends(S("c"), S("bc")));
    assert_true(str_has(S("abc"), 'c'));
    assert_false(str_has(STR_EMPTY, 'c'));
}

static void takes_parts(void **state)
{
    struct str rest;

    (void)state;
    assert_str(str_skip(S("abc"), 1), S("bc"));
    assert_str(str_skip(S("abc"), 9), S(""));
    assert_str(str_skip(STR_EMPTY, 9), S(""));
    assert_str(str_head(S("abc"), 2), S("ab"));
    assert_str(str_head(S("abc"), 9), S("abc"));
    assert_str(str_trim(S(" \t\r\n a b \v\f")), S("a b"));
    assert_str(str_trim(S(" \n ")), S(""));
    assert_str(str_cut(S("k=v=w"), '=', &rest), S("k"));
    assert_str(rest, S("v=w"));
    assert_str(str_cut(S("k="), '=', &rest), S("k"));
    assert_non_null(rest.p);
    assert_int_equal(rest.len, 0);
    assert_str(str_cut(S("k"), '=', &rest), S("k"));
    assert_null(rest.p);
}

static void reads_whole_numbers(void **state)
{
    int64_t n = 0;
    struct err e;

    (void)state;
    assert_ok(str_to_i64(S(" 42\n"), 0, 100, &n, &e), &e);
    assert_int_equal(n, 42);
    assert_ok(str_to_i64(S("+7"), 0, 100, &n, &e), &e);
    assert_int_equal(n, 7);
    assert_ok(str_to_i64(S("-9223372036854775808"), INT64_MIN, INT64_MAX, &n, &e), &e);
    assert_true(n == INT64_MIN);
    assert_ok(str_to_i64(S("9223372036854775807"), INT64_MIN, INT64_MAX, &n, &e), &e);
    assert_true(n == INT64_MAX);
    assert_ok(str_to_i64(S("000000000000000000000000000000012"), 0, 100, &n, &e), &e);
    assert_int_equal(n, 12);
}

static void refuses_what_is_no_whole_number(void **state)
{
    static const char *const bad[] = {"", " ", "x", "1x", "1 2", "1.5", "--1", "-", "+", "0x10"};
    static const char *const far[] = {"101", "-1", "9223372036854775808", "-9223372036854775809",
                                      "99999999999999999999999999"};
    int64_t n = 3;
    struct err e;

    (void)state;
    for (size_t i = 0; i < COUNTOF(bad); i++) {
        assert_fails(str_to_i64(str_from(bad[i]), 0, 100, &n, &e), &e, ERR_INVALID,
                     "not a whole number: use one from 0 to 100");
    }
    for (size_t i = 0; i < COUNTOF(far); i++) {
        assert_fails(str_to_i64(str_from(far[i]), 0, 100, &n, &e), &e, ERR_INVALID,
                     "is out of range: use a number from 0 to 100");
    }
    assert_int_equal(n, 3);
    assert_fails(str_to_i64(S("12\0"), 0, 100, &n, &e), &e, ERR_INVALID, "\"12?\"");
}

static void reads_decimals(void **state)
{
    static const char *const bad[] = {"", "nan", "inf", "1e999", "0x1p3", "1,5", "1.5.2", "e"};
    double x = 3;
    struct err e;

    (void)state;
    for (size_t i = 0; i < COUNTOF(bad); i++) {
        assert_fails(str_to_f64(str_from(bad[i]), &x, &e), &e, ERR_INVALID, "is not a number");
    }
    assert_true(x == 3);
    assert_ok(str_to_f64(S(" -1.5e2 "), &x, &e), &e);
    assert_true(x == -150);
}

static void reads_truth_values(void **state)
{
    bool b = false;
    struct err e;

    (void)state;
    assert_ok(str_to_bool(S("Yes"), &b, &e), &e);
    assert_true(b);
    assert_ok(str_to_bool(S(" off "), &b, &e), &e);
    assert_false(b);
    assert_ok(str_to_bool(S("1"), &b, &e), &e);
    assert_true(b);
    assert_fails(str_to_bool(S("maybe"), &b, &e), &e, ERR_INVALID, "\"maybe\"");
    assert_fails(str_to_bool(S(""), &b, &e), &e, ERR_INVALID, "use true or false");
    assert_true(b);
}

static void reads_sizes(void **state)
{
    static const struct {
        const char *text;
        int64_t bytes;
    } cases[] = {
        {"0", 0},
        {"1048576", 1048576},
        {"12b", 12},
        {"1k", 1024},
        {"1 KB", 1024},
        {"1KiB", 1024},
        {"512m", 536870912},
        {"512MiB", 536870912},
        {"512Mi", 536870912},
        {"1.5g", 1610612736},
        {" 2GB ", 2147483648},
        {"1t", 1099511627776},
        {".5k", 512},
        {"9007199254740993", 9007199254740993},
        {"9223372036854775807", INT64_MAX},
    };
    int64_t n = 0;
    struct err e;

    (void)state;
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        assert_ok(str_to_size(str_from(cases[i].text), &n, &e), &e);
        assert_int_equal(n, cases[i].bytes);
    }
}

static void refuses_what_is_no_size(void **state)
{
    static const char *const bad[] = {"",
                                      "m",
                                      "-1",
                                      "-1m",
                                      "12x",
                                      "1kk",
                                      "1.2.3",
                                      "1 2",
                                      "1mbb",
                                      "9e18",
                                      ".",
                                      "k1",
                                      "9223372036854775808",
                                      "8388608t",
                                      "9999999999.5p"};
    int64_t n = 3;
    struct err e;

    (void)state;
    for (size_t i = 0; i < COUNTOF(bad); i++) {
        assert_fails(str_to_size(str_from(bad[i]), &n, &e), &e, ERR_INVALID, "is not a size");
    }
    assert_int_equal(n, 3);
    assert_int_equal(str_to_size(S("12x"), &n, &e), -1);
    assert_string_equal(
        e.msg, "\"12x\" is not a size: use bytes or a number with k, m or g, such as 512m");
}

static void repeats_a_refused_value_harmlessly(void **state)
{
    bool b;
    struct err e;

    (void)state;
    assert_fails(str_to_bool(S("\x1b[2J\n0123456789012345678901234567890123456789"), &b, &e), &e,
                 ERR_INVALID, "\"?[2J?01234567890123456789012345678901234...\"");
}

static void measures_how_alike_words_are(void **state)
{
    char longer[100];

    (void)state;
    memset(longer, 'x', sizeof(longer));
    assert_int_equal(str_distance(S("kitten"), S("sitting")), 3);
    assert_int_equal(str_distance(S(""), S("abc")), 3);
    assert_int_equal(str_distance(S("abc"), S("")), 3);
    assert_int_equal(str_distance(S("same"), S("same")), 0);
    assert_int_equal(str_distance(S("hots"), S("host")), 2);
    assert_int_equal(str_distance((struct str){longer, 100}, S("x")), 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compares_bytes),
        cmocka_unit_test(looks_at_both_ends),
        cmocka_unit_test(takes_parts),
        cmocka_unit_test(reads_whole_numbers),
        cmocka_unit_test(refuses_what_is_no_whole_number),
        cmocka_unit_test(reads_decimals),
        cmocka_unit_test(reads_truth_values),
        cmocka_unit_test(reads_sizes),
        cmocka_unit_test(refuses_what_is_no_size),
        cmocka_unit_test(repeats_a_refused_value_harmlessly),
        cmocka_unit_test(measures_how_alike_words_are),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
