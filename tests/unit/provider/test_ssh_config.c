#include "base/arena.h"
#include "provider/ssh/ssh_config.h"
#include "test.h"

static void what_ssh_answers(void **state)
{
    struct ssh_options o;

    (void)state;
    ssh_config_answer(S("host gpu\nuser me\nhostname gpu1.example.com\nport 2222\n"
                        "stricthostkeychecking ask\n"
                        "identityfile ~/.ssh/id_rsa\nidentityfile ~/.ssh/my key\n"
                        "userknownhostsfile /home/me/.ssh/known_hosts /home/me/.ssh/known_hosts2\n"
                        "proxyjump gate,me@inner:22\nconnecttimeout 7\nhostkeyalias gpu\n"
                        "identityagent none\nlogverbose none\n"),
                      &o);
    assert_str(o.host, S("gpu1.example.com"));
    assert_str(o.user, S("me"));
    assert_int_equal(o.port, 2222);
    assert_int_equal(o.n_keys, 2);
    assert_str(o.keys[1], S("~/.ssh/my key"));
    assert_str(o.known_hosts, S("/home/me/.ssh/known_hosts"));
    assert_str(o.proxy_jump, S("gate,me@inner:22"));
    assert_str(o.host_key_alias, S("gpu"));
    assert_int_equal(o.connect_timeout_s, 7);
    assert_true(o.no_agent);
    assert_false(o.strict);
    ssh_config_answer(S("proxycommand nc -X 5 %h %p\nconnecttimeout none\n"
                        "stricthostkeychecking true\nport x\n"),
                      &o);
    assert_str(o.proxy_command, S("nc -X 5 %h %p"));
    assert_int_equal(o.connect_timeout_s, 0);
    assert_int_equal(o.port, 0);
    assert_true(o.strict);
}

static void patterns(void **state)
{
    static const struct {
        const char *patterns, *host;
        bool want;
    } cases[] = {
        {"gpu1", "gpu1", true},
        {"GPU1", "gpu1", true},
        {"gpu1", "gpu11", false},
        {"gpu?", "gpu1", true},
        {"gpu?", "gpu", false},
        {"*", "anything", true},
        {"*.example.com", "a.example.com", true},
        {"*.example.com", "example.com", false},
        {"a*b*c", "a-bb-b-c", true},
        {"a*b*c", "a-bb-b-d", false},
        {"* !bad", "bad", false},
        {"!bad *", "bad", false},
        {"!bad", "good", false},
        {"x \"gpu1\"\ty", "gpu1", true},
        {"", "gpu1", false},
    };

    (void)state;
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        bool got = ssh_config_matches(str_from(cases[i].patterns), str_from(cases[i].host));

        if (got != cases[i].want) {
            fail_msg("\"%s\" and \"%s\"", cases[i].patterns, cases[i].host);
        }
    }
}

/* The file "self" includes itself; the pattern of folder d means two files. */
static struct str fake_file(void *arg, struct arena *a, struct str path)
{
    (void)arg;
    (void)a;
    if (str_eq(path, S("/s/d/1"))) {
        return S("Host gpu\n  Port 1001\n");
    }
    if (str_eq(path, S("/s/d/2"))) {
        return S("Port 1002\nHost other\nUser nobody\n");
    }
    return str_eq(path, S("/s/self")) ? S("Include self\nUser included\nInclude self\n")
                                      : STR_EMPTY;
}

static void fake_glob(void *arg, struct arena *a, struct str pattern,
                      void (*each)(void *to, struct str path), void *to)
{
    (void)arg;
    (void)a;
    if (str_eq(pattern, S("/s/d/*"))) {
        each(to, S("/s/d/1"));
        each(to, S("/s/d/2"));
    } else {
        each(to, pattern);
    }
}

static struct ssh_options read_text(const char *text, const char *host)
{
    static const struct ssh_config_source from = {fake_file, fake_glob, NULL, {"/s", 2}};
    struct arena a own_arena = {0};
    struct ssh_options o = {0};

    arena_init(&a, 1u << 20);
    ssh_config_read(&a, &from, str_from(text), str_from(host), &o);
    return o;
}

static void the_first_value_counts(void **state)
{
    struct ssh_options o = read_text("# mine\nHost gpu*\n  HostName=10.0.0.7\n\tUser me\n"
                                     "  IdentityFile \"~/my keys/a\"\n  identityfile ~/b\n"
                                     "Host *\n  User everybody\n  Port 2200\n  HostName no\n",
                                     "gpu1");

    (void)state;
    assert_str(o.host, S("10.0.0.7"));
    assert_str(o.user, S("me"));
    assert_int_equal(o.port, 2200);
    assert_int_equal(o.n_keys, 2);
    assert_str(o.keys[0], S("~/my keys/a"));
    assert_false(o.skipped_match);
    o = read_text("Host gpu*\n HostName x\n User me\nHost *\nUser everybody\n", "web");
    assert_str(o.host, S(""));
    assert_str(o.user, S("everybody"));
}

static void match_blocks_are_left_out_and_said(void **state)
{
    struct ssh_options o = read_text("Match user root\n Port 1\nHost gpu\n Port 2\n", "gpu");

    (void)state;
    assert_int_equal(o.port, 2);
    assert_true(o.skipped_match);
    o = read_text("Match all\n Port 3\n", "gpu");
    assert_int_equal(o.port, 3);
    assert_false(o.skipped_match);
}

static void includes(void **state)
{
    struct ssh_options o = read_text("Include d/*\nHost gpu\nUser me\n", "gpu");

    (void)state;
    assert_int_equal(o.port, 1001);
    assert_str(o.user, S("me"));
    o = read_text("Host web\nInclude d/*\n", "gpu");
    assert_int_equal(o.port, 0);
    o = read_text("Include self\n", "gpu");
    assert_str(o.user, S("included"));
}

static void a_jump_and_a_command_exclude_each_other(void **state)
{
    struct ssh_options o =
        read_text("ProxyJump none\nProxyCommand nc %h %p\nProxyJump gate\n", "a");

    (void)state;
    assert_str(o.proxy_command, S("nc %h %p"));
    assert_str(o.proxy_jump, S(""));
}

static void what_is_about_nothing_here_says_nothing(void **state)
{
    (void)state;
    assert_false(read_text("# x\nHost *\n SendEnv LANG LC_*\n HashKnownHosts yes\n", "a").is_said);
    assert_false(read_text("Host web\n Port 3\n HostName x\nHost *\n", "a").is_said);
    assert_true(read_text("Host *\n Port 3\n", "a").is_said);
    assert_true(read_text("Host *\n CanonicalizeHostname yes\n", "a").is_said);
    assert_true(read_text("Match user x\n Port 3\n", "a").is_said);
    assert_true(read_text("Include d/*\n", "gpu").is_said);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_ssh_answers),
        cmocka_unit_test(patterns),
        cmocka_unit_test(the_first_value_counts),
        cmocka_unit_test(match_blocks_are_left_out_and_said),
        cmocka_unit_test(includes),
        cmocka_unit_test(what_is_about_nothing_here_says_nothing),
        cmocka_unit_test(a_jump_and_a_command_exclude_each_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
