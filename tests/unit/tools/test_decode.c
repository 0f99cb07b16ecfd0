/* test_decode.c - arguments by a table of every parameter type, and every tool's own. */
#include "json/js.h"
#include "test.h"
#include "tools/tool.h"

struct probe {
    struct str text, choice, path;
    int64_t count, size, open_end;
    double number;
    bool flag;
    struct str_list list, env;
    struct object_list parts;
};

struct part {
    struct str name;
    int64_t count;
};

static const struct param part_params[] = {
    {.name = "name",
     .type = PARAM_STRING,
     .offset = offsetof(struct part, name),
     .required = true,
     .help = "which"},
    {.name = "count",
     .type = PARAM_INTEGER,
     .offset = offsetof(struct part, count),
     .min = 1,
     .max = 9,
     .fallback = 3,
     .help = "how many"},
};

static const char *const choices[] = {"none", "internet", NULL};

static const struct param params[] = {
    {.name = "text",
     .type = PARAM_STRING,
     .offset = offsetof(struct probe, text),
     .max = 8,
     .required = true,
     .help = "the text"},
    {.name = "alias",
     .type = PARAM_STRING,
     .offset = offsetof(struct probe, text),
     .hidden = true,
     .help = "the same"},
    {.name = "choice",
     .type = PARAM_STRING,
     .offset = offsetof(struct probe, choice),
     .choices = choices,
     .fallback_text = "none",
     .help = "which"},
    {.name = "path",
     .type = PARAM_STRING,
     .offset = offsetof(struct probe, path),
     .fallback_text = ".",
     .help = "where"},
    {.name = "count",
     .type = PARAM_INTEGER,
     .offset = offsetof(struct probe, count),
     .min = 1,
     .max = 86400,
     .fallback = 7,
     .help = "how many"},
    {.name = "open_end",
     .type = PARAM_INTEGER,
     .offset = offsetof(struct probe, open_end),
     .min = 0,
     .max = INT64_MAX,
     .help = "from where"},
    {.name = "size",
     .type = PARAM_SIZE,
     .offset = offsetof(struct probe, size),
     .min = 16 << 20,
     .max = 1ll << 40,
     .help = "how large"},
    {.name = "number",
     .type = PARAM_NUMBER,
     .offset = offsetof(struct probe, number),
     .max = 64,
     .fallback_text = "0.5",
     .help = "how much"},
    {.name = "flag",
     .type = PARAM_BOOLEAN,
     .offset = offsetof(struct probe, flag),
     .fallback = 1,
     .help = "whether"},
    {.name = "list",
     .type = PARAM_STRINGS,
     .offset = offsetof(struct probe, list),
     .help = "which"},
    {.name = "env", .type = PARAM_ENV, .offset = offsetof(struct probe, env), .help = "variables"},
    {.name = "parts",
     .type = PARAM_OBJECTS,
     .offset = offsetof(struct probe, parts),
     .fields = part_params,
     .n_fields = COUNTOF(part_params),
     .fields_size = sizeof(struct part),
     .help = "parts"},
};

static const struct tool probe_tool = {
    .name = "probe",
    .help = "A probe.",
    .params = params,
    .n_params = COUNTOF(params),
    .args_size = sizeof(struct probe),
};

static const struct probe *decode(const char *text, struct arena *a, struct err *e)
{
    own_json json_t *arguments = text ? js_parse(text, strlen(text), e) : NULL;

    if (text != NULL && arguments == NULL) {
        fail_msg("the test's own JSON is wrong: %s", e->msg);
    }
    return tool_decode(&probe_tool, arguments, a, e);
}

static const struct probe *decoded(const char *text, struct arena *a)
{
    struct err e = {0};
    const struct probe *p = decode(text, a, &e);

    if (p == NULL) {
        fail_msg("%s: %s", text, e.msg);
    }
    return p;
}

