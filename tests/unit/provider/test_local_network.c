#include "provider/local/local.h"
#include "test.h"

static char file[] = "/home/me/.config/anybox/anybox.toml";

static int check(enum network network, bool allowed, int landlock, struct err *e)
{
    struct arena a own_arena = {0};
    const struct local l = {.host_network = allowed, .config_file = file};

    arena_init(&a, 1u << 16);
    return network_check(&l, network, landlock, &a, e);
}

static void none_is_always_to_be_had(void **state)
{
    struct err e;

    (void)state;
    assert_ok(check(NETWORK_NONE, false, 0, &e), &e);
    assert_ok(check(NETWORK_NONE, true, 7, &e), &e);
}

static void the_hosts_is_the_operators_to_give(void **state)
{
    struct err e;

    (void)state;
    assert_fails(check(NETWORK_HOST, false, 7, &e), &e, ERR_DENIED, "allow_host_network = true");
    assert_fails(check(NETWORK_HOST, false, 7, &e), &e, ERR_DENIED, file);
    assert_ok(check(NETWORK_HOST, true, 7, &e), &e);
    assert_ok(check(NETWORK_HOST, true, 6, &e), &e);
}

static void without_scopes_the_hosts_is_refused(void **state)
{
    struct err e;

    (void)state;
    assert_fails(check(NETWORK_HOST, true, 5, &e), &e, ERR_UNSUPPORTED, "Linux 6.12");
    assert_fails(check(NETWORK_HOST, true, 0, &e), &e, ERR_UNSUPPORTED, "lsm=");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(none_is_always_to_be_had),
        cmocka_unit_test(the_hosts_is_the_operators_to_give),
        cmocka_unit_test(without_scopes_the_hosts_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
