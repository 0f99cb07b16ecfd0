/* test_schema.c - the table as clients see it: plain schemas, truthful hints, small. */
#include "json/js.h"
#include "test.h"
#include "tools/tool.h"

#define LIST_MAX (12u << 10) /* bytes of the default tools/list, about 3,000 tokens */

/* Nothing that some client's bridge refuses: no unions, no $schema, arrays with items. */
static void check_property(const char *tool, const char *name, const json_t *p)
{
    const char *type = json_string_value(js_get(p, "type"));
    const char *key;
    json_t *value;
    json_t *item;
    size_t i;

    if (type == NULL || json_string_length(js_get(p, "description")) == 0) {
        fail_msg("%s.%s has no type or no description", tool, name);
    }
    json_object_foreach ((json_t *)(uintptr_t)p, key, value) {
        static const char *const known[] = {"type", "description", "default",
                                            "enum", "items",       "additionalProperties"};
        bool ok = false;

        for (size_t k = 0; k < COUNTOF(known); k++) {
            ok = ok || strcmp(key, known[k]) == 0;
        }
        if (!ok) {
            fail_msg("%s.%s has the unusual keyword %s", tool, name, key);
        }
    }
    assert_int_equal(strcmp(type, "array") == 0, js_get(p, "items") != NULL);
    json_array_foreach (js_get(p, "enum"), i, item) {
        assert_true(json_is_string(item));
    }
}

static void schemas_are_plain(void **state)
{
    (void)state;
    for (size_t t = 0; tools[t] != NULL; t++) {
        own_json json_t *schema = tool_schema(tools[t]);
        const json_t *required = js_get(schema, "required");
        json_t *properties = js_get(schema, "properties");
        const char *name;
        json_t *p;
        json_t *word;
        size_t i;

        assert_string_equal(json_string_value(js_get(schema, "type")), "object");
        assert_true(json_is_object(properties));
        assert_int_equal(json_object_size(schema), required ? 3 : 2);
        json_object_foreach (properties, name, p) {
            check_property(tools[t]->name, name, p);
        }
        assert_true(required == NULL || json_array_size(required) > 0);
        json_array_foreach (required, i, word) {
            assert_non_null(js_get(properties, json_string_value(word)));
        }
    }
}

static void the_table_is_sorted_and_found_by_name(void **state)
{
    size_t n = 0;

    (void)state;
    for (; tools[n] != NULL; n++) {
        assert_ptr_equal(tool_find(str_from(tools[n]->name)), tools[n]);
        assert_true(n == 0 || strcmp(tools[n - 1]->name, tools[n]->name) < 0);
        assert_true(strlen(tools[n]->help) > 0 && strlen(tools[n]->help) <= 600);
        assert_true(strlen(tools[n]->name) <= 40);
        assert_true(tools[n]->toolsets & TOOLSET_ALL);
        assert_non_null(tools[n]->title);
        assert_non_null(tools[n]->run);
    }
    assert_true(n >= 11);
    assert_null(tool_find(S("")));
    assert_null(tool_find(S("exec_bas")));
    assert_null(tool_find(S("exec_bash2")));
    assert_null(tool_find(S("zzz")));
}

/* A parameter that would be written behind the end of its struct shows here. */
static void parameters_lie_inside_their_struct(void **state)
{
    static const size_t sizes[] = {
        [PARAM_STRING] = sizeof(struct str),   [PARAM_INTEGER] = sizeof(int64_t),
        [PARAM_NUMBER] = sizeof(double),       [PARAM_BOOLEAN] = sizeof(bool),
        [PARAM_SIZE] = sizeof(int64_t),        [PARAM_STRINGS] = sizeof(struct str_list),
        [PARAM_ENV] = sizeof(struct str_list), [PARAM_OBJECTS] = sizeof(struct object_list),
    };

    (void)state;
    for (size_t t = 0; tools[t] != NULL; t++) {
        for (size_t i = 0; i < tools[t]->n_params; i++) {
            const struct param *p = &tools[t]->params[i];

            assert_true(p->offset + sizes[p->type] <= tools[t]->args_size);
            assert_non_null(p->help);
        }
    }
}

static void every_tool_takes_a_box_by_id_and_by_name(void **state)
{
    static const char *const without[] = {
        "cancel_background_watch",
        "cancel_file_transfer_task",
        "check_file_transfer_task",
        "create_sandbox",
        "get_active_sandbox",
        "get_background_watch",
        "get_background_watch_progress",
        "get_watchdog_status",
        "install_macos_watchdog",
        "install_watchdog",
        "list_background_watch_events",
        "list_background_watches",
        "list_sandboxes",
        "read_background_watch_checkpoint",
        "read_background_watch_log",
        "uninstall_macos_watchdog",
        "uninstall_watchdog",
    };

    (void)state;
    for (size_t t = 0; tools[t] != NULL; t++) {
        int found = 0, wanted = 2;

        for (size_t i = 0; i < COUNTOF(without); i++) {
            wanted = strcmp(tools[t]->name, without[i]) == 0 ? 0 : wanted;
        }
        for (size_t i = 0; i < tools[t]->n_params; i++) {
            const struct param *p = &tools[t]->params[i];

            if (strcmp(p->name, "sandbox_id") == 0 || strcmp(p->name, "sandbox_name") == 0) {
                assert_false(p->required);
                found++;
            }
        }
        assert_int_equal(found, wanted);
    }
}

