/* test_http_openapi.c - the description has everything that is served, and nothing else. */
#include "json/js.h"
#include "serve/http/openapi.h"
#include "serve/http/route.h"
#include "test.h"
#include "tools/tool.h"

static const struct route *const sets[] = {rest_routes, file_routes, metrics_routes,
                                           openapi_routes};

static struct config config;

static const char *method_name(unsigned methods)
{
    switch (methods) {
    case HTTP_GET: return "get";
    case HTTP_PUT: return "put";
    case HTTP_POST: return "post";
    default: fail_msg("a row has one method"); return NULL;
    }
}

static void every_route_is_described(void **state)
{
    json_t *api own_json = openapi_build(S("http://h:1"), TOOLSET_ALL, NULL, &config);
    const json_t *paths = js_get(api, "paths");

    (void)state;
    for (size_t set = 0; set < COUNTOF(sets); set++) {
        for (const struct route *row = sets[set]; row->path != NULL; row++) {
            bool tool = str_ends(str_from(row->path), S("*"));
            const json_t *op = js_path(paths, tool ? "/mcp/tools/exec_bash" : row->path,
                                       method_name(row->methods), NULL);
            const json_t *security = js_get(op, "security");

            if (op == NULL) {
                fail_msg("%s %s is not described", method_name(row->methods), row->path);
            }
            assert_int_equal((row->flags & ROUTE_OPEN) != 0,
                             json_is_array(security) && json_array_size(security) == 0);
        }
    }
}

static void everything_described_is_served(void **state)
{
    json_t *api own_json = openapi_build(S("http://h:1"), TOOLSET_ALL, NULL, &config);
    const char *path;
    json_t *item;

    (void)state;
    json_object_foreach (js_get(api, "paths"), path, item) {
        const char *word;
        json_t *op;

        json_object_foreach (item, word, op) {
            enum http_method method = str_eq(str_from(word), S("get"))   ? HTTP_GET
                                      : str_eq(str_from(word), S("put")) ? HTTP_PUT
                                                                         : HTTP_POST;
            struct str tail;
            unsigned allowed;

            if (strcmp(word, "parameters") != 0 &&
                route_find(str_from(path), method, &allowed, &tail) == NULL) {
                fail_msg("%s %s is not served", word, path);
            }
        }
    }
}

static void tools_are_those_of_the_sets(void **state)
{
    json_t *api own_json = openapi_build(S("http://h:1"), TOOLSET_MCP, NULL, &config);
    size_t n = 0;

    (void)state;
    for (size_t i = 0; tools[i] != NULL; i++) {
        char path[128];

        (void)snprintf(path, sizeof(path), "/mcp/tools/%s", tools[i]->name);
        assert_int_equal(js_path(api, "paths", path, NULL) != NULL,
                         (tools[i]->toolsets & TOOLSET_MCP) != 0);
        n += (tools[i]->toolsets & TOOLSET_MCP) != 0;
    }
    assert_true(n > 1);
    assert_str(js_str(js_get(json_array_get(js_get(api, "servers"), 0), "url")), S("http://h:1"));
    assert_str(js_str(js_path(api, "info", "version", NULL)), S(ANYBOX_VERSION));
}

static void every_code_is_in_the_error(void **state)
{
    json_t *api own_json = openapi_build(S("http://h:1"), TOOLSET_ALL, NULL, &config);
    const json_t *codes =
        js_path(api, "components", "schemas", "Error", "properties", "code", "enum", NULL);

    (void)state;
    assert_int_equal(json_array_size(codes), ERR_KINDS - 1);
    for (int kind = 1; kind < ERR_KINDS; kind++) {
        bool found = false;

        for (size_t i = 0; i < json_array_size(codes); i++) {
            found = found || str_eq(js_str(json_array_get(codes, i)),
                                    str_from(err_kind_name((enum err_kind)kind)));
        }
        assert_true(found);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_route_is_described),
        cmocka_unit_test(everything_described_is_served),
        cmocka_unit_test(tools_are_those_of_the_sets),
        cmocka_unit_test(every_code_is_in_the_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