static void absent_arguments_get_their_fallbacks(void **state)
{
    struct arena a own_arena = {0};
    const struct probe *p;

    (void)state;
    arena_init(&a, 1 << 20);
    p = decoded("{\"text\":\"t\",\"count\":null,\"flag\":null,\"unknown\":[1],\"choice\":\"\","
                "\"path\":\"\",\"number\":\"\"}",
                &a);
    assert_str(p->text, S("t"));
    assert_str(p->choice, S("none"));
    assert_str(p->path, S("."));
    assert_int_equal(p->count, 7);
    assert_int_equal(p->size, 0);
    assert_true(p->number == 0.5);
    assert_true(p->flag);
    assert_int_equal(p->list.n, 0);
    assert_int_equal(p->env.n, 0);
}

static void what_old_clients_send_is_taken(void **state)
{
    static const struct {
        const char *text;
        int64_t count;
        bool flag;
    } cases[] = {
        {"{\"text\":\"\",\"count\":5,\"flag\":false}", 5, false},
        {"{\"text\":\"\",\"count\":5.0,\"flag\":\"false\"}", 5, false},
        {"{\"text\":\"\",\"count\":\"5\",\"flag\":\"0\"}", 5, false},
        {"{\"text\":\"\",\"count\":\" 5 \",\"flag\":0}", 5, false},
        {"{\"text\":\"\",\"count\":\"5.0\",\"flag\":\"TRUE\"}", 5, true},
        {"{\"text\":\"\",\"count\":\"\",\"flag\":1}", 7, true},
        {"\"{\\\"text\\\":\\\"x\\\",\\\"count\\\":86400}\"", 86400, true},
    };

    (void)state;
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        struct arena a own_arena = {0};
        const struct probe *p;

        arena_init(&a, 1 << 20);
        p = decoded(cases[i].text, &a);
        assert_int_equal(p->count, cases[i].count);
        assert_int_equal(p->flag, cases[i].flag);
    }
}

static void an_alias_stands_for_its_parameter(void **state)
{
    struct arena a own_arena = {0};

    (void)state;
    arena_init(&a, 1 << 20);
    assert_str(decoded("{\"alias\":\"x\"}", &a)->text, S("x"));
    assert_str(decoded("{\"choice\":\"INTERNET\",\"text\":\"\"}", &a)->choice, S("internet"));
}

static void sizes_numbers_lists_and_environments(void **state)
{
    struct arena a own_arena = {0};
    const struct probe *p;

    (void)state;
    arena_init(&a, 1 << 20);
    p = decoded("{\"text\":\"\",\"size\":\"512m\",\"number\":\"1.5\",\"list\":[\"a\",\"b\"],"
                "\"env\":{\"A\":\"1 2\",\"_b9\":3,\"C\":true,\"D\":null,\"E\":1.5}}",
                &a);
    assert_int_equal(p->size, 512ll << 20);
    assert_true(p->number == 1.5);
    assert_int_equal(p->list.n, 2);
    assert_str(p->list.items[1], S("b"));
    assert_int_equal(p->env.n, 4);
    p = decoded("{\"text\":\"\",\"size\":67108864,\"list\":\"[\\\"x\\\"]\","
                "\"env\":\"{\\\"K\\\":\\\"v\\\"}\"}",
                &a);
    assert_int_equal(p->size, 64ll << 20);
    assert_int_equal(p->list.n, 1);
    assert_str(p->list.items[0], S("x"));
    assert_str(p->env.items[0], S("K=v"));
    p = decoded("{\"text\":\"\",\"list\":\"one\",\"env\":[\"A=1\",\"B=\"]}", &a);
    assert_str(p->list.items[0], S("one"));
    assert_int_equal(p->env.n, 2);
    assert_str(p->env.items[1], S("B="));
}

