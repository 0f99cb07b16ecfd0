#include "agent/wire.h"
#include "test.h"

static void numbers_and_strings_come_back(void **state)
{
    struct buf b own_buf = {0};
    struct arena a own_arena = {0};
    const struct str items[] = {S("one"), STR_EMPTY, S("three")};
    const struct str *got = NULL;
    struct frame f;
    struct err e;
    struct wire_in in;
    struct wire_out w;

    (void)state;
    arena_init(&a, 1 << 20);
    buf_init(&b, 1 << 20);
    w = wire_begin(&b, 7);
    wire_u8(&w, 0xfe);
    wire_u32(&w, 0x01020304);
    wire_u64(&w, 0x1122334455667788);
    wire_str(&w, S("a\0b"));
    wire_list(&w, items, 3);
    assert_true(wire_end(&w));

    assert_int_equal(wire_parse(buf_str(&b), &f, &e), b.len);
    assert_int_equal(f.type, 7);
    in = wire_read(f.fields);
    assert_int_equal(wire_get_u8(&in), 0xfe);
    assert_int_equal(wire_get_u32(&in), 0x01020304);
    assert_true(wire_get_u64(&in) == 0x1122334455667788);
    assert_str(wire_get_str(&in), S("a\0b"));
    assert_int_equal(wire_get_list(&in, &a, 3, &got), 3);
    assert_str(got[0], S("one"));
    assert_str(got[1], STR_EMPTY);
    assert_str(got[2], S("three"));
    assert_true(wire_done(&in));
}

static void bytes_are_little_endian(void **state)
{
    struct buf b own_buf = {0};
    struct wire_out w;

    (void)state;
    buf_init(&b, 100);
    w = wire_begin(&b, 9);
    wire_u32(&w, 0x0102);
    wire_str(&w, S("x"));
    assert_true(wire_end(&w));
    assert_str(buf_str(&b), S("\x0a\0\0\0\x09\x02\x01\0\0\x01\0\0\0x"));
}

static void every_prefix_asks_for_more(void **state)
{
    struct buf b own_buf = {0};
    struct frame f;
    struct err e;
    struct wire_out w;

    (void)state;
    buf_init(&b, 100);
    w = wire_begin(&b, 1);
    wire_str(&w, S("hello"));
    assert_true(wire_end(&w));
    for (size_t n = 0; n < b.len; n++) {
        assert_int_equal(wire_parse((struct str){b.p, n}, &f, &e), 0);
    }
    buf_add(&b, S("next"));
    assert_int_equal(wire_parse(buf_str(&b), &f, &e), b.len - 4);
}

static void bad_lengths_are_refused(void **state)
{
    struct frame f;
    struct err e;

    (void)state;
    assert_fails(wire_parse(S("\0\0\0\0"), &f, &e), &e, ERR_PROTOCOL, "0 bytes");
    assert_fails(wire_parse(S("\xff\xff\xff\xff"), &f, &e), &e, ERR_PROTOCOL, "4294967295");
    assert_fails(wire_parse(S("\x01\0\x40\0"), &f, &e), &e, ERR_PROTOCOL, "4194305");
    assert_int_equal(wire_parse(S("\0\0\x40\0"), &f, &e), 0);
}

static void bad_fields_stay_bad(void **state)
{
    struct arena a own_arena = {0};
    const struct str *got = NULL;
    struct wire_in in = wire_read(S("\x05\0\0\0abc"));

    (void)state;
    arena_init(&a, 1 << 20);
    assert_str(wire_get_str(&in), STR_EMPTY);
    assert_true(in.bad);
    assert_int_equal(wire_get_u8(&in), 0); /* there is a byte, but the reader is bad */
    assert_false(wire_done(&in));

    in = wire_read(S("\xff\xff\xff\xff"));
    assert_int_equal(wire_get_list(&in, &a, 1u << 31, &got), 0);
    assert_true(in.bad);
    assert_int_equal(a.used, 0); /* nothing was allocated for the lie */

    in = wire_read(S("\x02\0\0\0\0\0\0\0\0\0\0\0"));
    assert_int_equal(wire_get_list(&in, &a, 1, &got), 0); /* more than the caller takes */
    assert_true(in.bad);

    in = wire_read(S("\x02\0\0\0\x01\0\0\0x\x09\0\0\0"));
    assert_int_equal(wire_get_list(&in, &a, 8, &got), 0);
    assert_null(got);

    in = wire_read(S("ab"));
    assert_int_equal(wire_get_u8(&in), 'a');
    assert_false(wire_done(&in)); /* something is left over */
}

static void frames_that_do_not_fit_are_taken_back(void **state)
{
    struct buf b own_buf = {0};
    struct wire_out w;

    (void)state;
    buf_init(&b, 20);
    w = wire_begin(&b, 1);
    assert_true(wire_end(&w));
    assert_int_equal(b.len, FRAME_HEADER);

    w = wire_begin(&b, 2);
    wire_str(&w, S("longer than what is left"));
    assert_false(wire_end(&w));
    assert_int_equal(b.len, FRAME_HEADER);

    w = wire_begin(&b, 3); /* the buffer is of use again */
    wire_u8(&w, 1);
    assert_true(wire_end(&w));
}

static void a_frame_above_the_maximum_is_not_written(void **state)
{
    struct buf b own_buf = {0};
    char *big = calloc(1, FRAME_MAX + 1);
    struct wire_out w;

    (void)state;
    buf_init(&b, 64u << 20);
    w = wire_begin(&b, 1);
    wire_str(&w, (struct str){big, FRAME_MAX - 5});
    assert_true(wire_end(&w)); /* type and length make it FRAME_MAX exactly */
    w = wire_begin(&b, 1);
    wire_str(&w, (struct str){big, FRAME_MAX - 4});
    assert_false(wire_end(&w));
    w = wire_begin(&b, 1);
    wire_str(&w, (struct str){big, FRAME_MAX + 1});
    assert_false(wire_end(&w));
    free(big);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_and_strings_come_back),
        cmocka_unit_test(bytes_are_little_endian),
        cmocka_unit_test(every_prefix_asks_for_more),
        cmocka_unit_test(bad_lengths_are_refused),
        cmocka_unit_test(bad_fields_stay_bad),
        cmocka_unit_test(frames_that_do_not_fit_are_taken_back),
        cmocka_unit_test(a_frame_above_the_maximum_is_not_written),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
