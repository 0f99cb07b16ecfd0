#include "base/own.h"
#include "base/pack.h"
#include "config/config.h"
#include "test.h"

/* A configuration with hosts from the environment and settings of each type. */
static void load(struct config *c)
{
    const struct config_flags flags = {.program = S("/usr/bin/anybox")};

    clearenv();
    setenv("HOME", "/home/nobody", 1);
    setenv("ANYBOX_HOME", "/var/lib/some where", 1);
    setenv("ANYBOX_LOCAL_MEMORY", "512m", 1);
    setenv("ANYBOX_LOCAL_CPUS", "1.5", 1);
    setenv("ANYBOX_LOG", "debug", 1);
    setenv("REMOTE_SANDBOX_LIST",
           "[{\"name\":\"gpu1\",\"host\":\"10.0.0.1\",\"user\":\"me\",\"port\":2222,"
           "\"password\":\"se,cr:et\"},{\"host\":\"second\",\"user\":\"you\",\"key_file\":\"~/k\"},"
           "{\"host\":\"-wrong\"}]",
           1);
    config_load(c, &flags);
}

static void everything_comes_back(void **state)
{
    const struct setting_doc *docs;
    struct config sent, got;
    struct arena arena own_arena = {0};
    struct buf text own_buf = {0};
    struct str rest;
    struct err e;

    (void)state;
    load(&sent);
    assert_int_equal(sent.n_hosts, 2);
    buf_init(&text, 1u << 20);
    arena_init(&arena, 1u << 20);
    config_pack(&sent, &text);
    pack_add(&text, S("what follows"));
    clearenv();
    rest = buf_str(&text);
    assert_ok(config_unpack(&got, &rest, &e), &e);
    assert_str(rest, S("12:what follows,"));
    for (size_t i = 0; i < config_settings(&docs); i++) {
        assert_str(config_show(&got, docs[i].key, &arena), config_show(&sent, docs[i].key, &arena));
    }
    assert_int_equal(got.memory_bytes, 512 << 20);
    assert_str(got.state_dir, S("/var/lib/some where"));
    assert_str(got.hosts_problem, sent.hosts_problem);
    assert_true(got.hosts_problem.len > 0);
    assert_int_equal(got.n_hosts, 2);
    assert_str(got.hosts[0].name, S("gpu1"));
    assert_int_equal(got.hosts[0].port, 2222);
    assert_str(got.hosts[0].password, S("se,cr:et"));
    assert_str(got.hosts[1].key_file, sent.hosts[1].key_file);
    assert_int_equal(got.hosts[1].strict, sent.hosts[1].strict);
    config_fini(&got);
    config_fini(&sent);
}

static void half_of_it_is_refused(void **state)
{
    struct config sent, got;
    struct buf text own_buf = {0};
    struct err e;

    (void)state;
    load(&sent);
    buf_init(&text, 1u << 20);
    config_pack(&sent, &text);
    for (size_t len = 0; len < text.len; len += 7) {
        struct str rest = {text.p, len};

        assert_int_equal(config_unpack(&got, &rest, &e), -1);
        config_fini(&got);
    }
    config_fini(&sent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_comes_back),
        cmocka_unit_test(half_of_it_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
