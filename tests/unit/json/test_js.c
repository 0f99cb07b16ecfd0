#include <math.h>

#include "base/alloc.h"
#include "base/own.h"
#include "base/utf8.h"
#include "json/js.h"
#include "test.h"

#define BAD "\xEF\xBF\xBD"

/* Parses and writes again. */
static void check_round_trip(struct str in, struct str out)
{
    struct buf b own_buf = {.max = 10000};
    struct err e = {0};
    json_t *v own_json = js_parse(in.p, in.len, &e);

    if (v == NULL) {
        fail_msg("%.*s: %s", STR_ARG(in), e.msg);
    }
    js_dump(v, &b);
    assert_str(buf_str(&b), out);
}

static void parses_and_dumps(void **state)
{
    static const char *const cases[][2] = {
        {" {\"a\" : [1, 2.5, true, null, \"x\"] } ", "{\"a\":[1,2.5,true,null,\"x\"]}"},
        {"7", "7"},
        {"\"\\/\"", "\"/\""},
        {"{\"b\":1,\"a\":2}", "{\"b\":1,\"a\":2}"},
        {"{\"a\":1,\"a\":2}", "{\"a\":2}"},
        {"\"\xC3\xA9\xF0\x9F\x98\x80\"", "\"\xC3\xA9\xF0\x9F\x98\x80\""},
        {"\"\\ud83d\\ude00\"", "\"\xF0\x9F\x98\x80\""},
        {"\"\\u0000\\n\\u001b\"", "\"\\u0000\\n\\u001B\""},
        {"[0.1,1.0,-2.5e-300,1e22,0.30000000000000004,1.7976931348623157e308,-0.0]",
         "[0.1,1.0,-2.5e-300,1e22,0.30000000000000004,1.7976931348623157e308,-0.0]"},
        {"{\"0.10000000000000001\":\"0.10000000000000001\",\"\\\"\":0.10000000000000001}",
         "{\"0.10000000000000001\":\"0.10000000000000001\",\"\\\"\":0.1}"},
        {"-9223372036854775808", "-9223372036854775808"},
    };

    (void)state;
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        check_round_trip(str_from(cases[i][0]), str_from(cases[i][1]));
    }
}

static void repairs_what_is_careless(void **state)
{
    static const char *const cases[][2] = {
        {"[\"a\xFF\x80z\"]", "[\"a" BAD BAD "z\"]"},
        {"[\"\xF0\x9F\x98\"]", "[\"" BAD "\"]"},
        {"{\"k\xFF\":1}", "{\"k" BAD "\":1}"},
        {"\"\\ud800\"", "\"" BAD "\""},
        {"\"\\udc00x\\uD83Dy\"", "\"" BAD "x" BAD "y\""},
        {"\"\\ud83d\\ud83d\\ude00\"", "\"" BAD "\xF0\x9F\x98\x80\""},
        {"\"\\\\ud800\\ud800\"", "\"\\\\ud800" BAD "\""},
        {"[5,9223372036854775808]", "[5,9.223372036854776e18]"},
        {"[-18446744073709551616,\"12345678901234567890123\"]",
         "[-1.8446744073709552e19,\"12345678901234567890123\"]"},
    };

    (void)state;
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        check_round_trip(str_from(cases[i][0]), str_from(cases[i][1]));
    }
}

static void a_huge_integer_leaves_its_neighbours_alone(void **state)
{
    struct err e;
    const char text[] = "{\"small\":5,\"big\":123456789012345678901234567890}";
    json_t *v own_json = js_parse(text, sizeof(text) - 1, &e);

    (void)state;
    assert_non_null(v);
    assert_true(json_is_integer(js_get(v, "small")));
    assert_true(json_is_real(js_get(v, "big")));
    assert_true(fabs(json_real_value(js_get(v, "big")) / 1.2345678901234568e29 - 1) < 1e-12);
}

static void refuses_what_is_not_json(void **state)
{
    static const struct {
        const char *text, *word;
    } cases[] = {
        {"", "line 1, column 0"},
        {"{", "line 1, column 1"},
        {"{\n  \"a\": x\n}", "line 2, column 8"},
        {"[1,]", "column 4"},
        {"[1] 2", "column 5"},
        {"{\"a\":1e999}", "real number overflow"},
        {"{'a':1}", "not valid JSON"},
        {"\"a\nb\"", "not valid JSON"},
        {"[01]", "not valid JSON"},
        {"\"\\x\"", "not valid JSON"},
        {"\xFF", "not valid JSON"},
        {"{\"\\u0000\":1}", "not valid JSON"},
        {"\"\\ud8", "not valid JSON"},
        {"NaN", "not valid JSON"},
    };

    (void)state;
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        struct err e = {0};
        json_t *v own_json = js_parse(cases[i].text, strlen(cases[i].text), &e);

        assert_fails(v == NULL ? -1 : 0, &e, ERR_INVALID, cases[i].word);
        assert_true(utf8_valid(str_from(e.msg)));
        assert_false(str_has(str_from(e.msg), '\x1b'));
    }
}

