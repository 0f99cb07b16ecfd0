#include "base/attr.h"
#include "base/buf.h"
#include "serve/lines.h"
#include "test.h"

/* Lines in brackets, '!' for one that is too long. */
static void show_lines(struct lines *l, bool at_end, struct buf *out)
{
    for (;;) {
        const char *text;
        size_t len;

        switch (lines_next(l, at_end, &text, &len)) {
        case LINE_NONE: return;
        case LINE_TEXT: buf_addf(out, "[%.*s]", (int)len, text); break;
        case LINE_TOO_LONG: buf_addc(out, '!'); break;
        }
    }
}

/* What comes out of `input` when it arrives `step` bytes at a time. */
static void split(struct str input, size_t step, size_t max, struct buf *out)
{
    struct lines l;

    lines_init(&l, max);
    while (input.len > 0) {
        size_t n = step < input.len ? step : input.len;
        size_t cap;
        char *to = lines_room(&l, &cap);

        assert_true(cap >= 65536);
        memcpy(to, input.p, n);
        lines_added(&l, n);
        input = str_skip(input, n);
        show_lines(&l, false, out);
    }
    show_lines(&l, true, out);
    lines_fini(&l);
}

static void test_lines(void **state)
{
    static const struct {
        const char *input;
        const char *lines; /* at most 8 bytes each */
    } rows[] = {
        {"", ""},
        {"a\nb\n", "[a][b]"},
        {"a\nb", "[a][b]"},
        {"a\r\nb\r\n", "[a][b]"},
        {"a\r", "[a]"},
        {"\n\n\r\n  \n\t\n", ""},
        {"\n a \n", "[ a ]"},
        {"\xef\xbb\xbf"
         "a\nb\n",
         "[a][b]"},
        {"\xef\xbb\xbf\nb\n", "[b]"},
        {"a\n\xef\xbb\xbf"
         "b\n",
         "[a][\xef\xbb\xbf"
         "b]"},
        {"12345678\n", "[12345678]"},
        {"123456789\nx\n", "![x]"},
        {"x\n1234567890123456789012345\ny\n", "[x]![y]"},
        {"123456789", "!"},
        {"123456789\n", "!"},
        {"123456789\n123456789\n", "!!"},
        {"1234567890123\n\nz", "![z]"},
        {"a\n\n\nb\n12345678", "[a][b][12345678]"},
    };
    static const size_t steps[] = {1, 2, 3, 7, 1000};

    (void)state;
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        for (size_t k = 0; k < COUNTOF(steps); k++) {
            struct buf out own_buf = {0};

            buf_init(&out, 4096);
            split(str_from(rows[i].input), steps[k], 8, &out);
            assert_str(buf_str(&out), str_from(rows[i].lines));
        }
    }
}

static void test_memory_follows_the_longest_line_and_comes_back(void **state)
{
    enum { MAX = 4 << 20 };
    struct lines l;
    size_t cap, len;
    const char *text;

    (void)state;
    lines_init(&l, MAX);
    for (size_t total = 0; total <= MAX; total += cap) {
        char *to = lines_room(&l, &cap);

        memset(to, 'x', cap);
        lines_added(&l, cap);
        if (lines_next(&l, false, &text, &len) == LINE_TOO_LONG) {
            break;
        }
        assert_true(l.cap <= 2 * MAX + 131072);
    }
    (void)lines_room(&l, &cap);
    assert_true(l.cap <= 262144);
    lines_fini(&l);
}

static void test_many_lines_in_one_read(void **state)
{
    struct lines l;
    size_t cap, len, n = 0;
    const char *text;
    char *to;

    (void)state;
    lines_init(&l, 1000);
    to = lines_room(&l, &cap);
    for (size_t i = 0; i < 1000; i++) {
        memcpy(to + (i * 4), "abc\n", 4);
    }
    lines_added(&l, 4000);
    while (lines_next(&l, false, &text, &len) == LINE_TEXT) {
        assert_memory_equal(text, "abc", 3);
        assert_int_equal(len, 3);
        n++;
    }
    assert_int_equal(n, 1000);
    lines_fini(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_memory_follows_the_longest_line_and_comes_back),
        cmocka_unit_test(test_many_lines_in_one_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
