/* Which addresses an index may lead us to. */
#include <arpa/inet.h>
#include <stdlib.h>

#include "core/index_fetch.h"
#include "test.h"

static bool is_public(const char *text)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};

    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1) {
        return index_address_is_public((const struct sockaddr *)(const void *)&v4);
    }
    assert_int_equal(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
    return index_address_is_public((const struct sockaddr *)(const void *)&v6);
}

static void public_addresses_are_told_from_others(void **state)
{
    static const char *const open[] = {
        "1.1.1.1",     "8.8.8.8",     "172.15.0.1",    "172.32.0.1", "100.63.0.1",
        "100.128.0.1", "11.0.0.1",    "192.167.0.1",   "223.0.0.1",  "2a04:4e42::223",
        "2606::1",     "169.253.0.1", "::ffff:8.8.8.8"};
    static const char *const closed[] = {
        "0.0.0.0",     "10.1.2.3",
        "100.64.0.1",  "127.0.0.1",
        "127.255.0.1", "169.254.169.254",
        "172.16.0.1",  "172.31.255.255",
        "192.168.1.1", "198.18.0.1",
        "224.0.0.1",   "255.255.255.255",
        "::",          "::1",
        "fe80::1",     "fd00:ec2::254",
        "ff02::1",     "::ffff:127.0.0.1",
        "64:ff9b::1",  "2002:7f00:1::",
    };

    (void)state;
    for (size_t i = 0; i < COUNTOF(open); i++) {
        if (!is_public(open[i])) {
            fail_msg("%s is public", open[i]);
        }
    }
    for (size_t i = 0; i < COUNTOF(closed); i++) {
        if (is_public(closed[i])) {
            fail_msg("%s is not public", closed[i]);
        }
    }
}

static void other_kinds_of_addresses_are_not_public(void **state)
{
    const struct sockaddr other = {.sa_family = AF_UNIX};

    (void)state;
    assert_false(index_address_is_public(&other));
}

static void a_wrong_index_names_its_setting(void **state)
{
    struct index_conf conf = {.url = S("ftp://h/"), .max_file = 1};
    struct err e = {0};

    (void)state;
    assert_fails(index_conf_check(&conf, &e), &e, ERR_INVALID,
                 "mirror.pypi_index_url: \"ftp://h/\"");
    conf.url = S("ftp://u:secret@h/");
    assert_fails(index_conf_check(&conf, &e), &e, ERR_INVALID, "\"?\"");
    conf.url = S("http://h/?q");
    assert_fails(index_conf_check(&conf, &e), &e, ERR_INVALID, "mirror.pypi_index_url");
    conf.url = S("https://u:p@h/simple");
    assert_ok(index_conf_check(&conf, &e), &e);
    assert_true(index_conf_is_secret(&conf));
    conf.url = S("https://h/simple@x");
    assert_false(index_conf_is_secret(&conf));
}

/* The box says the name: it must not be able to say more than a name. Nothing listens there. */
static void what_is_no_name_is_not_asked_for(void **state)
{
    static const char *const bad[] = {"",    "..",    "../admin", "a/b", "a?b",
                                      "a#b", "a%2fb", "a b",      "-a"};
    const struct index_conf conf = {.url = S("http://127.0.0.1:1/simple"), .max_file = 1};
    const struct ctx ctx = {0};
    struct buf page own_buf = {0};
    struct err e = {0};
    struct index_fetch *f = index_fetch_new(&conf, &ctx, &e);

    (void)state;
    assert_non_null(f);
    buf_init(&page, 1000);
    for (size_t i = 0; i < COUNTOF(bad); i++) {
        assert_fails(index_fetch_page(f, str_from(bad[i]), &page, &e), &e, ERR_INVALID, "no name");
    }
    assert_fails(index_fetch_page(f, S("A.b"), &page, &e), &e, ERR_UNREACHABLE, "/simple/a-b/");
    index_fetch_free(f);
}

/* One for the other kind does not help: we would connect ourselves, unlooked at. */
static void a_proxy_is_one_for_its_kind_of_address(void **state)
{
    static const char *const all[] = {"http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy",
                                      "ALL_PROXY"};

    (void)state;
    for (size_t i = 0; i < COUNTOF(all); i++) {
        (void)unsetenv(all[i]);
    }
    assert_false(index_has_proxy(true) || index_has_proxy(false));
    (void)setenv("http_proxy", "http://p:1", 1);
    assert_true(index_has_proxy(false));
    assert_false(index_has_proxy(true));
    (void)setenv("http_proxy", "", 1);
    (void)setenv("HTTPS_PROXY", "http://p:1", 1);
    assert_false(index_has_proxy(false));
    assert_true(index_has_proxy(true));
    (void)setenv("ALL_PROXY", "http://p:1", 1);
    (void)unsetenv("http_proxy");
    assert_true(index_has_proxy(false));
    (void)unsetenv("ALL_PROXY");
    (void)unsetenv("HTTPS_PROXY");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(public_addresses_are_told_from_others),
        cmocka_unit_test(other_kinds_of_addresses_are_not_public),
        cmocka_unit_test(a_wrong_index_names_its_setting),
        cmocka_unit_test(what_is_no_name_is_not_asked_for),
        cmocka_unit_test(a_proxy_is_one_for_its_kind_of_address),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
