/* test_sandboxes.c - the tools that make, show, choose and end boxes. */
#include <time.h>

#include "fake.h"

static const json_t *item(const json_t *o, const char *name)
{
    const json_t *found = NULL;
    json_t *v;
    size_t i;

    json_array_foreach (js_get(o, "sandboxes"), i, v) {
        if (str_eq(js_str(js_get(v, "name")), str_from(name))) {
            found = v;
        }
    }
    assert_non_null(found);
    return found;
}

static void create_answers_the_union_of_the_seeds(void **state)
{
    struct fake *f = *state;
    own_json json_t *o = fake_ok(
        f, "create_sandbox",
        "{\"name\":\"a\",\"memory\":\"512m\",\"cpus\":\"1.5\",\"pids\":64,\"disk\":\"1g\","
        "\"open_files\":100,\"idle_timeout_s\":700,\"timeout\":600,\"env\":{\"A\":\"b\"},\"unknown\":1,\"network\":\"\"}");
    const json_t *limits = js_get(o, "limits");

    assert_int_equal(json_string_length(js_get(o, "sandbox_id")), 32);
    assert_json(o, "id", js_string(js_str(js_get(o, "sandbox_id"))));
    assert_json(o, "sandbox_short_id", js_string(str_head(js_str(js_get(o, "id")), 12)));
    assert_json(o, "name", json_string("a"));
    assert_json(o, "sandbox_name", json_string("a"));
    assert_json(o, "provider", json_string("local"));
    assert_json(o, "status", json_string("running"));
    assert_json(o, "network", json_string("none"));
    assert_json(o, "isolation", json_string("memory of a test"));
    assert_json(o, "idle_timeout_s", json_integer(700));
    assert_json(o, "work_dir", json_string("/workspace"));
    assert_json(o, "home", json_string("/home/user"));
    assert_json(o, "selected", json_true());
    assert_int_equal(json_string_length(js_get(o, "created_at")), 20);
    assert_int_equal(json_string_length(js_get(o, "expires_at")), 20);
    assert_json(limits, "memory_mb", json_integer(512));
    assert_json(limits, "disk_mb", json_integer(1024));
    assert_json(limits, "cpus", json_real(1.5));
    assert_json(limits, "pids", json_integer(64));
    assert_json(limits, "open_files", json_integer(100));
    assert_json(limits, "idle_s", json_integer(700));
    assert_null(js_get(o, "reused"));
}

static void create_refuses_with_a_sentence_and_makes_nothing(void **state)
{
    static const char *const cases[][3] = {
        {"{\"name\":\"a/b\"}", "invalid", "name: "},
        {"{\"name\":\"..\"}", "invalid", "name: "},
        {"{\"name\":\"a\\nb\"}", "invalid", "name: "},
        {"{\"memory\":\"4m\"}", "invalid", "memory must be from 16m"},
        {"{\"memory\":512}", "invalid", "a bare number is bytes"},
        {"{\"cpus\":0}", "invalid", "cpus must be a number above 0"},
        {"{\"cpus\":0.001}", "invalid", "cpus must be at least 0.01"},
        {"{\"pids\":1}", "invalid", "pids must be an integer from 8"},
        {"{\"open_files\":0}", "invalid", "open_files must be an integer from 16"},
        {"{\"idle_timeout_s\":0}", "invalid", "idle_timeout_s must be an integer from 1"},
        {"{\"disk\":0}", "invalid", "disk must be from 1m"},
        {"{\"timeout\":-60}", "invalid", "timeout must be an integer from 1"},
        {"{\"network\":\"wifi\"}", "invalid", "network must be one of"},
        {"{\"gpu\":true}", "unsupported", "gpu cannot be given"},
        {"{\"provider\":\"cloud\"}", "invalid", "provider"},
        {"{\"reuse\":\"perhaps\"}", "invalid", "reuse must be true or false"},
    };
    struct fake *f = *state;

    for (size_t i = 0; i < COUNTOF(cases); i++) {
        json_decref(fake_fails(f, "create_sandbox", cases[i][0], cases[i][1], cases[i][2]));
    }
    assert_int_equal(f->n_boxes, 0);
}

