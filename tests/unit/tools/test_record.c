/* A call in the log and in the audit log, and what a read-only server refuses. */
#include "core/audit.h"
#include "core/token.h"
#include "fake.h"

static void use_audit(struct fake *f)
{
    char path[80];

    (void)snprintf(path, sizeof(path), "%s/audit.log", f->dir);
    f->services.audit = audit_new(str_from(path));
    f->services.tokens = tokens_new(str_from(f->dir));
}

static int setup(void **state)
{
    if (fake_setup(state) != 0) {
        return -1;
    }
    use_audit(*state);
    return 0;
}

static int teardown(void **state)
{
    struct fake *f = *state;

    log_set_level(LOG_WARN);
    audit_free(f->services.audit);
    tokens_free(f->services.tokens);
    return fake_teardown(state);
}

static int exits(struct fake *f, const struct exec_req *req, const struct sink *sink,
                 struct exec_result *out, struct err *e)
{
    (void)f;
    (void)req;
    (void)sink;
    (void)e;
    *out = (struct exec_result){0};
    return 0;
}

static struct str read_all(struct fake *f, const char *name, struct arena *a)
{
    char path[80];
    struct str text = STR_EMPTY;
    struct err e;

    (void)snprintf(path, sizeof(path), "%s/%s", f->dir, name);
    assert_ok(fd_read_file(AT_FDCWD, path, 1u << 20, a, &text, &e), &e);
    return text;
}

/* Line n of the audit log, from 1 on, as an object. */
static json_t *audit_line(struct fake *f, int n)
{
    struct arena a own_arena = {0};
    struct str text, line = STR_EMPTY;
    struct err e;

    arena_init(&a, 4u << 20);
    text = read_all(f, "audit.log", &a);
    for (int i = 0; i < n; i++) {
        line = str_cut(text, '\n', &text);
    }
    return js_parse(line.p, line.len, &e);
}

static void every_call_is_a_line(void **state)
{
    struct fake *f = *state;
    own_json json_t *made = fake_ok(f, "create_sandbox", "{\"name\":\"x\"}");
    own_json json_t *line = audit_line(f, 1);

    assert_json(line, "who", json_string("user"));
    assert_json(line, "transport", json_string("test"));
    assert_json(line, "request", json_string("\"r1\""));
    assert_json(line, "tool", json_string("create_sandbox"));
    assert_json(line, "outcome", json_string("ok"));
    assert_str(js_str(js_get(line, "box")), js_str(js_get(made, "sandbox_id")));
    assert_int_equal(js_str(js_get(line, "arguments")).len, 64);

    f->scope.owner = S("key:ci");
    json_decref(
        fake_fails(f, "read_remote_file", "{\"remote_path\":\"/x\"}", "not_found", "no sandbox"));
    own_json json_t *second = audit_line(f, 2);
    assert_json(second, "who", json_string("key:ci"));
    assert_json(second, "outcome", json_string("not_found"));
    assert_null(js_get(second, "box"));
    json_decref(fake_fails(f, "exec_bash", "{}", "invalid", "command"));
    own_json json_t *third = audit_line(f, 3);
    assert_json(third, "outcome", json_string("invalid"));
}

static void all_tools_about_a_box_name_it(void **state)
{
    static const struct {
        const char *tool, *arguments;
    } calls[] = {
        {"exec_bash", "{\"command\":\"true\"}"},
        {"write_remote_file", "{\"remote_path\":\"/f\",\"content\":\"x\"}"},
        {"read_remote_file", "{\"remote_path\":\"/f\"}"},
        {"list_remote_files", "{\"remote_path\":\"/\"}"},
        {"get_active_sandbox", "{}"},
        {"select_sandbox", "{\"sandbox_name\":\"x\"}"},
        {"delete_sandbox", "{\"sandbox_name\":\"x\"}"},
    };
    struct fake *f = *state;
    own_json json_t *made = fake_ok(f, "create_sandbox", "{\"name\":\"x\"}");

    f->exec = exits;
    for (size_t i = 0; i < COUNTOF(calls); i++) {
        bool is_error;

        json_decref(fake_call(f, calls[i].tool, calls[i].arguments, &is_error));
        own_json json_t *line = audit_line(f, (int)i + 2);
        assert_json(line, "tool", json_string(calls[i].tool));
        if (!str_eq(js_str(js_get(line, "box")), js_str(js_get(made, "sandbox_id")))) {
            fail_msg("%s does not name its box", calls[i].tool);
        }
    }
}

