#include "base/alloc.h"
#include "base/clock.h"
#include "base/own.h"
#include "base/plain.h"
#include "base/utf8.h"
#include "test.h"

#define E   "\x1b"
#define BAD "\xEF\xBF\xBD"

struct sample {
    const char *in, *out;
};

static void check_all(const struct sample *samples, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct buf b own_buf = {.max = 1000};

        plain_text(str_from(samples[i].in), &b);
        assert_str(buf_str(&b), str_from(samples[i].out));
        assert_false(b.cut);
    }
}

static void removes_escape_sequences(void **state)
{
    static const struct sample samples[] = {
        {"plain\ttext\n", "plain\ttext\n"},
        {E "[1;31mred" E "[0m", "red"},
        {"a" E "[2J" E "[?25lb", "ab"},
        {"a" E "[38:2::1:2:3mb" E "[1 qc", "abc"},
        {"a" E "]0;title\ab", "ab"},
        {"a" E "]8;;http://x" E "\\link" E "]8;;" E "\\b", "alinkb"},
        {"a" E "P1$r0m" E "\\b" E "_apc" E "\\c" E "^pm" E "\\d" E "Xsos" E "\\e", "abcde"},
        {"a" E "(Bb" E "cc" E "7d" E "#8e" E "=f", "abcdef"},
        {"a\xC2\x9B"
         "31mb\xC2\x9D"
         "0;t\xC2\x9C"
         "c\xC2\x84"
         "d",
         "abcd"},
        {"a" E, "a"},
        {"a" E "[", "a"},
        {"a" E "[1;", "a"},
        {"a" E "(", "a"},
        {"a" E "\xC3\xA9"
         "b",
         "a\xC3\xA9"
         "b"},
        {"a" E "[31\nb", "a\nb"},
        {"a" E E "[1mb", "ab"},
    };

    (void)state;
    check_all(samples, COUNTOF(samples));
}

static void lets_no_open_string_swallow_the_next_line(void **state)
{
    static const struct sample samples[] = {
        {"a" E "]0;open\nrest", "a\nrest"},
        {"a" E "]52;c;open", "a"},
        {"a" E "Popen" E "[1mb", "ab"},
        {"a\xC2\x9Dopen\nrest", "a\nrest"},
    };

    (void)state;
    check_all(samples, COUNTOF(samples));
}

static void shows_the_last_state_of_a_line(void **state)
{
    static const struct sample samples[] = {
        {"10%\r20%\r100%\n", "100%\n"},
        {"abc\rx\n", "x\n"},
        {"a\r\nb\r\n", "a\nb\n"},
        {"a\r\r\nb", "a\nb"},
        {"done\r", "done"},
        {"one\r\rtwo\r\r", "two"},
        {"\rfirst", "first"},
        {"keep\nold\rnew", "keep\nnew"},
        {"10%\r" E "[K20%\n", "20%\n"},
        {"abc\b\bx", "ax"},
        {"|\b/\b-\b", ""},
        {"a\xC3\xA9\b!", "a!"},
        {"a\n\b\bb", "a\nb"},
        {"ab\r\bc", "c"},
        {"N\bNA\bAM\bME\bE", "NAME"},
    };

    (void)state;
    check_all(samples, COUNTOF(samples));
}

static void removes_what_cannot_be_seen(void **state)
{
    static const struct sample samples[] = {
        {"a\x01\x02\a\v\f\x0e\x7f"
         "b",
         "ab"},
        {"a\xE2\x80\x8B"
         "b\xE2\x80\x8E"
         "c\xE2\x80\xAE"
         "d\xE2\x81\xA6"
         "e",
         "abcde"},
        {"a\xF3\xA0\x81\x81\xF3\xA0\x84\x80"
         "b",
         "ab"},
        {"a\xC2\xAD"
         "b\xEF\xBB\xBF"
         "c\xEF\xB8\x80"
         "d",
         "abcd"},
        {"a\xE2\x80\xA8"
         "b\xE2\x80\xA9"
         "c\xC2\x85"
         "d",
         "a\nb\nc\nd"},
        {"\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x92\xBB\xE2\x9D\xA4\xEF\xB8\x8F",
         "\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x92\xBB\xE2\x9D\xA4\xEF\xB8\x8F"},
        {"\xE4\xB8\xAD\xE6\x96\x87 \xC3\xA9\xC2\xA0", "\xE4\xB8\xAD\xE6\x96\x87 \xC3\xA9\xC2\xA0"},
        {"a\xFF\xC3z\xE2\x82", "a" BAD BAD "z" BAD},
        {"a\x9B"
         "31m",
         "a" BAD "31m"},
    };
    struct buf b own_buf = {.max = 100};

    (void)state;
    check_all(samples, COUNTOF(samples));
    plain_text(S("a\0b"), &b);
    assert_str(buf_str(&b), S("ab"));
}

static void leaves_earlier_text_alone(void **state)
{
    struct buf b own_buf = {.max = 100};

    (void)state;
    buf_add(&b, S("head"));
    plain_text(S("\b\b\rx\ry"), &b);
    assert_str(buf_str(&b), S("heady"));
}

static void cuts_between_characters_when_full(void **state)
{
    struct str text = S("ab\xC3\xA9\xE2\x82\xAC\xFFz\nmore");

    (void)state;
    for (size_t max = 0; max < 20; max++) {
        struct buf b own_buf = {.max = max};

        plain_text(text, &b);
        assert_true(utf8_valid(buf_str(&b)));
        assert_int_equal(b.cut, max < 16);
        assert_true(b.len <= max);
        assert_true(b.len + 3 > max || max >= 16);
    }
}

static void a_long_line_that_is_taken_back_costs_nothing(void **state)
{
    static const struct sample samples[] = {
        {"0123456789\rok\nmore", "ok\nmore"},
        {"0123456789\b\b\b\bab", "012345ab"},
    };

    (void)state;
    for (size_t i = 0; i < COUNTOF(samples); i++) {
        struct buf b own_buf = {.max = 8};

        plain_text(str_from(samples[i].in), &b);
        assert_str(buf_str(&b), str_from(samples[i].out));
        assert_false(b.cut);
    }
}

static void takes_linear_time(void **state)
{
    static const char *const patterns[] = {E "]",     E "[",      "\r", "\b",   "a\r",   "a\b",
                                           E "P\xC2", "\xC2\x9D", "x",  "\xFF", E "]x\n"};
    const size_t size = 4 << 20;
    int64_t start_ms = clock_mono_ms();
    char *text own_mem = xmalloc(size + 8);

    (void)state;
    for (size_t i = 0; i < COUNTOF(patterns); i++) {
        struct buf b own_buf = {.max = size * 3};
        size_t len = strlen(patterns[i]);

        for (size_t at = 0; at < size; at += len) {
            memcpy(text + at, patterns[i], len);
        }
        plain_text((struct str){text, size}, &b);
        assert_true(b.len <= b.max);
    }
    /* Seconds at the slowest with sanitizers; a square would take days. */
    assert_true(clock_mono_ms() - start_ms < 60000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(removes_escape_sequences),
        cmocka_unit_test(lets_no_open_string_swallow_the_next_line),
        cmocka_unit_test(shows_the_last_state_of_a_line),
        cmocka_unit_test(removes_what_cannot_be_seen),
        cmocka_unit_test(leaves_earlier_text_alone),
        cmocka_unit_test(cuts_between_characters_when_full),
        cmocka_unit_test(a_long_line_that_is_taken_back_costs_nothing),
        cmocka_unit_test(takes_linear_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
