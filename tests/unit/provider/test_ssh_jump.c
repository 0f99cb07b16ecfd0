#include "base/alloc.h"
#include "provider/ssh/jump.h"
#include "test.h"

static void the_last_hop_is_next_to_the_host(void **state)
{
    struct str hops = S("first, you@second:2222 ,[fe80::1]:23");

    (void)state;
    assert_str(jump_cut(&hops), S("[fe80::1]:23"));
    assert_str(jump_cut(&hops), S("you@second:2222"));
    assert_str(jump_cut(&hops), S("first"));
    assert_int_equal(hops.len, 0);
}

static void a_hop_has_its_own_place_and_the_targets_trust(void **state)
{
    const struct ssh_host target = {.host = S("gpu"),
                                    .user = S("me"),
                                    .password = S("secret"),
                                    .port = 7,
                                    .known_hosts = S("/kh"),
                                    .trust = SSH_TRUST_STRICT};
    struct ssh_host hop = jump_conf(&target, S("you@second:2222"));

    (void)state;
    assert_str(hop.host, S("second"));
    assert_str(hop.user, S("you"));
    assert_int_equal(hop.port, 2222);
    assert_str(hop.known_hosts, S("/kh"));
    assert_int_equal(hop.trust, SSH_TRUST_STRICT);
    assert_int_equal(hop.password.len, 0);
    hop = jump_conf(&target, S("[fe80::1]:23"));
    assert_str(hop.host, S("fe80::1"));
    assert_int_equal(hop.port, 23);
    hop = jump_conf(&target, S("gate"));
    assert_str(hop.host, S("gate"));
    assert_int_equal(hop.user.len, 0);
    assert_int_equal(hop.port, 0);
}

static void circles_end(void **state)
{
    struct machine *m = xcalloc(1, sizeof(*m));
    struct machine *last = m;
    struct err e = {0};

    (void)state;
    machine_init(m, &(struct ssh_host){.name = S("gpu"), .host = S("gpu")});
    for (int i = 0; i < JUMPS_MAX; i++) {
        assert_ok(jump_add(last, S("b,a"), &e), &e);
        assert_str(last->jump->conf.host, S("a"));
        assert_str(last->jump->conf.proxy_jump, S("b"));
        last = last->jump;
    }
    assert_fails(jump_add(last, S("b,a"), &e), &e, ERR_INVALID, "more than 8");
    assert_fails(jump_check(last, &(struct ssh_host){.host = S("gpu"), .port = 22}, &e), &e,
                 ERR_INVALID, "circle");
    assert_ok(jump_check(last, &(struct ssh_host){.host = S("gpu"), .port = 23}, &e), &e);
    machine_join(m);
    machine_fini(m);
    free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_hop_is_next_to_the_host),
        cmocka_unit_test(a_hop_has_its_own_place_and_the_targets_trust),
        cmocka_unit_test(circles_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
