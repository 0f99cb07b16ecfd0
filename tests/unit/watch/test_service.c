#include "test.h"
#include "watch/service.h"

static const struct service_spec odd = {
    .program = {"/opt/my $box/100%/\"anybox\"", 26},
    .state_dir = {"/home/u/a b\\c", 13},
    .config = {"/etc/x & <y>.toml", 17},
    .path = {"/usr/bin:/bin", 13},
};

static void a_unit_has_every_path_as_it_is(void **state)
{
    (void)state;
    struct buf text own_buf = {0};
    struct err e;

    buf_init(&text, 1u << 16);
    assert_ok(service_unit_text(&odd, &text, &e), &e);
    assert_non_null(strstr(text.p, "\nExecStart=\"/opt/my $$box/100%%/\\\"anybox\\\"\" --config "
                                   "\"/etc/x & <y>.toml\" watchdog run\n"));
    assert_non_null(strstr(text.p, "\nEnvironment=\"ANYBOX_HOME=/home/u/a b\\\\c\"\n"));
    assert_non_null(strstr(text.p, "\nEnvironment=\"PATH=/usr/bin:/bin\"\n"));
    assert_non_null(strstr(text.p, "\nKillMode=process\n"));
}

static void a_plist_has_every_path_as_it_is(void **state)
{
    (void)state;
    struct buf text own_buf = {0};
    struct err e;

    buf_init(&text, 1u << 16);
    assert_ok(service_plist_text(&odd, &text, &e), &e);
    assert_non_null(strstr(text.p, "<string>/opt/my $box/100%/\"anybox\"</string>"));
    assert_non_null(strstr(text.p, "<string>/etc/x &amp; &lt;y&gt;.toml</string>"));
    assert_non_null(strstr(text.p, "<key>ANYBOX_HOME</key><string>/home/u/a b\\c</string>"));
    assert_non_null(strstr(text.p, "<key>KeepAlive</key><true/>"));
}

static void a_newline_is_refused(void **state)
{
    (void)state;
    struct service_spec bad = odd;
    struct buf text own_buf = {0};
    struct err e;

    buf_init(&text, 1u << 16);
    bad.state_dir = S("/tmp/a\nExecStart=/bin/evil");
    assert_int_equal(service_unit_text(&bad, &text, &e), -1);
    assert_int_equal(e.kind, ERR_INVALID);
    assert_int_equal(service_plist_text(&bad, &text, &e), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_unit_has_every_path_as_it_is),
        cmocka_unit_test(a_plist_has_every_path_as_it_is),
        cmocka_unit_test(a_newline_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
