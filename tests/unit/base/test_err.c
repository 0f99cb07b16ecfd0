#include <errno.h>

#include "base/err.h"
#include "base/utf8.h"
#include "test.h"

static void reads_outermost_first(void **state)
{
    struct err e;

    (void)state;
    assert_int_equal(err_set(&e, ERR_UNREACHABLE, "connection %s", "reset"), -1);
    assert_int_equal(err_wrap(&e, "open channel %d", 7), -1);
    assert_int_equal(err_wrap(&e, "exec in gpu1"), -1);
    assert_string_equal(e.msg, "exec in gpu1: open channel 7: connection reset");
    assert_int_equal(e.kind, ERR_UNREACHABLE);
    assert_int_equal(e.sys, 0);
}

static void says_what_errno_means(void **state)
{
    static const struct {
        int errnum;
        enum err_kind kind;
    } cases[] = {
        {ENOENT, ERR_NOT_FOUND},
        {ENOTDIR, ERR_NOT_FOUND},
        {EEXIST, ERR_EXISTS},
        {EACCES, ERR_DENIED},
        {EPERM, ERR_DENIED},
        {ENOSPC, ERR_LIMIT},
        {EDQUOT, ERR_LIMIT},
        {EMFILE, ERR_LIMIT},
        {ENFILE, ERR_LIMIT},
        {EAGAIN, ERR_LIMIT},
        {ENOMEM, ERR_LIMIT},
        {EFBIG, ERR_LIMIT},
        {E2BIG, ERR_LIMIT},
        {EPIPE, ERR_UNREACHABLE},
        {ETIMEDOUT, ERR_UNREACHABLE},
        {ECONNREFUSED, ERR_UNREACHABLE},
        {EHOSTUNREACH, ERR_UNREACHABLE},
        {ECONNRESET, ERR_UNREACHABLE},
        {EIO, ERR_SYSTEM},
        {EINVAL, ERR_SYSTEM},
    };
    struct err e;

    (void)state;
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        assert_int_equal(err_sys(&e, cases[i].errnum, "x"), -1);
        assert_int_equal(e.kind, cases[i].kind);
        assert_int_equal(e.sys, cases[i].errnum);
    }
    (void)err_sys(&e, ENOENT, "open %s", "/a");
    assert_string_equal(e.msg, "open /a: No such file or directory");
    (void)err_sys(&e, 99999, "open");
    assert_string_equal(e.msg, "open: error 99999");
}

static void cuts_a_long_message(void **state)
{
    char text[2000];
    struct err e;

    (void)state;
    for (size_t len = 500; len < 530; len++) {
        memset(text, 'x', len);
        text[len] = '\0';
        (void)err_set(&e, ERR_BUG, "%s", text);
        if (len < sizeof(e.msg)) {
            assert_string_equal(e.msg, text);
        } else {
            assert_int_equal(strlen(e.msg), sizeof(e.msg) - 1);
            assert_string_equal(e.msg + sizeof(e.msg) - 4, "...");
        }
    }
    (void)err_wrap(&e, "outer");
    assert_memory_equal(e.msg, "outer: xxx", 10);
    assert_string_equal(e.msg + sizeof(e.msg) - 4, "...");
    (void)err_sys(&e, EIO, "%s", text);
    assert_string_equal(e.msg + sizeof(e.msg) - 4, "...");
}

static void does_not_cut_a_character_in_two(void **state)
{
    char text[2000];
    struct err e;

    (void)state;
    for (size_t shift = 0; shift < 4; shift++) {
        memset(text, 'x', shift);
        for (size_t i = 0; i < 200; i++) {
            memcpy(text + shift + 4 * i, "\xF0\x9F\x98\x80", 5);
        }
        (void)err_set(&e, ERR_BUG, "%s", text);
        assert_true(utf8_valid(str_from(e.msg)));
        assert_true(str_ends(str_from(e.msg), S("...")));
        assert_true(strlen(e.msg) > 500);
    }
}

static void may_be_made_from_its_own_message(void **state)
{
    struct err e;

    (void)state;
    (void)err_set(&e, ERR_BUG, "one");
    (void)err_set(&e, ERR_INVALID, "%s and %s", e.msg, e.msg);
    assert_string_equal(e.msg, "one and one");
}

static void names_every_kind(void **state)
{
    (void)state;
    for (int kind = 0; kind < ERR_KINDS; kind++) {
        assert_non_null(err_kind_name((enum err_kind)kind));
        for (int other = 0; other < kind; other++) {
            assert_string_not_equal(err_kind_name((enum err_kind)kind),
                                    err_kind_name((enum err_kind)other));
        }
    }
    assert_string_equal(err_kind_name(ERR_TIMEOUT), "timeout");
    assert_string_equal(err_kind_name((enum err_kind)77), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_outermost_first),
        cmocka_unit_test(says_what_errno_means),
        cmocka_unit_test(cuts_a_long_message),
        cmocka_unit_test(does_not_cut_a_character_in_two),
        cmocka_unit_test(may_be_made_from_its_own_message),
        cmocka_unit_test(names_every_kind),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
