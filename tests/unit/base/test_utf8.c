#include "base/utf8.h"
#include "test.h"

#define BAD "\xEF\xBF\xBD"

static void decodes_the_ends_of_each_length(void **state)
{
    static const struct {
        struct str text;
        uint32_t value;
    } cases[] = {
        {{"A", 1}, 'A'},
        {{"\0", 1}, 0},
        {{"\x7F", 1}, 0x7F},
        {{"\xC2\x80", 2}, 0x80},
        {{"\xDF\xBF", 2}, 0x7FF},
        {{"\xE0\xA0\x80", 3}, 0x800},
        {{"\xED\x9F\xBF", 3}, 0xD7FF},
        {{"\xEE\x80\x80", 3}, 0xE000},
        {{"\xEF\xBF\xBF", 3}, 0xFFFF},
        {{"\xF0\x90\x80\x80", 4}, 0x10000},
        {{"\xF4\x8F\xBF\xBF", 4}, 0x10FFFF},
    };
    uint32_t c;

    (void)state;
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        assert_int_equal(utf8_decode(cases[i].text, &c), cases[i].text.len);
        assert_int_equal(c, cases[i].value);
        assert_true(utf8_valid(cases[i].text));
    }
}

static void scrubs_as_python_does(void **state)
{
    static const struct {
        struct str in, out;
    } cases[] = {
        {{"", 0}, {"", 0}},
        {{"abc", 3}, {"abc", 3}},
        {{"a\x80z", 3}, {"a" BAD "z", 5}},
        {{"\xC0\xAF", 2}, {BAD BAD, 6}},         /* overlong */
        {{"\xE0\x80\x80", 3}, {BAD BAD BAD, 9}}, /* overlong */
        {{"\xED\xA0\x80", 3}, {BAD BAD BAD, 9}}, /* a surrogate */
        {{"\xF4\x90\x80\x80", 4}, {BAD BAD BAD BAD, 12}},
        {{"\xF0\x9F\x98", 3}, {BAD, 3}}, /* breaks off */
        {{"\xF0\x9F\x98z", 4}, {BAD "z", 4}},
        {{"\xE2\x82\xE2\x82\xAC", 5}, {BAD "\xE2\x82\xAC", 6}},
        {{"\xFF\xFE", 2}, {BAD BAD, 6}},
        {{"\xC3", 1}, {BAD, 3}},
    };

    (void)state;
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        struct buf b own_buf = {.max = 100};

        utf8_scrub(cases[i].in, &b);
        assert_str(buf_str(&b), cases[i].out);
        assert_true(utf8_valid(buf_str(&b)));
        assert_int_equal(utf8_valid(cases[i].in), str_eq(cases[i].in, cases[i].out));
    }
}

static void stays_valid_when_the_buffer_is_full(void **state)
{
    struct str text = S("a\xC3\xA9\xE2\x82\xAC\xFF\xF0\x9F\x98\x80z");

    (void)state;
    for (size_t max = 0; max < 20; max++) {
        struct buf b own_buf = {.max = max};

        utf8_scrub(text, &b);
        assert_true(utf8_valid(buf_str(&b)));
        assert_int_equal(b.cut, max < 14);
        assert_true(b.len + 3 >= max || max > 14);
    }
}

static void counts_characters(void **state)
{
    (void)state;
    assert_int_equal(utf8_count(S("")), 0);
    assert_int_equal(utf8_count(S("a\xC3\xA9\xF0\x9F\x98\x80")), 3);
    assert_int_equal(utf8_count(S("\xF0\x9F\x98")), 3);
}

static void cuts_between_characters(void **state)
{
    struct str text = S("a\xC3\xA9\xF0\x9F\x98\x80z");
    static const size_t heads[] = {0, 1, 1, 3, 3, 3, 3, 7, 8, 8};
    static const size_t tails[] = {0, 1, 1, 1, 1, 5, 5, 7, 8, 8};

    (void)state;
    for (size_t n = 0; n < COUNTOF(heads); n++) {
        assert_str(utf8_head(text, n), str_head(text, heads[n]));
        assert_str(utf8_tail(text, n), str_skip(text, text.len - tails[n]));
    }
    /* There is nothing to protect in what is invalid anyway. */
    assert_int_equal(utf8_head(S("\x80\x80\x80\x80\x80\x80"), 4).len, 4);
    assert_int_equal(utf8_tail(S("\x80\x80\x80\x80\x80\x80"), 4).len, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decodes_the_ends_of_each_length),
        cmocka_unit_test(scrubs_as_python_does),
        cmocka_unit_test(stays_valid_when_the_buffer_is_full),
        cmocka_unit_test(counts_characters),
        cmocka_unit_test(cuts_between_characters),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