static void lists_of_objects_are_read_by_their_own_table(void **state)
{
    static const char *const same[] = {
        "{\"text\":\"t\",\"parts\":[{\"name\":\"a\"},{\"name\":\"b\",\"count\":\"5\",\"x\":1}]}",
        "{\"text\":\"t\",\"parts\":\"[{\\\"name\\\":\\\"a\\\"},{\\\"name\\\":\\\"b\\\","
        "\\\"count\\\":5}]\"}",
    };
    static const struct {
        const char *text, *says;
    } wrong[] = {
        {"{\"text\":\"t\",\"parts\":[{}]}", "parts[0]: name is required"},
        {"{\"text\":\"t\",\"parts\":[{\"name\":\"a\"},7]}", "parts[1] must be an object"},
        {"{\"text\":\"t\",\"parts\":[{\"name\":\"a\",\"count\":0}]}", "parts[0]: count must be"},
        {"{\"text\":\"t\",\"parts\":\"x\"}", "parts must be a list of objects"},
        {"{\"text\":\"t\",\"parts\":7}", "parts must be a list of objects"},
    };
    struct arena a own_arena = {0};
    struct err e = {0};

    (void)state;
    arena_init(&a, 1 << 20);
    for (size_t i = 0; i < COUNTOF(same); i++) {
        const struct object_list *l = &decoded(same[i], &a)->parts;
        const struct part *parts = l->items;

        assert_int_equal(l->n, 2);
        assert_str(parts[0].name, S("a"));
        assert_int_equal(parts[0].count, 3);
        assert_str(parts[1].name, S("b"));
        assert_int_equal(parts[1].count, 5);
    }
    assert_int_equal(decoded("{\"text\":\"t\",\"parts\":{\"name\":\"a\"}}", &a)->parts.n, 1);
    assert_int_equal(decoded("{\"text\":\"t\",\"parts\":[]}", &a)->parts.n, 0);
    for (size_t i = 0; i < COUNTOF(wrong); i++) {
        assert_null(decode(wrong[i].text, &a, &e));
        assert_int_equal(e.kind, ERR_INVALID);
        if (strstr(e.msg, wrong[i].says) == NULL) {
            fail_msg("%s: %s", wrong[i].text, e.msg);
        }
    }
}

static void numbers_and_booleans_become_text_in_an_environment(void **state)
{
    struct arena a own_arena = {0};
    const struct probe *p;

    (void)state;
    arena_init(&a, 1 << 20);
    p = decoded("{\"text\":\"\",\"env\":{\"A\":-7}}", &a);
    assert_str(p->env.items[0], S("A=-7"));
    p = decoded("{\"text\":\"\",\"env\":{\"A\":false}}", &a);
    assert_str(p->env.items[0], S("A=false"));
}

