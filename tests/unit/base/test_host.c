#include "base/host.h"
#include "test.h"

/* Each could mean something to a shell, an option reader or a log. */
static const char *const evil[] = {
    "",          "-oProxyCommand=x",
    "a b",       "a;b",
    "a\nb",      "$(id)",
    "`id`",      "a'b",
    "a\"b",      "a/b",
    "a|b",       "a&b",
    "a>b",       "\x01",
    "a\\b",      "*",
    "a\xc3\xa4", "{a}",
    "a,b",       "a#b",
};

static void hosts(void **state)
{
    static const char *const good[] = {"gpu1",         "a.example.com", "10.0.0.1",
                                       "fe80::1%eth0", "x_y",           "2001:db8::1"};
    struct err e;

    (void)state;
    for (size_t i = 0; i < COUNTOF(good); i++) {
        assert_ok(host_check(str_from(good[i]), &e), &e);
    }
    for (size_t i = 0; i < COUNTOF(evil); i++) {
        assert_fails(host_check(str_from(evil[i]), &e), &e, ERR_INVALID, "no name or address");
        assert_null(strchr(e.msg, '\n'));
    }
    assert_fails(host_check(S("a\0b"), &e), &e, ERR_INVALID, "no name");
    assert_fails(host_check(S(".a"), &e), &e, ERR_INVALID, "no name");
}

static void users(void **state)
{
    static const char *const good[] = {"root", "a.b", "me@corp.example", "x-1", "_svc", "a+b"};
    struct err e;

    (void)state;
    for (size_t i = 0; i < COUNTOF(good); i++) {
        assert_ok(host_check_user(str_from(good[i]), &e), &e);
    }
    for (size_t i = 0; i < COUNTOF(evil); i++) {
        assert_fails(host_check_user(str_from(evil[i]), &e), &e, ERR_INVALID, "no name of a user");
    }
}

static void jumps(void **state)
{
    static const char *const good[] = {"gate",         "me@gate", "me@gate:2222",        "a,b@c:1",
                                       "[fe80::1]:22", "u@[::1]", "me@corp.example@gate"};
    static const char *const bad[] = {"",       "a,", "a:0", "a:x",  "a:99999",          "@a",
                                      "[::1]x", "-a", "a;b", "u$@a", "a,b,c,d,e,f,g,h,i"};
    struct err e;

    (void)state;
    for (size_t i = 0; i < COUNTOF(good); i++) {
        assert_ok(host_check_jump(str_from(good[i]), &e), &e);
    }
    for (size_t i = 0; i < COUNTOF(bad); i++) {
        assert_true(host_check_jump(str_from(bad[i]), &e) < 0);
        assert_non_null(strstr(e.msg, "proxy_jump"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts),
        cmocka_unit_test(users),
        cmocka_unit_test(jumps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
