#include "base/own.h"
#include "json/js.h"
#include "test.h"

static void gives_the_bytes_as_they_came(void **state)
{
    static const char *const ids[] = {
        "1",
        "-0",
        "1.50",
        "1e2",
        "123456789012345678901234567890",
        "\"a\\u0041\\\"b\"",
        "null",
        "true",
        "[1, {\"}\":\"]\"}]",
        "{ }",
        "\"\"",
    };

    (void)state;
    for (size_t i = 0; i < COUNTOF(ids); i++) {
        char text[200];

        (void)snprintf(text, sizeof(text), "\t{\"a\":[{\"id\":2}],\n \"id\" :  %s \r\n}", ids[i]);
        assert_str(js_raw(str_from(text), "id", NULL), str_from(ids[i]));
        (void)snprintf(text, sizeof(text), "{\"id\":%s}", ids[i]);
        assert_str(js_raw(str_from(text), "id", NULL), str_from(ids[i]));
        assert_str(js_raw(str_from(ids[i]), NULL), str_from(ids[i]));
    }
}

static void walks_a_path(void **state)
{
    struct str text =
        S("{\"x\":\"{\\\"id\\\":1}\",\"params\":{\"_meta\":{\"token\":\"t\",\"n\":[ ]}}}");

    (void)state;
    assert_str(js_raw(text, "params", "_meta", "token", NULL), S("\"t\""));
    assert_str(js_raw(text, "params", "_meta", "n", NULL), S("[ ]"));
    assert_str(js_raw(text, "params", "_meta", "none", NULL), S(""));
    assert_str(js_raw(text, "params", "token", NULL), S(""));
    assert_str(js_raw(text, "x", "id", NULL), S(""));
    assert_str(js_raw(text, "none", "_meta", NULL), S(""));
}

static void takes_the_last_of_repeated_keys(void **state)
{
    (void)state;
    assert_str(js_raw(S("{\"id\":1,\"i\":2,\"id\":3,\"j\":4}"), "id", NULL), S("3"));
}

static void reads_escaped_keys(void **state)
{
    (void)state;
    assert_str(js_raw(S("{\"\\u0069d\":1}"), "id", NULL), S("1"));
    assert_str(js_raw(S("{\"i\\u0064x\":1}"), "id", NULL), S(""));
    assert_str(js_raw(S("{\"i\":1}"), "id", NULL), S(""));
    assert_str(js_raw(S("{\"\\\"\\\\\\/\\b\\f\\n\\r\\t\":1}"), "\"\\/\b\f\n\r\t", NULL), S("1"));
    assert_str(js_raw(S("{\"\\u00e9\\u20AC\\ud83d\\ude00\":1}"),
                      "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80", NULL),
               S("1"));
    assert_str(js_raw(S("{\"\\ud83dx\\ude00\":1}"), "\xEF\xBF\xBDx\xEF\xBF\xBD", NULL), S("1"));
    assert_str(js_raw(S("{\"\":1}"), "", NULL), S("1"));
}

static void finds_items(void **state)
{
    struct str text = S(" [ 1 , \"a,]\" ,[2,[3]], {\"a\":[]} ] ");

    (void)state;
    assert_str(js_raw_item(text, 0), S("1"));
    assert_str(js_raw_item(text, 1), S("\"a,]\""));
    assert_str(js_raw_item(text, 2), S("[2,[3]]"));
    assert_str(js_raw_item(text, 3), S("{\"a\":[]}"));
    assert_str(js_raw_item(text, 4), S(""));
    assert_str(js_raw_item(S("[]"), 0), S(""));
    assert_str(js_raw_item(S("{}"), 0), S(""));
    assert_str(js_raw_item(S(""), 0), S(""));
}

static void survives_garbage(void **state)
{
    static const char *const cases[] = {
        "",
        "{",
        "{\"",
        "{\"id",
        "{\"id\"",
        "{\"id\":",
        "{\"id\":[",
        "{\"id\":\"",
        "{\"id\":\"\\",
        "{\"id\" 1}",
        "{id:1}",
        "[\"id\",1]",
        "{\"id\":}",
        "{,}",
        "}",
        "{\"\\u00\":1}",
        "{\"\\x\":1}",
        "{\"\\\":1}",
    };

    (void)state;
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        /* A copy on the heap, so that a byte too far is noticed. */
        char *text own_mem = strdup(cases[i]);

        assert_int_equal(js_raw((struct str){text, strlen(cases[i])}, "id", NULL).len, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_the_bytes_as_they_came),
        cmocka_unit_test(walks_a_path),
        cmocka_unit_test(takes_the_last_of_repeated_keys),
        cmocka_unit_test(reads_escaped_keys),
        cmocka_unit_test(finds_items),
        cmocka_unit_test(survives_garbage),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
