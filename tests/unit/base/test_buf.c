#include "base/buf.h"
#include "base/own.h"
#include "test.h"

static void grows_as_needed(void **state)
{
    struct buf b own_buf = {.max = 100000};

    (void)state;
    for (int i = 0; i < 10000; i++) {
        buf_addf(&b, "%d,", i % 10);
    }
    assert_int_equal(b.len, 20000);
    assert_memory_equal(b.p, "0,1,2,3,", 8);
    assert_int_equal(b.p[b.len], '\0');
    assert_false(b.cut);
}

static void keeps_a_prefix_when_full(void **state)
{
    struct buf b own_buf = {.max = 5};

    (void)state;
    buf_add(&b, S("abc"));
    buf_add(&b, S("def"));
    assert_true(b.cut);
    assert_str(buf_str(&b), S("abcde"));
    buf_clear(&b);
    assert_false(b.cut);
    buf_addf(&b, "%s-%d", "ab", 12345);
    assert_true(b.cut);
    assert_str(buf_str(&b), S("ab-12"));
    assert_int_equal(b.p[5], '\0');
}

static void adds_nothing_after_a_cut(void **state)
{
    struct buf b own_buf = {.max = 5};

    (void)state;
    buf_add(&b, S("abcdef"));
    buf_drop(&b, 3);
    buf_add(&b, S("x"));
    buf_addf(&b, "y");
    buf_addc(&b, 'z');
    assert_str(buf_str(&b), S("de"));
}

static void holds_exactly_its_maximum(void **state)
{
    struct buf b own_buf = {.max = 5};

    (void)state;
    buf_addf(&b, "abc%s", "de");
    assert_false(b.cut);
    buf_add(&b, STR_EMPTY);
    assert_false(b.cut);
    assert_null(buf_room(&b, 1));
    assert_non_null(buf_room(&b, 0));
}

static void gives_room_to_write_into(void **state)
{
    struct buf b own_buf = {.max = 10};
    char *room;

    (void)state;
    buf_add(&b, S("abc"));
    assert_null(buf_room(&b, 8));
    assert_false(b.cut);
    room = buf_room(&b, 7);
    assert_non_null(room);
    memcpy(room, "defxxxx", 7);
    b.len += 3;
    assert_str(buf_str(&b), S("abcdef"));
    assert_string_equal(b.p, "abcdef");
}

static void drops_from_the_front(void **state)
{
    struct buf b own_buf = {.max = 10};

    (void)state;
    buf_drop(&b, 3);
    buf_add(&b, S("abcdef"));
    buf_drop(&b, 4);
    assert_string_equal(b.p, "ef");
    buf_drop(&b, 100);
    assert_string_equal(b.p, "");
    assert_int_equal(b.len, 0);
}

static void hands_its_bytes_on(void **state)
{
    struct buf b own_buf = {.max = 10};
    char *nothing own_mem = buf_take(&b);
    char *text own_mem = NULL;

    (void)state;
    assert_string_equal(nothing, "");
    buf_addc(&b, 'x');
    text = buf_take(&b);
    assert_string_equal(text, "x");
    assert_int_equal(b.len, 0);
    assert_null(b.p);
    buf_add(&b, S("0123456789"));
    assert_false(b.cut);
}

static void is_empty_when_zeroed(void **state)
{
    struct buf b own_buf = {0};

    (void)state;
    assert_str(buf_str(&b), S(""));
    buf_clear(&b);
    buf_addf(&b, "x");
    assert_true(b.cut);
    assert_str(buf_str(&b), S(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grows_as_needed),          cmocka_unit_test(keeps_a_prefix_when_full),
        cmocka_unit_test(adds_nothing_after_a_cut), cmocka_unit_test(holds_exactly_its_maximum),
        cmocka_unit_test(gives_room_to_write_into), cmocka_unit_test(drops_from_the_front),
        cmocka_unit_test(hands_its_bytes_on),       cmocka_unit_test(is_empty_when_zeroed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
