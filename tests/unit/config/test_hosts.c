#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/config.h"
#include "test.h"

#define SECRET "hunter2-Geheim"

struct place {
    char dir[64];
    struct config config;
};

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    return remove(path);
}

static int set_up(void **state)
{
    struct place *p = calloc(1, sizeof(*p));

    (void)snprintf(p->dir, sizeof(p->dir), "/tmp/test-hosts-XXXXXX");
    assert_non_null(mkdtemp(p->dir));
    clearenv();
    setenv("HOME", p->dir, 1);
    *state = p;
    return 0;
}

static int tear_down(void **state)
{
    struct place *p = *state;

    config_fini(&p->config);
    (void)nftw(p->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(p);
    return 0;
}

/* With this text as the file that --config names; NULL: none. */
static const struct config *load(struct place *p, const char *text, mode_t mode)
{
    struct config_flags flags = {.program = S("anybox")};
    char path[128];

    config_fini(&p->config);
    if (text != NULL) {
        FILE *f;

        (void)snprintf(path, sizeof(path), "%s/a.toml", p->dir);
        f = fopen(path, "w");
        assert_non_null(f);
        assert_true(fputs(text, f) >= 0);
        assert_int_equal(fclose(f), 0);
        assert_int_equal(chmod(path, mode), 0);
        flags.config_file = str_from(path);
    }
    config_load(&p->config, &flags);
    return &p->config;
}

static const struct config *load_list(struct place *p, const char *list)
{
    setenv("REMOTE_SANDBOX_LIST", list, 1);
    return load(p, NULL, 0);
}

static void assert_problem(const struct config *c, const char *want)
{
    if (c->hosts_problem.len == 0 || strstr(c->hosts_problem.p, want) == NULL) {
        fail_msg("\"%.*s\" does not mention \"%s\"", STR_ARG(c->hosts_problem), want);
    }
    assert_null(strstr(c->hosts_problem.p, SECRET));
}

static void the_variables_of_one_host(void **state)
{
    struct place *p = *state;
    const struct config *c;

    setenv("REMOTE_HOST", " gpu1.example.com ", 1);
    setenv("REMOTE_USER", "me", 1);
    setenv("REMOTE_PORT", "2222", 1);
    setenv("REMOTE_PASSWORD", SECRET, 1);
    setenv("REMOTE_KEY_FILE", "~/.ssh/k", 1);
    setenv("REMOTE_KEY_PASSPHRASE", "   ", 1); /* blank counts as unset */
    c = load(p, NULL, 0);
    assert_int_equal(c->n_hosts, 1);
    assert_str(c->hosts[0].name, S("gpu1.example.com"));
    assert_str(c->hosts[0].host, S("gpu1.example.com"));
    assert_str(c->hosts[0].user, S("me"));
    assert_int_equal(c->hosts[0].port, 2222);
    assert_str(c->hosts[0].password, S(SECRET));
    assert_str(c->hosts[0].key_file, S("~/.ssh/k"));
    assert_str(c->hosts[0].key_passphrase, S(""));
    assert_str(c->hosts_problem, S(""));
    assert_true(c->remote_host_set);
    unsetenv("REMOTE_HOST");
    assert_int_equal(load(p, NULL, 0)->n_hosts, 0);
    setenv("REMOTE_HOST", "2001:db8::1", 1);
    assert_str(load(p, NULL, 0)->hosts[0].name, S("2001_db8__1"));
}

static void a_wrong_variable_is_named(void **state)
{
    static const struct {
        const char *variable, *value, *problem;
    } cases[] = {
        {"REMOTE_PORT", "70000", "REMOTE_PORT: port must be a number from 1 to 65535"},
        {"REMOTE_PORT", "ssh", "REMOTE_PORT: port must be"},
        {"REMOTE_USER", "me;id", "REMOTE_USER: user: \"me;id\" is no name of a user"},
        {"REMOTE_HOST", "-oProxyCommand=x", "REMOTE_HOST: host:"},
        {"REMOTE_HOST", "a b", "REMOTE_HOST: host:"},
    };
    struct place *p = *state;

    for (size_t i = 0; i < COUNTOF(cases); i++) {
        clearenv();
        setenv("HOME", p->dir, 1);
        setenv("REMOTE_HOST", "gpu1", 1);
        setenv("REMOTE_PASSWORD", SECRET, 1);
        setenv(cases[i].variable, cases[i].value, 1);

        const struct config *c = load(p, NULL, 0);

        assert_int_equal(c->n_hosts, 0);
        assert_problem(c, cases[i].problem);
        assert_str(c->problem, S("")); /* the rest of the configuration is right */
    }
}

static void a_list_wins_over_one_host(void **state)
{
    struct place *p = *state;
    const struct config *c;

    setenv("REMOTE_HOST", "other", 1);
    c = load_list(
        p,
        "[{\"name\": \"a\", \"host\": \"10.0.0.1\", \"user\": \"u\", \"port\": \"22\","
        " \"password\": \"" SECRET "\", \"key_file\": null, \"fallback\": true},"
        " {\"host\": \"gpu\", \"ssh_agent\": false, \"agent\": \"never\", \"trust\": \"known\"}]");
    assert_str(c->hosts_problem, S(""));
    assert_int_equal(c->n_hosts, 2);
    assert_str(c->hosts[0].name, S("a"));
    assert_int_equal(c->hosts[0].port, 22);
    assert_str(c->hosts[0].password, S(SECRET));
    assert_int_equal(c->hosts[0].fallback, 1);
    assert_int_equal(c->hosts[0].no_agent, 0);
    assert_str(c->hosts[1].name, S("gpu"));
    assert_int_equal(c->hosts[1].no_agent, 1);
    assert_int_equal(c->hosts[0].agent, HOST_AGENT_UNSAID);
    assert_int_equal(c->hosts[1].agent, HOST_AGENT_NEVER);
    assert_int_equal(c->hosts[1].strict, 1);
    assert_true(c->remote_list_len > 0);
}

static void a_broken_list_says_where_and_quotes_nothing(void **state)
{
    static const struct {
        const char *list, *problem;
    } cases[] = {
        {"[{\"host\": \"a\", \"password\": \"" SECRET "\" \"x\"}]",
         "REMOTE_SANDBOX_LIST: not valid JSON: line 1, column "},
        {"[{\"password\": " SECRET "}]", "line 1, column "},
        {"[{\"password\": \"" SECRET, "line 1, column "},
        {"\n\n  {]", "line 1, column "}, /* the variable is trimmed */
        {"{\"host\": \"a\"}", "REMOTE_SANDBOX_LIST must be a JSON list"},
        {"[1]", "REMOTE_SANDBOX_LIST entry 1: it must be an object"},
        {"[{}]", "REMOTE_SANDBOX_LIST entry 1: host is missing"},
        {"[{\"host\": \"a\", \"pasword\": \"" SECRET "\"}]",
         "entry 1: unknown key \"pasword\" of an SSH host, did you mean \"password\"?"},
        {"[{\"host\": \"a\", \"password\": 5}]", "password must be a string"},
        {"[{\"host\": \"a\", \"port\": 0}]", "port must be a number from 1 to 65535"},
        {"[{\"host\": \"a\", \"port\": [1]}]", "port must be a number from 1 to 65535"},
        {"[{\"host\": \"a\", \"fallback\": \"maybe\"}]", "fallback must be true or false"},
        {"[{\"host\": \"a\", \"trust\": \"all\"}]", "trust must be \"new\" or \"known\""},
        {"[{\"host\": \"a\", \"agent\": \"maybe\"}]", "agent must be \"auto\" or \"never\""},
        {"[{\"host\": \"a\", \"name\": \"my box\"}]", "name must be 1 to 64 letters"},
        {"[{\"host\": \"a\", \"name\": \"auto\"}]", "means something else"},
        {"[{\"host\": \"a\", \"name\": \"0123456789ab\"}]", "means something else"},
        {"[{\"host\": \"a\", \"user\": \"x$(id)\"}]", "no name of a user"},
        {"[{\"host\": \"a\\u0000b\"}]", "one line of text"},
        {"[{\"host\": \"a\", \"proxy_jump\": \"b;c\"}]", "proxy_jump is [user@]host[:port]"},
        {"[{\"host\": \"a\", \"proxy_jump\": \"b\", \"proxy_command\": \"c\"}]", "exclude"},
        {"[{\"host\": \"a\", \"password_env\": \"NOT_THERE\"}]", "NOT_THERE, which is not set"},
    };
    struct place *p = *state;

    for (size_t i = 0; i < COUNTOF(cases); i++) {
        const struct config *c = load_list(p, cases[i].list);

        assert_int_equal(c->n_hosts, 0);
        assert_problem(c, cases[i].problem);
    }
}

static void the_right_entries_go_on(void **state)
{
    struct place *p = *state;
    const struct config *c = load_list(p, "[{\"host\": \"a\"}, {\"port\": 1}, {\"host\": \"b\"},"
                                          " {\"name\": \"a\", \"host\": \"c\"}, 7]");

    assert_int_equal(c->n_hosts, 2);
    assert_str(c->hosts[0].host, S("a"));
    assert_str(c->hosts[1].host, S("b"));
    assert_problem(c, "entry 2: host is missing");
    assert_problem(c, "(and 2 more are wrong)");
    c = load_list(p, "[{\"name\": \"a\", \"host\": \"x\"}, {\"name\": \"a\", \"host\": \"y\"}]");
    assert_int_equal(c->n_hosts, 1);
    assert_str(c->hosts[0].host, S("x"));
    assert_problem(c, "entry 2: a second host is called \"a\"");
}

static void tables_of_a_file(void **state)
{
    struct place *p = *state;
    const struct config *c;

    setenv("MY_PASS", SECRET, 1);
    setenv("REMOTE_HOST", "first", 1);
    c = load(
        p,
        "[[ssh]]\nname = \"a\"\nhost = \"10.0.0.1\"\nport = 23\nuser = \"u\"\n"
        "password_env = \"MY_PASS\"\nproxy_jump = \"me@gate:2222\"\nconnect_timeout = 5\n"
        "[[ssh]]\nname = \"gpu\"\nkey_passphrase_command = \"pass show x\"\nssh_agent = false\n"
        "[local]\npids = 100\n",
        0644);
    assert_str(c->hosts_problem, S(""));
    assert_str(c->problem, S(""));
    assert_int_equal(c->pids, 100);
    assert_int_equal(c->n_hosts, 3);
    assert_str(c->hosts[0].name, S("first")); /* the environment's comes first */
    assert_str(c->hosts[1].password, S(SECRET));
    assert_str(c->hosts[1].proxy_jump, S("me@gate:2222"));
    assert_int_equal(c->hosts[1].port, 23);
    assert_int_equal(c->hosts[1].connect_timeout_s, 5);
    assert_str(c->hosts[2].host, S("gpu"));
    assert_str(c->hosts[2].key_passphrase_command, S("pass show x"));
    assert_int_equal(c->hosts[2].no_agent, 1);
}

static void a_wrong_table_is_named_with_its_line(void **state)
{
    static const struct {
        const char *text, *problem;
    } cases[] = {
        {"[[ssh]]\nhost = \"a\"\n\nprot = 22\n",
         "a.toml:4:1: unknown key \"prot\" of an SSH host, did you mean \"port\"?"},
        {"[[ssh]]\nport = 22\n", "a.toml:1:"},
        {"[ssh]\nhost = \"a\"\n", "a.toml:1:2: SSH hosts are tables in a list: write [[ssh]]"},
        {"[[ssh]]\nhost = 5\n", "a.toml:2:1: host must be a string"},
        {"[[ssh]]\nhost = \"a\"\nport = 2.5\n", "a.toml:3:1: port must be a number"},
        {"[[ssh]]\nhost = \"a\"\nxyzzyplugh = 1\n", "`anybox config` lists"},
    };
    struct place *p = *state;

    for (size_t i = 0; i < COUNTOF(cases); i++) {
        const struct config *c = load(p, cases[i].text, 0600);

        assert_int_equal(c->n_hosts, 0);
        assert_problem(c, cases[i].problem);
    }
}

static void a_file_with_a_secret_is_private(void **state)
{
    static const char text[] = "[[ssh]]\nhost = \"a\"\npassword = \"" SECRET "\"\n"
                               "[[ssh]]\nhost = \"b\"\n";
    struct place *p = *state;
    const struct config *c = load(p, text, 0600);

    assert_int_equal(c->n_hosts, 2);
    assert_str(c->hosts[0].password, S(SECRET));
    c = load(p, text, 0640);
    assert_int_equal(c->n_hosts, 1);
    assert_str(c->hosts[0].host, S("b"));
    assert_problem(c,
                   "a.toml:3:1: password is a secret, and others may read this file (mode 0640)");
    assert_problem(c, "password_file");
}

static void no_setting_shows_a_secret(void **state)
{
    struct place *p = *state;
    const struct setting_doc *docs = NULL;
    size_t n = config_settings(&docs);
    struct arena a own_arena = {0};

    arena_init(&a, 1 << 20);
    setenv("REMOTE_HOST", "gpu", 1);
    setenv("REMOTE_PASSWORD", SECRET, 1);
    setenv("REMOTE_KEY_PASSPHRASE", SECRET, 1);
    load(p, NULL, 0);
    for (size_t i = 0; i < n; i++) {
        struct str shown = config_show(&p->config, docs[i].key, &a);

        assert_null(shown.len > 0 ? strstr(arena_cstr(&a, shown), SECRET) : NULL);
    }
    assert_true(config_host_keys(&docs) >= 20);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_variables_of_one_host),
        TEST(a_wrong_variable_is_named),
        TEST(a_list_wins_over_one_host),
        TEST(a_broken_list_says_where_and_quotes_nothing),
        TEST(the_right_entries_go_on),
        TEST(tables_of_a_file),
        TEST(a_wrong_table_is_named_with_its_line),
        TEST(a_file_with_a_secret_is_private),
        TEST(no_setting_shows_a_secret),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