static void create_reuses_a_live_box_only_when_asked(void **state)
{
    struct fake *f = *state;
    own_json json_t *first = fake_ok(f, "create_sandbox", "{\"name\":\"a\"}");
    own_json json_t *again = NULL;

    json_decref(fake_fails(f, "create_sandbox", "{\"name\":\"a\"}", "exists", "a"));
    again = fake_ok(f, "create_sandbox", "{\"name\":\"a\",\"reuse\":\"yes\"}");
    assert_json(again, "sandbox_id", js_string(js_str(js_get(first, "sandbox_id"))));
    assert_json(again, "reused", json_true());
    assert_int_equal(f->n_boxes, 1);
}

static void list_shows_each_box_and_the_active_one(void **state)
{
    struct fake *f = *state;
    own_json json_t *none = fake_ok(f, "list_sandboxes", NULL);
    own_json json_t *o = NULL;
    const json_t *a;

    assert_json(none, "active_sandbox", json_null());
    assert_json(none, "sandboxes", json_array());
    json_decref(fake_ok(f, "create_sandbox", "{\"name\":\"a\"}"));
    json_decref(fake_ok(f, "create_sandbox", "{\"name\":\"b\"}"));
    o = fake_ok(f, "list_sandboxes", "{}");
    assert_json(o, "active_sandbox", json_string("a"));
    assert_int_equal(json_array_size(js_get(o, "sandboxes")), 2);
    a = item(o, "a");
    assert_json(a, "sandbox_id", js_string(js_str(js_get(a, "id"))));
    assert_json(a, "provider", json_string("local"));
    assert_json(a, "status", json_string("running"));
    assert_json(a, "is_active", json_true());
    assert_json(a, "connection_alive", json_true());
    assert_json(a, "host", json_string("here"));
    assert_json(a, "port", json_null());
    assert_json(a, "user", json_string("user"));
    assert_json(a, "isolation", json_string("memory of a test"));
    assert_null(js_get(a, "connection_error"));
    assert_null(js_get(a, "resources"));
    assert_json(item(o, "b"), "is_active", json_false());
}

static void list_tells_how_busy_a_box_is(void **state)
{
    struct fake *f = *state;
    own_json json_t *o = NULL;
    own_json json_t *broken = NULL;
    const json_t *r;

    f->usage = (struct usage){
        .load_1m = 1,
        .load_5m = 0.5,
        .load_15m = 0.25,
        .cpus = 2,
        .memory_used = 256 << 20,
        .memory_total = 1 << 30,
        .disk_used = -1,
        .disk_total = -1,
        .processes = 7,
        .n_gpus = 1,
        .gpus = {{.index = 0, .busy_pct = 50, .memory_used_mb = 100, .memory_total_mb = 400}}};
    json_decref(fake_ok(f, "create_sandbox", "{\"name\":\"a\"}"));
    o = fake_ok(f, "list_sandboxes", "{\"check_resources\":\"true\"}");
    r = js_get(item(o, "a"), "resources");
    assert_json(js_get(r, "cpu"), "load_1m", json_real(1));
    assert_json(js_get(r, "cpu"), "count", json_integer(2));
    assert_json(js_get(r, "memory"), "total_mb", json_integer(1024));
    assert_json(js_get(r, "memory"), "used_mb", json_integer(256));
    assert_json(js_get(r, "memory"), "free_mb", json_integer(768));
    assert_json(js_get(r, "memory"), "used_pct", json_real(25));
    assert_json(js_get(r, "disk"), "used_pct", json_null());
    assert_json(r, "processes", json_integer(7));
    assert_json(json_array_get(js_get(r, "gpu"), 0), "mem_used_pct", json_real(25));
    assert_json(r, "idle_score", json_real(0.6));
    f->no_usage = true;
    broken = fake_ok(f, "list_sandboxes", "{\"check_resources\":true}");
    assert_non_null(strstr(
        json_string_value(js_path(item(broken, "a"), "resources", "error", NULL)), "broken"));
}

