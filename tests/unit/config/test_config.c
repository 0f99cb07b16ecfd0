#include <ftw.h>
#include <unistd.h>

#include "base/path.h"
#include "config/config.h"
#include "test.h"

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

    (void)snprintf(p->dir, sizeof(p->dir), "/tmp/test-config-XXXXXX");
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

/* Writes $HOME/<name>, whose folders are made. */
static void write_file(struct place *p, const char *name, const char *text)
{
    char path[256];
    FILE *f;

    (void)snprintf(path, sizeof(path), "%s/%s", p->dir, name);
    for (char *slash = strchr(path + strlen(p->dir) + 1, '/'); slash;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(path, 0700);
        *slash = '/';
    }
    f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static struct config *load(struct place *p, struct config_flags flags)
{
    config_fini(&p->config);
    if (flags.program.len == 0) {
        flags.program = S("/usr/bin/anybox");
    }
    config_load(&p->config, &flags);
    return &p->config;
}

static struct config *load_text(struct place *p, const char *text)
{
    write_file(p, ".config/anybox/anybox.toml", text);
    return load(p, (struct config_flags){0});
}

static void nothing_configured_gives_the_defaults(void **state)
{
    struct place *p = *state;
    const struct config *c = load(p, (struct config_flags){0});
    char want[128];

    assert_str(c->problem, S(""));
    assert_str(c->toolset, S("default"));
    assert_int_equal(c->max_calls, 64);
    assert_str(c->log_level, S("warning"));
    assert_str(c->log_file, S(""));
    assert_int_equal(c->log_max_bytes, 10 << 20);
    assert_str(c->default_provider, S("local"));
    assert_int_equal(c->exec_timeout_s, 0);
    assert_int_equal(c->exec_window_s, 45);
    assert_int_equal(c->max_output_chars, 20000);
    assert_int_equal(c->memory_bytes, 0);
    assert_int_equal(c->pids, 1024);
    assert_int_equal(c->open_files, 4096);
    assert_int_equal(c->idle_s, 1800);
    assert_int_equal(c->lifetime_s, 0);
    assert_int_equal(c->host_network, 0);
    (void)snprintf(want, sizeof(want), "%s/.config/anybox/anybox.toml", p->dir);
    assert_str(c->file, str_from(want));
    assert_str(c->program, S("anybox"));
    (void)snprintf(want, sizeof(want), "%s/.local/state/anybox", p->dir);
    assert_str(c->state_dir, str_from(want));
}

static void a_file_sets_every_kind(void **state)
{
    struct place *p = *state;
    const struct config *c = load_text(
        p,
        "[server]\nmax_calls = 8\ntoolset = \"all\"\n[log]\nlevel = \"DEBUG\"\n"
        "file = \"~/log\"\nmax_size = \"1.5m\"\n[local]\nmemory = \"512MiB\"\n"
        "disk = 1048576\ncpus = 1.5\npids = 100\nallow_host_network = true\n[defaults]\nexec_timeout = 5\n");
    char want[128];

    assert_str(c->problem, S(""));
    assert_int_equal(c->max_calls, 8);
    assert_str(c->toolset, S("all"));
    assert_str(c->log_level, S("DEBUG"));
    (void)snprintf(want, sizeof(want), "%s/log", p->dir);
    assert_str(c->log_file, str_from(want));
    assert_int_equal(c->log_max_bytes, 3 << 19);
    assert_int_equal(c->memory_bytes, 512 << 20);
    assert_int_equal(c->disk_bytes, 1 << 20);
    assert_int_equal(c->cpu_millis, 1500);
    assert_int_equal(c->pids, 100);
    assert_int_equal(c->host_network, 1);
    assert_int_equal(c->exec_timeout_s, 5);
    (void)snprintf(want, sizeof(want), "%s/.config/anybox/anybox.toml", p->dir);
    assert_str(c->files, str_from(want));
}

static void the_environment_wins_over_the_file(void **state)
{
    struct place *p = *state;

    setenv("ANYBOX_LOCAL_MEMORY", " 64m ", 1);
    setenv("ANYBOX_LOCAL_CPUS", "2", 1);
    setenv("ANYBOX_LOCAL_PIDS", "", 1); /* empty counts as unset */
    setenv("MCP_LOG_LEVEL", "info", 1);
    setenv("ANYBOX_LOCAL_ALLOW_HOST_NETWORK", "true", 1);
    const struct config *c =
        load_text(p, "[local]\nmemory = \"1g\"\npids = 99\n[log]\nlevel = \"error\"\n");

    assert_str(c->problem, S(""));
    assert_int_equal(c->memory_bytes, 64 << 20);
    assert_int_equal(c->cpu_millis, 2000);
    assert_int_equal(c->pids, 99);
    assert_int_equal(c->host_network, 1);
    assert_str(c->log_level, S("info"));
    setenv("ANYBOX_LOG", "debug", 1);
    assert_str(load(p, (struct config_flags){0})->log_level, S("debug"));
    setenv("ANYBOX_LOG_LEVEL", "off", 1);
    assert_str(load(p, (struct config_flags){0})->log_level, S("off"));
}

static void the_config_folder_can_be_moved(void **state)
{
    struct place *p = *state;
    char path[128];

    write_file(p, "xdg/anybox/anybox.toml", "[local]\npids = 77\n");
    write_file(p, ".config/anybox/anybox.toml", "[local]\npids = 88\n");
    (void)snprintf(path, sizeof(path), "%s/xdg", p->dir);
    setenv("XDG_CONFIG_HOME", path, 1);
    assert_int_equal(load(p, (struct config_flags){0})->pids, 77);
}

static void only_the_named_file_is_read(void **state)
{
    struct place *p = *state;
    char path[128];

    write_file(p, ".config/anybox/anybox.toml", "[local]\npids = 88\n");
    write_file(p, "mine.toml", "[local]\nidle = 60\n");
    (void)snprintf(path, sizeof(path), "%s/mine.toml", p->dir);
    const struct config *c = load(p, (struct config_flags){.config_file = str_from(path)});

    assert_int_equal(c->pids, 1024);
    assert_int_equal(c->idle_s, 60);
    assert_str(c->files, str_from(path));
    assert_str(c->file, str_from(path));

    c = load(p, (struct config_flags){.config_file = S("/nonexistent/x.toml")});
    if (strstr(c->problem.p, "cannot read the configuration file /nonexistent/x.toml") == NULL) {
        fail_msg("%s", c->problem.p);
    }
}

static void mistakes_name_file_line_and_remedy(void **state)
{
    static const struct {
        const char *text, *problem;
    } cases[] = {
        {"[local]\n\nmemroy = 1\n", "3:1: unknown key \"memroy\" in [local], did you mean "
                                    "\"memory\"?"},
        {"[lcoal]\nmemory = 1\n", "1:2: unknown section [lcoal], did you mean [local]?"},
        {"[kubernetes]\n",
         "1:2: unknown section [kubernetes]; there are [server], [auth], [http], "
         "[audit], [log], [defaults], [sync], [local], [docker], [opensandbox], [mirror] and [[ssh]]"},
        {"[log]\nbananas = 1\n", "2:1: unknown key \"bananas\" in [log]"},
        {"pids = 20\n", "1:1: unknown key \"pids\"; it belongs in [local]"},
        {"[server]\npids = 20\n", "2:1: unknown key \"pids\" in [server]; it belongs in [local]"},
        {"local = 1\n", "1:1: local is a section: write [local] on a line of its own"},
        {"[local]\npids = \"many\"\n",
         "2:8: local.pids must be an integer from 16 to 4194304, not \"many\""},
        {"[local]\npids = 3\n", "2:8: local.pids must be an integer from 16 to 4194304, not 3"},
        {"[local]\nmemory = \"1k\"\n", "2:10: local.memory must be a size such as \"512m\" or "
                                       "1048576 from 16m to 1024t, or 0, not 1k"},
        {"[local]\nmemory = 1.5\n", "2:10: local.memory must be a size such as \"512m\" or 1048576 "
                                    "from 16m to 1024t, or 0, not 1.5"},
        {"[local]\ncpus = -1\n",
         "2:8: local.cpus must be a number from 0.01 to 1024, or 0, not -1"},
        {"[local]\nidle = 5\n",
         "2:8: local.idle must be a number of seconds from 10 to 2147483647, or 0, not 5"},
        {"[log]\nlevel = \"loud\"\n", "2:9: log.level must be one of debug, info, warning, error, "
                                      "critical and off, not loud"},
        {"[log]\nlevel = 3\n",
         "2:9: log.level must be one of debug, info, warning, error, critical "
         "and off, not 3"},
        {"[log]\nfile = \"log.txt\"\n",
         "2:8: log.file must be an absolute path, or one that begins "
         "with ~/, not log.txt"},
        {"[docker]\ndefault_image = \"\"\n",
         "2:17: docker.default_image must be a string of 1 to 255 bytes, not an empty one"},
        {"[local]\npids = [1]\n",
         "2:8: local.pids must be an integer from 16 to 4194304, not an array"},
        {"[local]\nallow_host_network = 1\n",
         "2:22: local.allow_host_network must be true or false, not 1"},
        {"[local\n", "1:7: ']' is missing at the end of this header"},
    };
    struct place *p = *state;

    for (size_t i = 0; i < COUNTOF(cases); i++) {
        const struct config *c = load_text(p, cases[i].text);
        char want[512];

        (void)snprintf(want, sizeof(want), "%s/.config/anybox/anybox.toml:%s", p->dir,
                       cases[i].problem);
        assert_str(c->problem, str_from(want));
    }
}

static void one_mistake_does_not_undo_the_rest(void **state)
{
    struct place *p = *state;
    const struct config *c = load_text(p, "[local]\nmax_boxes = 3\nx = 1\ny = 2\npids = 64\n");

    assert_int_equal(c->max_boxes, 3);
    assert_int_equal(c->pids, 64);
    assert_non_null(strstr(c->problem.p, ":3:1: unknown key \"x\""));
}

static void a_wrong_variable_is_named(void **state)
{
    struct place *p = *state;

    setenv("ANYBOX_SERVER_MAX_CALLS", "0", 1);
    assert_str(
        load(p, (struct config_flags){0})->problem,
        S("environment variable ANYBOX_SERVER_MAX_CALLS: server.max_calls must be an integer "
          "from 1 to 1024, not 0"));
    assert_int_equal(p->config.max_calls, 64);
}

static void the_toolset_has_its_order(void **state)
{
    static const struct {
        const char *flag, *program, *configured, *variable, *other, *advanced, *want;
    } cases[] = {
        {"", "anybox", "", NULL, NULL, NULL, "default"},
        {"all", "remote-sandbox-mcp", "opensandbox", NULL, NULL, NULL, "all"},
        {"", "/x/remote-sandbox-mcp", "opensandbox", NULL, NULL, NULL, "remote-sandbox"},
        {"", "mcp-sandbox", "", NULL, NULL, NULL, "mcp-sandbox"},
        {"", "mcp-python-sandbox", "", NULL, NULL, NULL, "mcp-sandbox"},
        {"", "opensandbox-mcp-server", "", NULL, NULL, NULL, "opensandbox"},
        {"", "anybox", "mcp-sandbox", "REMOTE_HOST", NULL, NULL, "mcp-sandbox"},
        {"", "anybox", "", "REMOTE_HOST", NULL, NULL, "remote-sandbox"},
        {"", "anybox", "", "REMOTE_SANDBOX_LIST", NULL, NULL, "remote-sandbox"},
        {"", "anybox", "", "OPENSANDBOX_SERVER", NULL, NULL, "opensandbox"},
        {"", "anybox", "", "OPEN_SANDBOX_DOMAIN", NULL, NULL, "opensandbox"},
        {"", "anybox", "", "OPEN_SANDBOX_DOMAIN", "REMOTE_HOST", NULL, "default"},
        {"", "anybox", "", NULL, NULL, " Yes ", "default,advanced"},
        {"", "anybox", "", NULL, NULL, "0", "default"},
        {"", "anybox", "", NULL, NULL, "perhaps", "default"},
        {"", "remote-sandbox-mcp", "", NULL, NULL, "on", "remote-sandbox,advanced"},
        {"all", "anybox", "", NULL, NULL, "1", "all"},
        {"default, advanced", "anybox", "", NULL, NULL, "1", "default, advanced"},
    };
    struct place *p = *state;

    for (size_t i = 0; i < COUNTOF(cases); i++) {
        clearenv();
        setenv("HOME", p->dir, 1);
        setenv("ANYBOX_SERVER_TOOLSET", cases[i].configured, 1);
        if (cases[i].variable != NULL) {
            setenv(cases[i].variable, "x", 1);
        }
        if (cases[i].other != NULL) {
            setenv(cases[i].other, "x", 1);
        }
        if (cases[i].advanced != NULL) {
            setenv("REMOTE_SANDBOX_EXPOSE_ADVANCED_TOOLS", cases[i].advanced, 1);
        }
        const struct config *c = load(p, (struct config_flags){
                                             .toolset = str_from(cases[i].flag),
                                             .program = str_from(cases[i].program),
                                         });
        assert_str(c->toolset, str_from(cases[i].want));
    }
    clearenv();
    setenv("REMOTE_HOST", "  ", 1);
    assert_str(load(p, (struct config_flags){0})->toolset, S("default"));
    assert_str(load(p, (struct config_flags){0})->elsewhere, S(""));
    setenv("OPENSANDBOX_SERVER", "http://x", 1);
    assert_str(load(p, (struct config_flags){0})->elsewhere, S("OPENSANDBOX_SERVER"));
    assert_str(load(p, (struct config_flags){0})->problem, S(""));
    setenv("OPENSANDBOX_SERVER", "ftp://x", 1);
    assert_non_null(strstr(load(p, (struct config_flags){0})->problem.p, "http://localhost:8080"));
    setenv("OPENSANDBOX_SERVER", "not an address", 1);
    assert_non_null(strstr(load(p, (struct config_flags){0})->problem.p, "not an address"));
}

static void the_file_of_an_opensandbox_server_is_its_configuration(void **state)
{
    struct place *p = *state;
    char path[256];
    struct config_flags flags;

    write_file(p, "config.json",
               "{\"server\": {\"name\": \"x\"}, \"opensandbox\": {\"default_timeout\": 700}}");
    (void)snprintf(path, sizeof(path), "%s/config.json", p->dir);
    flags = (struct config_flags){.config_file = str_from(path)};
    assert_str(load(p, flags)->toolset, S("opensandbox"));
    assert_str(p->config.open_server, S("http://localhost:8080"));
    assert_str(p->config.default_provider, S("opensandbox"));
    assert_int_equal(p->config.open_timeout_s, 700);
    setenv("REMOTE_HOST", "x", 1);
    assert_str(load(p, flags)->toolset, S("default"));
    unsetenv("REMOTE_HOST");
    write_file(p, "config.json", "{\"logging\": {\"level\": \"INFO\"}}");
    assert_str(load(p, flags)->toolset, S("default"));
}

static void the_state_folder_has_its_order(void **state)
{
    struct place *p = *state;
    struct arena a own_arena = {0};
    char cwd[256];

    arena_init(&a, 1 << 16);
    setenv("XDG_STATE_HOME", "/var/s", 1);
    assert_str(load(p, (struct config_flags){0})->state_dir, S("/var/s/anybox"));
    setenv("REMOTE_SANDBOX_MCP_HOME", "/var/r/", 1);
    assert_str(load(p, (struct config_flags){0})->state_dir, S("/var/r"));
    setenv("ANYBOX_HOME", "/var/a/../b", 1);
    assert_str(load(p, (struct config_flags){0})->state_dir, S("/var/b"));
    setenv("ANYBOX_HOME", "rel/x", 1);
    assert_non_null(getcwd(cwd, sizeof(cwd)));
    assert_str(load(p, (struct config_flags){0})->state_dir,
               path_join(&a, str_from(cwd), S("rel/x")));
    setenv("ANYBOX_HOME", "~/st", 1);
    assert_str(load(p, (struct config_flags){0})->state_dir,
               path_join(&a, str_from(p->dir), S("st")));
}

static void without_home_the_passwd_entry_counts(void **state)
{
    struct place *p = *state;

    unsetenv("HOME");
    const struct config *c = load(p, (struct config_flags){0});

    assert_true(path_is_absolute(c->state_dir));
    assert_str(c->problem, S(""));
    assert_false(str_starts(c->state_dir, str_from(p->dir)));
}

static void the_folder_is_the_projects(void **state)
{
    struct place *p = *state;
    char cwd[256];

    assert_non_null(getcwd(cwd, sizeof(cwd)));
    assert_str(load(p, (struct config_flags){0})->folder, str_from(cwd));
    setenv("CLAUDE_PROJECT_DIR", "/home/me/project/", 1);
    assert_str(load(p, (struct config_flags){0})->folder, S("/home/me/project"));
}

static void settings_are_shown_as_they_are_written(void **state)
{
    struct place *p = *state;
    struct arena a own_arena = {0};
    const struct setting_doc *docs;
    size_t n = config_settings(&docs);
    const struct config *c =
        load_text(p, "[local]\nmemory = \"1536m\"\ncpus = 0.25\n[log]\nmax_size = 5000\n"
                     "[mirror]\npypi_index_url = \"https://me:secret@index.example/simple/\"\n");

    arena_init(&a, 1 << 17);
    assert_str(config_show(c, "local.memory", &a), S("1536m"));
    assert_str(config_show(c, "local.cpus", &a), S("0.25"));
    assert_str(config_show(c, "log.max_size", &a), S("5000"));
    assert_str(config_show(c, "log.level", &a), S("warning"));
    assert_str(config_show(c, "local.allow_host_network", &a), S("false"));
    assert_str(config_show(c, "mirror.pypi_index_url", &a),
               S("https://(not shown)@index.example/simple/"));
    assert_str(c->pypi_index_url, S("https://me:secret@index.example/simple/"));
    assert_str(config_show(c, "no.such", &a), S(""));
    assert_true(n >= 17);
    for (size_t i = 0; i < n; i++) {
        assert_true(strlen(docs[i].help) > 10);
        assert_non_null(strstr(docs[i].env, "ANYBOX_"));
        assert_non_null(strchr(docs[i].key, '.'));
    }
}

static void lists_are_arrays_or_have_commas(void **state)
{
    struct place *p = *state;
    const struct config *c = load_text(p, "[http]\nkeys = [\"a:1\", \"b:2\"]\n");

    assert_str(c->problem, S(""));
    assert_str(c->http_keys, S("a:1,b:2"));
    c = load_text(p, "[http]\nkeys = \"a:1, b:2\"\n");
    assert_str(c->http_keys, S("a:1, b:2"));
    c = load_text(p, "[http]\nkeys = []\n");
    assert_str(c->problem, S(""));
    assert_str(c->http_keys, S(""));
    setenv("ANYBOX_HTTP_KEY", "c:3", 1);
    c = load_text(p, "[http]\nkeys = [\"a:1\"]\n");
    assert_str(c->http_keys, S("c:3"));
}

static void keys_of_other_programs_mean_ours(void **state)
{
    struct place *p = *state;
    char want[128];
    const struct config *c =
        load_text(p, "[logging]\nlevel = \"INFO\"\nlog_file = \"./logs/x.log\"\n"
                     "max_file_size = 20000\nbackup_count = 5\nformat = \"%(message)s\"\n"
                     "use_structured_format = true\nconsole_output = true\n"
                     "[server]\napiKey = \"0123456789abcdef\"\nname = \"x\"\n"
                     "version = \"1\"\ndescription = \"y\"\n");

    assert_str(c->problem, S(""));
    assert_str(c->log_level, S("INFO"));
    (void)snprintf(want, sizeof(want), "%s/.config/anybox/logs/x.log", p->dir);
    assert_str(c->log_file, str_from(want));
    assert_int_equal(c->log_max_bytes, 20000);
    assert_int_equal(c->log_backups, 5);
    assert_str(c->http_keys, S("0123456789abcdef"));
    c = load_text(p, "[logging]\nfile = \"/var/log/x\"\nmax_size_mb = 3\n");
    assert_str(c->problem, S(""));
    assert_str(c->log_file, S("/var/log/x"));
    assert_int_equal(c->log_max_bytes, 3 << 20);
    c = load_text(p, "[logging]\nmax_size_mb = 9223372036854775807\n");
    assert_non_null(strstr(c->problem.p, "2:15: logging.max_size_mb: log.max_size must be"));
    c = load_text(p, "[logging]\nlevle = \"INFO\"\n");
    assert_non_null(strstr(c->problem.p, "unknown key \"levle\" in [logging]"));
}

static void secrets_are_never_shown(void **state)
{
    static const char *const wrong[] = {"keys = [\"hunter2,x\"]", "keys = 5"};
    struct place *p = *state;
    struct arena a own_arena = {0};
    const struct config *c = load_text(p, "[http]\nkeys = \"hunter2\"\n");

    arena_init(&a, 4096);
    assert_str(config_show(c, "http.keys", &a), S("(set, not shown)"));
    for (size_t i = 0; i < COUNTOF(wrong); i++) {
        char text[64];

        (void)snprintf(text, sizeof(text), "[http]\n%s\n", wrong[i]);
        c = load_text(p, text);
        assert_non_null(strstr(c->problem.p, "http.keys must be a list"));
        assert_null(strstr(c->problem.p, "hunter2"));
    }
    c = load_text(p, "");
    assert_str(config_show(c, "http.keys", &a), S(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_configured_gives_the_defaults, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_file_sets_every_kind, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_environment_wins_over_the_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_config_folder_can_be_moved, set_up, tear_down),
        cmocka_unit_test_setup_teardown(only_the_named_file_is_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(mistakes_name_file_line_and_remedy, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_mistake_does_not_undo_the_rest, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_wrong_variable_is_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_toolset_has_its_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_file_of_an_opensandbox_server_is_its_configuration,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_state_folder_has_its_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(without_home_the_passwd_entry_counts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_folder_is_the_projects, set_up, tear_down),
        cmocka_unit_test_setup_teardown(lists_are_arrays_or_have_commas, set_up, tear_down),
        cmocka_unit_test_setup_teardown(keys_of_other_programs_mean_ours, set_up, tear_down),
        cmocka_unit_test_setup_teardown(secrets_are_never_shown, set_up, tear_down),
        cmocka_unit_test_setup_teardown(settings_are_shown_as_they_are_written, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
