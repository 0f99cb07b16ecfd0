#include "base/own.h"
#include "base/pack.h"
#include "test.h"

static void any_bytes_come_back(void **state)
{
    static const struct str items[] = {
        {"hello", 5}, {"", 0}, {"3:abc,", 6}, {"a\0b\nc", 5}, {"\xff\xfe,,", 4},
    };
    struct buf text own_buf = {0};
    struct str rest, got;
    int64_t n;
    struct err e;

    (void)state;
    buf_init(&text, 1000);
    for (size_t i = 0; i < COUNTOF(items); i++) {
        pack_add(&text, items[i]);
    }
    pack_add_i64(&text, INT64_MIN);
    rest = buf_str(&text);
    for (size_t i = 0; i < COUNTOF(items); i++) {
        assert_ok(pack_take(&rest, &got, &e), &e);
        assert_str(got, items[i]);
    }
    assert_ok(pack_take_i64(&rest, &n, &e), &e);
    assert_true(n == INT64_MIN);
    assert_int_equal(pack_next(&rest, &got, &e), 0);
    assert_fails(pack_take(&rest, &got, &e), &e, ERR_PROTOCOL, "too short");
}

static void a_list_that_was_cut_is_told(void **state)
{
    static const char whole[] = "5:hello,11:hello world,";
    struct err e;

    (void)state;
    for (size_t len = 1; len < sizeof(whole) - 1; len++) {
        struct str rest = {whole, len};
        struct str got;
        int rc = 1;

        if (len == 8) {
            continue; /* whole, with one string in it */
        }
        while (rc > 0) {
            rc = pack_next(&rest, &got, &e);
        }
        assert_int_equal(rc, -1);
        assert_int_equal(e.kind, ERR_PROTOCOL);
    }
}

static void what_was_not_packed_is_refused(void **state)
{
    static const char *const wrong[] = {
        "hello", ":a,", "-1:a,", "99999999999999:a,", "2147483647:a,", "1:ab,", "1 :", ",", "x:a,",
    };
    struct err e;

    (void)state;
    for (size_t i = 0; i < COUNTOF(wrong); i++) {
        struct str rest = str_from(wrong[i]);
        struct str got;

        assert_int_equal(pack_next(&rest, &got, &e), -1);
        assert_int_equal(e.kind, ERR_PROTOCOL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_bytes_come_back),
        cmocka_unit_test(a_list_that_was_cut_is_told),
        cmocka_unit_test(what_was_not_packed_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