static void list_leaves_out_a_box_that_ended(void **state)
{
    struct fake *f = *state;
    own_json json_t *o = NULL;
    own_json json_t *after = NULL;

    json_decref(fake_ok(f, "create_sandbox", "{\"name\":\"a\"}"));
    json_decref(fake_ok(f, "create_sandbox", "{\"name\":\"b\"}"));
    f->boxes[0]->gone = true;
    o = fake_ok(f, "list_sandboxes", NULL);
    assert_int_equal(json_array_size(js_get(o, "sandboxes")), 1);
    assert_json(o, "active_sandbox", json_null()); /* the selected one has ended */
    assert_json(item(o, "b"), "is_active", json_false());
    json_decref(fake_fails(f, "exec_bash", "{\"command\":\"x\"}", "gone", "\"a\" has ended"));
    after = fake_ok(f, "list_sandboxes", NULL);
    assert_json(after, "active_sandbox", json_string("b")); /* the only one is the active one */
    assert_json(item(after, "b"), "is_active", json_true());
}

static void the_mcp_sandbox_shapes_are_its_own(void **state)
{
    struct fake *f = *state;
    own_json json_t *made = NULL;
    own_json json_t *o = NULL;
    const json_t *a;

    f->toolsets = TOOLSET_MCP;
    f->usage = (struct usage){.load_1m = 1, .cpus = 4};
    made = fake_ok(f, "create_sandbox", "{\"name\":\"m\"}");
    assert_json(made, "status", json_string("active"));
    o = fake_ok(f, "list_sandboxes", NULL);
    assert_int_equal(json_array_size(o), 1);
    a = json_array_get(o, 0);
    assert_json(a, "sandbox_id", js_string(js_str(js_get(made, "sandbox_id"))));
    assert_int_equal(json_string_length(js_get(a, "sandbox_short_id")), 12);
    assert_json(a, "name", json_string("m"));
    assert_json(a, "status", json_string("running"));
    assert_json(a, "cpu", json_real(25));
    assert_non_null(js_get(a, "created"));
    assert_non_null(js_get(a, "last_used"));
    f->toolsets = TOOLSET_MCP | TOOLSET_DEFAULT;
    json_decref(o);
    o = fake_ok(f, "list_sandboxes", NULL);
    assert_true(json_is_object(o));
}

static void a_wrong_configuration_is_told_by_every_tool(void **state)
{
    struct fake *f = *state;
    own_json json_t *o = NULL;

    f->config.problem = S("anybox.toml:3: there is no key \"memroy\"");
    o = fake_ok(f, "list_sandboxes", NULL);
    assert_non_null(strstr(json_string_value(js_get(o, "error")), "memroy"));
    assert_true(json_string_length(js_get(o, "hint")) > 0);
    assert_json(o, "sandboxes", json_array());
    json_decref(fake_fails(f, "exec_bash", "{\"command\":\"x\"}", "invalid", "memroy"));
    json_decref(fake_fails(f, "create_sandbox", "{}", "invalid", "restart the server"));
    assert_int_equal(f->n_boxes, 0);
}