static void bounds_the_depth(void **state)
{
    const size_t depth = 90000;
    char *text own_mem = xmalloc(2 * depth);
    struct err e;
    json_t *deep, *flat;

    (void)state;
    memset(text, '[', depth);
    memset(text + depth, ']', depth);
    deep = js_parse(text, 2 * depth, &e);
    assert_null(deep);
    assert_non_null(strstr(e.msg, "depth"));
    flat = js_parse(text + depth - 1000, 2000, &e);
    assert_non_null(flat);
    json_decref(flat);
}

static void bounds_the_number_of_values(void **state)
{
    const size_t len = 400000;
    char *text own_mem = xmalloc(len);
    struct err e;
    json_t *v;

    (void)state;
    for (size_t i = 0; i < len; i++) {
        text[i] = i % 2 == 0 ? '0' : ',';
    }
    text[0] = '[';
    text[len - 1] = ']';
    v = js_parse(text, len, &e);
    assert_null(v);
    assert_non_null(strstr(e.msg, "too much JSON"));
    /* In a string they are what they are. */
    text[0] = text[len - 1] = '"';
    text[2] = '\\';
    text[3] = '"';
    v = js_parse(text, len, &e);
    assert_true(json_is_string(v));
    json_decref(v);
}

static void parses_nothing(void **state)
{
    struct err e;
    json_t *v = js_parse(NULL, 0, &e);

    (void)state;
    assert_null(v);
    assert_int_equal(e.kind, ERR_INVALID);
}

static void escapes_what_ends_lines_or_is_not_seen(void **state)
{
    struct buf b own_buf = {.max = 1000};
    json_t *v own_json =
        json_pack("{s:s}", "k\xE2\x80\xA8",
                  "a\x7F\xC2\x85\xE2\x80\xA8\xE2\x80\xA9\xC2\x9B\xE2\x80\xAE\xF3\xA0\x81\x81"
                  "\xC3\xA9\xE2\x80\x8D\xF0\x9F\x98\x80");

    (void)state;
    buf_add(&b, S(">"));
    js_dump(v, &b);
    assert_str(buf_str(&b),
               S(">{\"k\\u2028\":\"a\\u007f\\u0085\\u2028\\u2029\\u009b\\u202e\\udb40\\udc41"
                 "\xC3\xA9\xE2\x80\x8D\xF0\x9F\x98\x80\"}"));
}

static void dumps_into_a_full_buffer(void **state)
{
    struct buf b own_buf = {.max = 4};
    json_t *v own_json = json_pack("[s]", "0123456789");

    (void)state;
    js_dump(v, &b);
    assert_true(b.cut);
    assert_str(buf_str(&b), S("[\"01"));
}

static void dumps_null_for_what_cannot_be_dumped(void **state)
{
    struct buf b own_buf = {.max = 100};
    json_t *loop = json_array();

    (void)state;
    js_dump(NULL, &b);
    assert_str(buf_str(&b), S("null"));
    assert_int_equal(json_array_append_new(loop, json_array()), 0);
    assert_int_equal(json_array_append(json_array_get(loop, 0), loop), 0);
    js_dump(loop, &b);
    assert_str(buf_str(&b), S("nullnull"));
    assert_int_equal(json_array_clear(json_array_get(loop, 0)), 0);
    json_decref(loop);
}

static void makes_strings_of_any_bytes(void **state)
{
    json_t *good own_json = js_string(S("a\0\xC3\xA9"));
    json_t *bad own_json = js_string(S("\xFFz"));
    json_t *none own_json = js_string(STR_EMPTY);
    json_t *number own_json = json_integer(1);

    (void)state;
    assert_str(js_str(good), S("a\0\xC3\xA9"));
    assert_str(js_str(bad), S(BAD "z"));
    assert_true(json_is_string(none));
    assert_str(js_str(none), S(""));
    assert_str(js_str(number), S(""));
    assert_str(js_str(NULL), S(""));
}

static void finds_members(void **state)
{
    json_t *v own_json = json_pack("{s:{s:{s:i}}, s:[]}", "a", "b", "c", 7, "list");

    (void)state;
    assert_int_equal(json_integer_value(js_path(v, "a", "b", "c", NULL)), 7);
    assert_null(js_path(v, "a", "x", "c", NULL));
    assert_null(js_path(v, "list", "x", NULL));
    assert_null(js_path(NULL, "a", NULL));
    assert_null(js_get(js_get(v, "list"), "x"));
    assert_non_null(js_get(v, "list"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parses_and_dumps),
        cmocka_unit_test(repairs_what_is_careless),
        cmocka_unit_test(a_huge_integer_leaves_its_neighbours_alone),
        cmocka_unit_test(refuses_what_is_not_json),
        cmocka_unit_test(bounds_the_depth),
        cmocka_unit_test(bounds_the_number_of_values),
        cmocka_unit_test(parses_nothing),
        cmocka_unit_test(escapes_what_ends_lines_or_is_not_seen),
        cmocka_unit_test(dumps_into_a_full_buffer),
        cmocka_unit_test(dumps_null_for_what_cannot_be_dumped),
        cmocka_unit_test(makes_strings_of_any_bytes),
        cmocka_unit_test(finds_members),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
