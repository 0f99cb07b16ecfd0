#include "base/percent.h"
#include "test.h"

static struct arena arena;

static int set_up(void **state)
{
    (void)state;
    arena_init(&arena, 1 << 20);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    arena_fini(&arena);
    return 0;
}

static void unescapes_once(void **state)
{
    struct str out;
    struct err e;

    (void)state;
    assert_ok(percent_read(&arena, S("a%2Fb%2fc%25%32%35+%C3%A9"), false, &out, &e), &e);
    assert_str(out, S("a/b/c%25+\xc3\xa9"));
    assert_ok(percent_read(&arena, S("a+b%2B"), true, &out, &e), &e);
    assert_str(out, S("a b+"));
    assert_ok(percent_read(&arena, S(""), true, &out, &e), &e);
    assert_int_equal(out.len, 0);
    assert_fails(percent_read(&arena, S("%"), false, &out, &e), &e, ERR_INVALID, "%25");
    assert_fails(percent_read(&arena, S("%2"), false, &out, &e), &e, ERR_INVALID, "%25");
    assert_fails(percent_read(&arena, S("%zz"), false, &out, &e), &e, ERR_INVALID, "%25");
    assert_fails(percent_read(&arena, S("%-1"), false, &out, &e), &e, ERR_INVALID, "%25");
    assert_fails(percent_read(&arena, S("a%00"), false, &out, &e), &e, ERR_INVALID, "NUL");
    assert_fails(percent_read(&arena, S("a\0b"), false, &out, &e), &e, ERR_INVALID, "NUL");
}

static void finds_a_value_in_a_query(void **state)
{
    const struct str query = S("sandbox_id=ab%26c&file%5Fpath=%2Ftmp%2Fa+b&&flag&x=1=2&empty=");
    struct str out;
    bool found;
    struct err e;

    (void)state;
    assert_ok(percent_query(&arena, query, S("sandbox_id"), &out, &found, &e), &e);
    assert_true(found);
    assert_str(out, S("ab&c"));
    assert_ok(percent_query(&arena, query, S("file_path"), &out, &found, &e), &e);
    assert_str(out, S("/tmp/a b"));
    assert_ok(percent_query(&arena, query, S("flag"), &out, &found, &e), &e);
    assert_true(found && out.len == 0);
    assert_ok(percent_query(&arena, query, S("x"), &out, &found, &e), &e);
    assert_str(out, S("1=2"));
    assert_ok(percent_query(&arena, query, S("empty"), &out, &found, &e), &e);
    assert_true(found && out.len == 0);
    assert_ok(percent_query(&arena, query, S("nothing"), &out, &found, &e), &e);
    assert_false(found);
    assert_ok(percent_query(&arena, STR_EMPTY, S("a"), &out, &found, &e), &e);
    assert_false(found);
}

static void a_name_twice_is_an_error_however_it_is_written(void **state)
{
    struct str out;
    bool found;
    struct err e;

    (void)state;
    assert_fails(percent_query(&arena, S("a=1&b=2&a=3"), S("a"), &out, &found, &e), &e, ERR_INVALID,
                 "more than once");
    assert_fails(percent_query(&arena, S("a=1&%61=1"), S("a"), &out, &found, &e), &e, ERR_INVALID,
                 "more than once");
    assert_fails(percent_query(&arena, S("a=1&b=%"), S("a"), &out, &found, &e), &e, ERR_INVALID,
                 "%25");
}

static void escapes_what_comes_back(void **state)
{
    struct buf out own_buf = {0};
    struct str back;
    struct err e;

    (void)state;
    buf_init(&out, 1000);
    percent_add(&out, S("/a b/\xc3\xa9+%&=?#\"'<>"), true);
    assert_str(buf_str(&out), S("/a%20b/%C3%A9%2B%25%26%3D%3F%23%22%27%3C%3E"));
    assert_ok(percent_read(&arena, buf_str(&out), true, &back, &e), &e);
    assert_str(back, S("/a b/\xc3\xa9+%&=?#\"'<>"));
    buf_clear(&out);
    percent_add(&out, S("a/b"), false);
    assert_str(buf_str(&out), S("a%2Fb"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unescapes_once),
        cmocka_unit_test(finds_a_value_in_a_query),
        cmocka_unit_test(a_name_twice_is_an_error_however_it_is_written),
        cmocka_unit_test(escapes_what_comes_back),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