static void hints_are_truthful(void **state)
{
    (void)state;
    assert_true(tool_find(S("list_sandboxes"))->hints & HINT_READ_ONLY);
    assert_true(tool_find(S("read_remote_file"))->hints & HINT_READ_ONLY);
    assert_true(tool_find(S("delete_sandbox"))->hints & HINT_DESTRUCTIVE);
    assert_false(tool_find(S("exec_bash"))->hints & (HINT_READ_ONLY | HINT_OPEN_WORLD));
    for (size_t t = 0; tools[t] != NULL; t++) {
        assert_false((tools[t]->hints & HINT_READ_ONLY) && (tools[t]->hints & HINT_DESTRUCTIVE));
    }
}

static void the_default_list_is_small(void **state)
{
    struct buf text own_buf = {0};
    size_t shown = 0;

    (void)state;
    buf_init(&text, 1 << 20);
    for (size_t t = 0; tools[t] != NULL; t++) {
        own_json json_t *o = NULL;

        if (!(tools[t]->toolsets & TOOLSET_DEFAULT)) {
            continue;
        }
        o = json_pack("{s:s, s:s, s:s, s:o, s:{s:b, s:b, s:b, s:b}}", "name", tools[t]->name,
                      "title", tools[t]->title, "description", tools[t]->help, "inputSchema",
                      tool_schema(tools[t]), "annotations", "readOnlyHint", 0, "destructiveHint", 0,
                      "idempotentHint", 0, "openWorldHint", 0);
        js_dump(o, &text);
        shown++;
    }
    print_message("# the default list of %zu tools has %zu bytes\n", shown, text.len);
    /* Seventeen tools are to share LIST_MAX; those of today must leave room for the rest. */
    assert_true(text.len <= LIST_MAX / 17 * shown);
}

static void toolsets_are_parsed(void **state)
{
    struct err e = {0};
    unsigned set = 0;

    (void)state;
    assert_ok(toolset_parse(S("default"), &set, &e), &e);
    assert_int_equal(set, TOOLSET_DEFAULT);
    assert_ok(toolset_parse(S(" remote-sandbox , ADVANCED,"), &set, &e), &e);
    assert_int_equal(set, TOOLSET_REMOTE | TOOLSET_ADVANCED);
    assert_fails(toolset_parse(S("fault"), &set, &e), &e, ERR_INVALID, "\"fault\"; there are");
    assert_fails(toolset_parse(S(","), &set, &e), &e, ERR_INVALID, "empty");
    assert_fails(toolset_parse(STR_EMPTY, &set, &e), &e, ERR_INVALID, "empty");
    assert_int_equal(set, TOOLSET_REMOTE | TOOLSET_ADVANCED);
}

static void the_document_names_every_tool_and_parameter(void **state)
{
    struct buf text own_buf = {0};

    (void)state;
    buf_init(&text, 1 << 20);
    tools_doc(&text);
    assert_false(text.cut);
    assert_non_null(strstr(text.p, "output:\\<id>")); /* Markdown would hide it as a tag */
    for (size_t t = 0; tools[t] != NULL; t++) {
        char heading[80];

        (void)snprintf(heading, sizeof(heading), "\n## %s\n", tools[t]->name);
        assert_non_null(strstr(text.p, heading));
        for (size_t i = 0; i < tools[t]->n_params; i++) {
            (void)snprintf(heading, sizeof(heading), "| `%s` |", tools[t]->params[i].name);
            assert_non_null(strstr(text.p, heading));
        }
    }
}

int main(void)
{
    const struct CMUnitTest all[] = {
        cmocka_unit_test(schemas_are_plain),
        cmocka_unit_test(the_table_is_sorted_and_found_by_name),
        cmocka_unit_test(parameters_lie_inside_their_struct),
        cmocka_unit_test(every_tool_takes_a_box_by_id_and_by_name),
        cmocka_unit_test(hints_are_truthful),
        cmocka_unit_test(the_default_list_is_small),
        cmocka_unit_test(toolsets_are_parsed),
        cmocka_unit_test(the_document_names_every_tool_and_parameter),
    };

    return cmocka_run_group_tests(all, NULL, NULL);
}