static void select_changes_the_active_box_or_lists_what_there_is(void **state)
{
    struct fake *f = *state;
    own_json json_t *chosen = NULL;
    own_json json_t *active = NULL;
    own_json json_t *wrong = NULL;
    own_json json_t *missing = NULL;

    json_decref(fake_ok(f, "create_sandbox", "{\"name\":\"a\"}"));
    (void)nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL); /* listed in that order */
    json_decref(fake_ok(f, "create_sandbox", "{\"name\":\"b\"}"));
    chosen = fake_ok(f, "select_sandbox", "{\"sandbox_name\":\" b \"}");
    assert_json(chosen, "active_sandbox", json_string("b"));
    assert_json(chosen, "status", json_string("selected"));
    active = fake_ok(f, "get_active_sandbox", NULL);
    assert_json(active, "active_sandbox", json_string("b"));
    assert_json(active, "sandbox_id", js_string(js_str(js_get(chosen, "sandbox_id"))));
    assert_json(active, "connection_alive", json_true());
    assert_json(active, "work_dir", json_string("/workspace"));
    wrong = fake_fails(f, "select_sandbox", "{\"sandbox_name\":\"c\"}", "not_found", "c");
    assert_json(wrong, "available", json_pack("[s, s]", "a", "b"));
    missing = fake_fails(f, "select_sandbox", "{}", "invalid", "is required");
    assert_json(missing, "available", json_pack("[s, s]", "a", "b"));
}

static void no_active_box_is_no_error(void **state)
{
    struct fake *f = *state;
    own_json json_t *o = fake_ok(f, "get_active_sandbox", "{}");

    assert_json(o, "active_sandbox", json_null());
    assert_non_null(strstr(json_string_value(js_get(o, "note")), "create_sandbox makes one"));
    assert_int_equal(f->n_boxes, 0);
}

static void delete_needs_a_name_and_tells_what_it_did(void **state)
{
    struct fake *f = *state;
    own_json json_t *made = fake_ok(f, "create_sandbox", "{\"name\":\"a\"}");
    own_json json_t *unnamed = NULL;
    own_json json_t *gone = NULL;
    own_json json_t *missing = NULL;

    unnamed = fake_fails(f, "delete_sandbox", "{\"sandbox_name\":\"\"}", "invalid", "is required");
    assert_json(unnamed, "available", json_pack("[s]", "a"));
    assert_false(f->boxes[0]->gone);
    gone = fake_ok(f, "delete_sandbox", "{\"sandbox_name\":\"a\"}");
    assert_json(gone, "sandbox_id", js_string(js_str(js_get(made, "sandbox_id"))));
    assert_json(gone, "name", json_string("a"));
    assert_json(gone, "status", json_string("deleted"));
    assert_true(f->boxes[0]->gone);
    missing = fake_fails(f, "delete_sandbox", "{\"sandbox_id\":\"zz\"}", "not_found", "zz");
    assert_json(missing, "status", json_string("not_found"));
}

static void delete_asks_before_it_ends_what_runs(void **state)
{
    struct fake *f = *state;
    own_json json_t *made = fake_ok(f, "create_sandbox", "{\"name\":\"a\"}");
    own_json json_t *declined = NULL;
    own_json json_t *closed = NULL;
    own_json json_t *unticked = NULL;
    own_json json_t *silent = NULL;
    own_json json_t *gone = NULL;

    f->can = CAN_FORM;
    f->usage.processes = 2;
    f->reply = "{\"action\":\"decline\"}";
    declined = fake_ok(f, "delete_sandbox", "{\"sandbox_name\":\"a\"}");
    assert_json(declined, "sandbox_id", js_string(js_str(js_get(made, "sandbox_id"))));
    assert_json(declined, "status", json_string("not_deleted"));
    assert_json(declined, "processes", json_integer(2));
    assert_non_null(strstr(json_string_value(js_get(declined, "reason")), "declined"));
    assert_non_null(strstr(f->question, "Delete sandbox \\\"a\\\"? 2 processes are running"));
    f->reply = "{\"action\":\"cancel\"}";
    closed = fake_ok(f, "delete_sandbox", "{\"sandbox_name\":\"a\"}");
    assert_non_null(strstr(json_string_value(js_get(closed, "reason")), "force: true"));
    f->reply = "{\"action\":\"accept\",\"content\":{\"ok\":false}}";
    unticked = fake_ok(f, "delete_sandbox", "{\"sandbox_name\":\"a\"}");
    assert_json(unticked, "status", json_string("not_deleted"));
    f->reply = NULL;
    silent = fake_ok(f, "delete_sandbox", "{\"sandbox_name\":\"a\"}");
    assert_json(silent, "status", json_string("not_deleted"));
    assert_int_equal(f->asks, 4);
    assert_false(f->boxes[0]->gone);
    f->reply = "{\"action\":\"accept\",\"content\":{\"ok\":true}}";
    gone = fake_ok(f, "delete_sandbox", "{\"sandbox_name\":\"a\"}");
    assert_json(gone, "status", json_string("deleted"));
    assert_json(gone, "name", json_string("a"));
    assert_true(f->boxes[0]->gone);
}

