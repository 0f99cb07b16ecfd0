/* test_journal.c - what is kept of each box, and what is not. */
#include <stdio.h>

#include "core/journal.h"
#include "test.h"

static void assert_tail(struct journal *j, const char *key, size_t lines, const char *expected)
{
    struct buf out own_buf = {0};

    buf_init(&out, 1 << 20);
    journal_tail(j, str_from(key), lines, &out);
    assert_str(buf_str(&out), str_from(expected));
}

static void each_box_has_its_own_last_lines(void **state)
{
    struct journal *j = journal_new();

    (void)state;
    assert_tail(j, "a", 10, "");
    assert_int_equal(journal_count(j, S("a")), 0);
    journal_add(j, S("a"), S("one\ntwo\n"));
    journal_add(j, S("b"), S("other\n"));
    journal_add(j, S("a"), S("three\n"));
    assert_tail(j, "a", 10, "one\ntwo\nthree\n");
    assert_tail(j, "a", 2, "two\nthree\n");
    assert_tail(j, "a", 0, "");
    assert_tail(j, "b", 10, "other\n");
    assert_int_equal(journal_count(j, S("a")), 2);
    assert_int_equal(journal_count(j, S("b")), 1);
    journal_free(j);
}

static void old_lines_go_and_whole_ones_stay(void **state)
{
    struct journal *j = journal_new();
    struct buf out own_buf = {0};
    char line[64];
    int last = 40000;

    (void)state;
    for (int i = 1; i <= last; i++) {
        (void)snprintf(line, sizeof(line), "line %08d\n", i);
        journal_add(j, S("a"), str_from(line));
    }
    buf_init(&out, 2 * JOURNAL_BYTES);
    journal_tail(j, S("a"), SIZE_MAX, &out);
    assert_true(out.len <= JOURNAL_BYTES && out.len >= JOURNAL_BYTES / 4);
    assert_true(str_starts(buf_str(&out), S("line ")));
    assert_true(str_ends(buf_str(&out), S("line 00040000\n")));
    assert_int_equal(out.len % 14, 0);
    assert_int_equal(journal_count(j, S("a")), last);
    journal_free(j);
}

static void a_huge_text_is_cut_from_the_front(void **state)
{
    struct journal *j = journal_new();
    struct buf text own_buf = {0};
    struct buf out own_buf = {0};

    (void)state;
    buf_init(&text, 4 * JOURNAL_BYTES);
    while (text.len < 2 * JOURNAL_BYTES) {
        buf_add(&text, S("0123456789abcde\n"));
    }
    buf_add(&text, S("end\n"));
    journal_add(j, S("a"), S("before\n"));
    journal_add(j, S("a"), buf_str(&text));
    buf_init(&out, 2 * JOURNAL_BYTES);
    journal_tail(j, S("a"), SIZE_MAX, &out);
    assert_true(out.len <= JOURNAL_BYTES);
    assert_true(str_ends(buf_str(&out), S("\nend\n")));
    journal_free(j);
}

static void the_box_that_was_used_longest_ago_is_forgotten(void **state)
{
    struct journal *j = journal_new();
    char key[16];

    (void)state;
    journal_add(j, S("first"), S("1\n"));
    journal_add(j, S("second"), S("2\n"));
    for (int i = 0; i < JOURNAL_BOXES - 2; i++) {
        (void)snprintf(key, sizeof(key), "box-%d", i);
        journal_add(j, str_from(key), S("x\n"));
    }
    journal_add(j, S("first"), S("again\n"));
    journal_add(j, S("new"), S("n\n"));
    assert_tail(j, "first", 9, "1\nagain\n");
    assert_tail(j, "second", 9, "");
    assert_tail(j, "new", 9, "n\n");
    journal_free(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_box_has_its_own_last_lines),
        cmocka_unit_test(old_lines_go_and_whole_ones_stay),
        cmocka_unit_test(a_huge_text_is_cut_from_the_front),
        cmocka_unit_test(the_box_that_was_used_longest_ago_is_forgotten),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
