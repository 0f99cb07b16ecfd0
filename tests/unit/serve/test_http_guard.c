/* Which names and pages are let in, and that nothing looks like one of them. */
#include "serve/http/guard.h"
#include "test.h"

static const struct guard loopback = {
    .hosts = {"box.example.com, proxy.example.com:8443", 39},
    .origins = {"https://app.example.com,http://localhost:3000", 45},
    .bound = {"127.0.0.1", 9},
};

static bool host(const struct guard *g, const char *value)
{
    struct err e = {0};

    if (guard_host(g, str_from(value), &e) == 0) {
        return true;
    }
    assert_int_equal(e.kind, ERR_DENIED);
    assert_int_equal(e.msg[strlen(e.msg) - 1], '.');
    return false;
}

static bool origin(const struct guard *g, const char *value, const char *named, bool *cors)
{
    struct err e = {0};

    if (guard_origin(g, str_from(value), str_from(named), cors, &e) == 0) {
        return true;
    }
    assert_int_equal(e.kind, ERR_DENIED);
    assert_int_equal(e.msg[strlen(e.msg) - 1], '.');
    return false;
}

static void names_of_this_machine_and_listed_ones_are_let_in(void **state)
{
    static const char *const good[] = {
        "localhost",
        "localhost:8000",
        "LocalHost:1",
        "127.0.0.1",
        "127.0.0.1:8000",
        "127.1.2.3:8000",
        "[::1]",
        "[::1]:8000",
        "box.example.com",
        "BOX.example.com",
        "localhost.",
        "box.example.com:8000",
        "proxy.example.com:8443",
    };

    (void)state;
    for (size_t i = 0; i < COUNTOF(good); i++) {
        if (!host(&loopback, good[i])) {
            fail_msg("%s was refused", good[i]);
        }
    }
}

static void other_names_are_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "evil.example.com",
        "localhost.evil.example.com",
        "127.0.0.1.evil.example.com",
        "evil.localhost.example.com",
        "10.0.0.1",
        "0.0.0.0",
        "[::]",
        "[::2]",
        "2130706433",
        "0x7f.1",
        "127.1",
        "box.example.com.evil.org",
        "xbox.example.com",
        "proxy.example.com:443",
        "localhost@evil.example.com",
        "localhost:8000:9",
        "localhost/x",
        "local host",
    };

    (void)state;
    for (size_t i = 0; i < COUNTOF(bad); i++) {
        if (host(&loopback, bad[i])) {
            fail_msg("%s was let in", bad[i]);
        }
    }
}

static void addresses_are_let_in_where_we_listen_on_all(void **state)
{
    const struct guard all = {.bound = S("0.0.0.0"), .any_address = true};
    const struct guard one = {.bound = S("192.168.7.1")};

    (void)state;
    assert_true(host(&all, "192.168.7.1:8000"));
    assert_true(host(&all, "[2001:db8::1]:8000"));
    assert_false(host(&all, "machine.local"));
    assert_true(host(&one, "192.168.7.1:8000"));
    assert_false(host(&one, "192.168.7.2:8000"));
}

static void a_page_is_ours_listed_or_foreign(void **state)
{
    bool cors = true;

    (void)state;
    assert_true(origin(&loopback, "", "localhost:8000", &cors));
    assert_false(cors);
    assert_true(origin(&loopback, "http://localhost:8000", "localhost:8000", &cors));
    assert_false(cors);
    assert_true(origin(&loopback, "http://box.example.com", "box.example.com", &cors));
    /* A proxy speaks https for us. */
    assert_true(origin(&loopback, "https://box.example.com", "box.example.com", &cors));
    assert_true(origin(&loopback, "https://localhost", "localhost", &cors));
    assert_false(cors);
    assert_true(origin(&loopback, "https://app.example.com", "localhost:8000", &cors));
    assert_true(cors);
    assert_true(origin(&loopback, "http://localhost:3000", "localhost:8000", &cors));
    assert_true(cors);
}

static void foreign_pages_are_refused(void **state)
{
    static const char *const bad[] = {
        "null",
        "http://evil.example.com",
        "http://localhost:8001",
        "http://localhost",
        "http://app.example.com",
        "https://app.example.com:444",
        "https://localhost:8443", /* another server of this machine */
        "https://localhost",
        "https://app.example.com.evil.org",
        "https://app.example.com/",
        "file://",
        "app.example.com",
        "http://127.0.0.1:8000", /* as localhost it is another site for browsers */
        "*",
    };
    bool cors;

    (void)state;
    for (size_t i = 0; i < COUNTOF(bad); i++) {
        if (origin(&loopback, bad[i], "localhost:8000", &cors)) {
            fail_msg("%s was let in", bad[i]);
        }
    }
}

static void a_star_lets_every_page_in(void **state)
{
    const struct guard open = {.origins = S("*"), .bound = S("127.0.0.1")};
    bool cors = false;

    (void)state;
    assert_true(origin(&open, "http://evil.example.com", "localhost", &cors));
    assert_true(cors);
    assert_false(host(&open, "evil.example.com"));
    assert_true(guard_any_origin(&open));
    assert_false(guard_any_origin(&loopback));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_this_machine_and_listed_ones_are_let_in),
        cmocka_unit_test(other_names_are_refused),
        cmocka_unit_test(addresses_are_let_in_where_we_listen_on_all),
        cmocka_unit_test(a_page_is_ours_listed_or_foreign),
        cmocka_unit_test(foreign_pages_are_refused),
        cmocka_unit_test(a_star_lets_every_page_in),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