static void delete_does_not_ask_for_nothing(void **state)
{
    static const struct {
        unsigned can;
        int processes;
        const char *arguments;
        bool no_usage;
    } cases[] = {
        {0, 2, "{\"sandbox_name\":\"a\"}", false},
        {CAN_URL | CAN_SAMPLE | CAN_ROOTS, 2, "{\"sandbox_name\":\"a\"}", false},
        {CAN_FORM, 0, "{\"sandbox_name\":\"a\"}", false},
        {CAN_FORM, -1, "{\"sandbox_name\":\"a\"}", false},
        {CAN_FORM, 2, "{\"sandbox_name\":\"a\",\"force\":true}", false},
        {CAN_FORM, 2, "{\"sandbox_name\":\"a\"}", true},
    };
    struct fake *f = *state;

    f->reply = "{\"action\":\"decline\"}";
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        own_json json_t *gone = NULL;

        f->can = 0;
        json_decref(fake_ok(f, "create_sandbox", "{\"name\":\"a\"}"));
        f->can = cases[i].can;
        f->usage.processes = cases[i].processes;
        f->no_usage = cases[i].no_usage;
        gone = fake_ok(f, "delete_sandbox", cases[i].arguments);
        assert_json(gone, "status", json_string("deleted"));
    }
    assert_int_equal(f->asks, 0);
}

static void delete_that_asks_with_its_answer_leaves_all_as_it_is(void **state)
{
    struct fake *f = *state;

    json_decref(fake_ok(f, "create_sandbox", "{\"name\":\"a\"}"));
    f->can = CAN_FORM;
    f->usage.processes = 1;
    f->asks_later = true;
    fake_asks(f, "delete_sandbox", "{\"sandbox_name\":\"a\"}");
    assert_non_null(strstr(f->question, "1 process is running in it; it and all files"));
    assert_false(f->boxes[0]->gone);
    f->asks_later = false;
    f->ask_fails = ERR_CANCELLED;
    json_decref(fake_fails(f, "delete_sandbox", "{\"sandbox_name\":\"a\"}", "cancelled", "ask"));
    assert_false(f->boxes[0]->gone);
}

int main(void)
{
    const struct CMUnitTest all[] = {
        FAKE_TEST(create_answers_the_union_of_the_seeds),
        FAKE_TEST(create_refuses_with_a_sentence_and_makes_nothing),
        FAKE_TEST(create_reuses_a_live_box_only_when_asked),
        FAKE_TEST(list_shows_each_box_and_the_active_one),
        FAKE_TEST(list_tells_how_busy_a_box_is),
        FAKE_TEST(list_leaves_out_a_box_that_ended),
        FAKE_TEST(the_mcp_sandbox_shapes_are_its_own),
        FAKE_TEST(a_wrong_configuration_is_told_by_every_tool),
        FAKE_TEST(select_changes_the_active_box_or_lists_what_there_is),
        FAKE_TEST(no_active_box_is_no_error),
        FAKE_TEST(delete_needs_a_name_and_tells_what_it_did),
        FAKE_TEST(delete_asks_before_it_ends_what_runs),
        FAKE_TEST(delete_does_not_ask_for_nothing),
        FAKE_TEST(delete_that_asks_with_its_answer_leaves_all_as_it_is),
    };

    return cmocka_run_group_tests(all, NULL, NULL);
}
