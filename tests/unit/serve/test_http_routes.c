/* Which row a path and a method mean. */
#include "serve/http/route.h"
#include "test.h"

static const struct route *find(const char *path, enum http_method method, unsigned *allowed)
{
    struct str tail;

    return route_find(str_from(path), method, allowed, &tail);
}

static void a_path_has_its_methods(void **state)
{
    unsigned allowed = 0;
    const struct route *post = find("/mcp", HTTP_POST, &allowed);
    const struct route *get = find("/mcp", HTTP_GET, &allowed);

    (void)state;
    assert_non_null(post);
    assert_non_null(get);
    assert_ptr_not_equal(post, get);
    assert_int_equal(post->flags & ROUTE_OPEN, 0);
    assert_ptr_equal(find("/mcp", HTTP_HEAD, &allowed), get);
    assert_non_null(find("/", HTTP_POST, &allowed));
    assert_null(find("/mcp", HTTP_PUT, &allowed));
    assert_int_equal(allowed, HTTP_GET | HTTP_POST | HTTP_DELETE);
    assert_null(find("/mcp", HTTP_OTHER, &allowed));
    assert_int_not_equal(allowed, 0);
}

static void a_path_that_is_not_there_has_none(void **state)
{
    static const char *const none[] = {"/mcp/", "/MCP", "/mc", "/mcpx", "", "mcp", "//mcp", "/*"};
    unsigned allowed;

    (void)state;
    for (size_t i = 0; i < COUNTOF(none); i++) {
        allowed = 1;
        assert_null(find(none[i], HTTP_POST, &allowed));
        assert_int_equal(allowed, 0);
    }
}

static void a_star_stands_for_any_rest_that_is_not_empty(void **state)
{
    unsigned allowed = 0;
    struct str tail = STR_EMPTY;

    (void)state;
    assert_non_null(route_find(S("/.well-known/a/b"), HTTP_GET, &allowed, &tail));
    assert_str(tail, S("a/b"));
    assert_null(route_find(S("/.well-known/"), HTTP_GET, &allowed, &tail));
    assert_null(route_find(S("/.well-known"), HTTP_GET, &allowed, &tail));
}

static void methods_are_listed_for_people(void **state)
{
    char text[64];

    (void)state;
    assert_str(route_methods(HTTP_POST, text, sizeof(text)), S("POST"));
    assert_str(route_methods(HTTP_GET | HTTP_PUT | HTTP_DELETE, text, sizeof(text)),
               S("GET, HEAD, PUT, DELETE"));
    assert_str(route_methods(0, text, sizeof(text)), S(""));
    assert_true(route_methods(~0u, text, 8).len < 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_path_has_its_methods),
        cmocka_unit_test(a_path_that_is_not_there_has_none),
        cmocka_unit_test(a_star_stands_for_any_rest_that_is_not_empty),
        cmocka_unit_test(methods_are_listed_for_people),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