static void secrets_are_in_neither_log(void **state)
{
    struct fake *f = *state;
    struct arena a own_arena = {0};
    char path[80];
    struct err e;

    f->exec = exits;
    (void)snprintf(path, sizeof(path), "%s/anybox.log", f->dir);
    assert_ok(log_set_file(path, 1 << 20, 1, &e), &e);
    log_set_level(LOG_DEBUG);
    json_decref(fake_ok(f, "create_sandbox", "{\"name\":\"x\",\"env\":{\"TOKEN\":\"hunter2\"}}"));
    json_decref(fake_ok(f, "exec_bash", "{\"command\":\"echo hunter2\"}"));
    json_decref(
        fake_ok(f, "write_remote_file", "{\"remote_path\":\"/f\",\"content\":\"hunter2\"}"));
    log_set_level(LOG_WARN);
    arena_init(&a, 4u << 20);
    assert_null(strstr(read_all(f, "audit.log", &a).p, "hunter2"));
    struct str log = read_all(f, "anybox.log", &a);
    assert_null(strstr(log.p, "hunter2"));
    assert_non_null(strstr(log.p, "area=call call="));
    assert_non_null(
        strstr(log.p, "transport=test owner=\"\" request=\"\\\"r1\\\"\" tool=exec_bash box="));
    assert_non_null(strstr(log.p, "outcome=ok\n"));
}

static void the_same_arguments_have_the_same_digest(void **state)
{
    struct fake *f = *state;
    bool is_error;

    f->exec = exits;
    json_decref(fake_call(f, "exec_bash", "{\"command\":\"a\",\"cwd\":\"/\"}", &is_error));
    json_decref(fake_call(f, "exec_bash", "{\"cwd\":\"/\",\"command\":\"a\"}", &is_error));
    json_decref(fake_call(f, "exec_bash", "{\"cwd\":\"/\",\"command\":\"b\"}", &is_error));
    own_json json_t *one = audit_line(f, 1);
    own_json json_t *two = audit_line(f, 2);
    own_json json_t *three = audit_line(f, 3);
    assert_str(js_str(js_get(one, "arguments")), js_str(js_get(two, "arguments")));
    assert_false(str_eq(js_str(js_get(one, "arguments")), js_str(js_get(three, "arguments"))));
    assert_false(str_eq(js_str(js_get(one, "call")), js_str(js_get(two, "call"))));
}

static void commands_are_told_only_when_wanted(void **state)
{
    struct fake *f = *state;

    f->exec = exits;
    f->config.audit_commands = 1;
    json_decref(fake_ok(f, "exec_bash", "{\"command\":\"make test\"}"));
    own_json json_t *line = audit_line(f, 1);
    assert_json(line, "command", json_string("make test"));
    json_decref(
        fake_ok(f, "write_remote_file", "{\"remote_path\":\"/f\",\"content\":\"hunter2\"}"));
    own_json json_t *second = audit_line(f, 2);
    assert_null(js_get(second, "command"));
}

static void nothing_runs_that_cannot_be_recorded(void **state)
{
    struct fake *f = *state;

    f->exec = exits;
    audit_free(f->services.audit);
    f->services.audit = audit_new(S("/no/such/folder/audit.log"));
    json_decref(
        fake_fails(f, "exec_bash", "{\"command\":\"x\"}", "not_found", "cannot be recorded"));
    assert_int_equal(f->execs, 0);
}

static void a_read_only_server_changes_nothing(void **state)
{
    static const struct {
        const char *tool, *arguments;
    } refused[] = {
        {"create_sandbox", "{}"},
        {"exec_bash", "{\"command\":\"x\"}"},
        {"run_command", "{\"command\":\"x\"}"},
        {"execute_terminal_command", "{\"command\":\"x\"}"},
        {"write_remote_file", "{\"remote_path\":\"/f\",\"content\":\"x\"}"},
        {"delete_sandbox", "{\"sandbox_name\":\"x\"}"},
        {"select_sandbox", "{\"sandbox_name\":\"x\"}"},
        {"exec_bash", "{}"}, /* before its arguments are looked at */
    };
    struct fake *f = *state;

    json_decref(fake_ok(f, "create_sandbox", "{\"name\":\"x\"}"));
    f->config.read_only = 1;
    for (size_t i = 0; i < COUNTOF(refused); i++) {
        json_decref(fake_fails(f, refused[i].tool, refused[i].arguments, "denied", "read-only"));
    }
    assert_int_equal(f->execs, 0);
    assert_int_equal(f->n_boxes, 1);
    json_decref(fake_ok(f, "list_sandboxes", NULL));
    json_decref(fake_ok(f, "get_active_sandbox", NULL));
    own_json json_t *line = audit_line(f, 2);
    assert_json(line, "outcome", json_string("denied"));
}

static void only_what_is_marked_so_is_read_only(void **state)
{
    struct config config = {.read_only = 1};
    size_t n = 0;

    (void)state;
    for (size_t i = 0; tools[i] != NULL; i++) {
        assert_int_equal(tool_allowed(tools[i], &config), (tools[i]->hints & HINT_READ_ONLY) != 0);
        n += tool_allowed(tools[i], &config) ? 1 : 0;
    }
    assert_true(n >= 4);
    config.read_only = 0;
    for (size_t i = 0; tools[i] != NULL; i++) {
        assert_true(tool_allowed(tools[i], &config));
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_call_is_a_line),
        TEST(all_tools_about_a_box_name_it),
        TEST(secrets_are_in_neither_log),
        TEST(the_same_arguments_have_the_same_digest),
        TEST(commands_are_told_only_when_wanted),
        TEST(nothing_runs_that_cannot_be_recorded),
        TEST(a_read_only_server_changes_nothing),
        TEST(only_what_is_marked_so_is_read_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