static void wrong_arguments_answer_a_sentence(void **state)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {NULL, "text is required: the text"},
        {"{}", "text is required: the text"},
        {"{\"text\":null}", "text is required: the text"},
        {"{\"txt\":\"x\"}", "text is required: the text; there is no argument \"txt\""},
        {"[1]", "arguments must be an object of named values, not a list"},
        {"\"text\"", "arguments must be an object of named values, not a string"},
        {"{\"text\":5}", "text must be a string, not a number"},
        {"{\"text\":[\"ls\"]}", "text must be a string, not a list"},
        {"{\"text\":{}}", "text must be a string, not an object"},
        {"{\"text\":true}", "text must be a string, not true"},
        {"{\"text\":\"a\\u0000b\"}", "text must not contain NUL characters"},
        {"{\"text\":\"123456789\"}", "text is 9 bytes long; at most 8 are accepted"},
        {"{\"text\":\"\",\"count\":\"abc\"}",
         "count must be an integer from 1 to 86400, not \"abc\""},
        {"{\"text\":\"\",\"count\":-5}", "count must be an integer from 1 to 86400, not -5"},
        {"{\"text\":\"\",\"count\":0}", "count must be an integer from 1 to 86400, not 0"},
        {"{\"text\":\"\",\"count\":1.5}", "count must be an integer from 1 to 86400, not 1.5"},
        {"{\"text\":\"\",\"count\":1e300}", "count must be an integer from 1 to 86400, not 1e"},
        {"{\"text\":\"\",\"count\":[]}", "count must be an integer from 1 to 86400, not a list"},
        {"{\"text\":\"\",\"count\":true}", "count must be an integer from 1 to 86400, not true"},
        {"{\"text\":\"\",\"count\":99999999999999999999999}", "count must be an integer"},
        {"{\"text\":\"\",\"open_end\":-1}", "open_end must be an integer of 0 or more, not -1"},
        {"{\"text\":\"\",\"flag\":\"perhaps\"}", "flag must be true or false, not \"perhaps\""},
        {"{\"text\":\"\",\"flag\":2}", "flag must be true or false, not 2"},
        {"{\"text\":\"\",\"number\":0}", "number must be a number above 0 and up to 64, not 0"},
        {"{\"text\":\"\",\"number\":-1}", "number must be a number above 0 and up to 64, not -1"},
        {"{\"text\":\"\",\"number\":{}}", "not an object"},
        {"{\"text\":\"\",\"size\":\"lots\"}", "size must be a size such as \"512m\" or \"2g\""},
        {"{\"text\":\"\",\"size\":512}", "size must be from 16m to 1t"},
        {"{\"text\":\"\",\"size\":\"4m\"}", "not \"4m\""},
        {"{\"text\":\"\",\"size\":[]}", "not a list"},
        {"{\"text\":\"\",\"choice\":\"wifi\"}",
         "choice must be one of \"none\", \"internet\", not \"wifi\""},
        {"{\"text\":\"\",\"list\":[\"a\",2]}",
         "list must be a list of strings; item 2 is a number"},
        {"{\"text\":\"\",\"list\":7}", "list must be a list of strings, not a number"},
        {"{\"text\":\"\",\"env\":{\"1A\":\"\"}}", "env: \"1A\" is not a variable name"},
        {"{\"text\":\"\",\"env\":{\"\":\"\"}}", "env: \"\" is not a variable name"},
        {"{\"text\":\"\",\"env\":{\"A=B\":\"\"}}", "env: \"A=B\" is not a variable name"},
        {"{\"text\":\"\",\"env\":{\"A\":[]}}", "env: A must be a string, not a list"},
        {"{\"text\":\"\",\"env\":{\"A\":\"\\u0000\"}}", "env: A must not contain NUL"},
        {"{\"text\":\"\",\"env\":\"PATH\"}", "env: \"PATH\" has no \"=\""},
        {"{\"text\":\"\",\"env\":5}", "env must be an object such as"},
    };

    (void)state;
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        struct arena a own_arena = {0};
        struct err e = {0};

        arena_init(&a, 1 << 20);
        assert_fails(decode(cases[i].text, &a, &e) ? 0 : -1, &e, ERR_INVALID, cases[i].says);
    }
}

static void long_values_are_not_repeated_in_the_sentence(void **state)
{
    struct arena a own_arena = {0};
    struct err e = {0};
    char text[1200];
    int at = snprintf(text, sizeof(text), "{\"text\":\"\",\"count\":\"");

    (void)state;
    arena_init(&a, 1 << 20);
    memset(text + at, 'x', 1000);
    (void)snprintf(text + at + 1000, 10, "\"}");
    assert_fails(decode(text, &a, &e) ? 0 : -1, &e, ERR_INVALID, "not this long string");
}

static void a_variable_that_the_kernel_would_refuse_is_refused(void **state)
{
    struct arena a own_arena = {0};
    struct err e = {0};
    own_json json_t *arguments = json_pack("{s:s, s:{s:o}}", "text", "", "env", "A", json_null());
    char *value = calloc(1, 200001);

    (void)state;
    arena_init(&a, 8 << 20);
    memset(value, 'v', 200000);
    json_object_set_new(json_object_get(arguments, "env"), "A", json_string(value));
    assert_fails(tool_decode(&probe_tool, arguments, &a, &e) ? 0 : -1, &e, ERR_INVALID,
                 "env: A is 200002 bytes long");
    free(value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(absent_arguments_get_their_fallbacks),
        cmocka_unit_test(what_old_clients_send_is_taken),
        cmocka_unit_test(an_alias_stands_for_its_parameter),
        cmocka_unit_test(sizes_numbers_lists_and_environments),
        cmocka_unit_test(lists_of_objects_are_read_by_their_own_table),
        cmocka_unit_test(numbers_and_booleans_become_text_in_an_environment),
        cmocka_unit_test(wrong_arguments_answer_a_sentence),
        cmocka_unit_test(long_values_are_not_repeated_in_the_sentence),
        cmocka_unit_test(a_variable_that_the_kernel_would_refuse_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
