#include "base/attr.h"
#include "json/js.h"
#include "mcp/rpc.h"
#include "test.h"

#define CLAIM "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":"

static void test_messages_are_told_apart(void **state)
{
    static const struct {
        const char *text;
        enum rpc_kind kind;
        const char *raw_id; /* "" for none */
        bool claims;
    } rows[] = {
        {"{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"ping\"}", RPC_REQUEST, "0", false},
        {"{\"jsonrpc\":\"2.0\",\"id\":-7,\"method\":\"ping\"}", RPC_REQUEST, "-7", false},
        {"{\"jsonrpc\":\"2.0\",\"id\":\"\",\"method\":\"ping\"}", RPC_REQUEST, "\"\"", false},
        {"{\"id\" : \"a\\u0031\\/\" ,\"jsonrpc\":\"2.0\",\"method\":\"x\"}", RPC_REQUEST,
         "\"a\\u0031\\/\"", false},
        {"{\"jsonrpc\":\"2.0\",\"id\":123456789012345678901234567890,\"method\":\"x\"}",
         RPC_REQUEST, "123456789012345678901234567890", false},
        {"{\"jsonrpc\":\"2.0\",\"id\":-9223372036854775809,\"method\":\"x\"}", RPC_REQUEST,
         "-9223372036854775809", false},
        {"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}", RPC_NOTIFICATION, "", false},
        {"{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{}}", RPC_RESPONSE, "3", false},
        {"{\"jsonrpc\":\"2.0\",\"error\":{\"code\":1}}", RPC_RESPONSE, "", false},
        {"{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":1}}", RPC_RESPONSE, "", false},
        {"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}", RPC_BAD, "", false},
        {"{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}", RPC_BAD, "", false},
        {"{\"jsonrpc\":\"2.0\",\"id\":1e3,\"method\":\"ping\"}", RPC_BAD, "", false},
        {"{\"jsonrpc\":\"2.0\",\"id\":\"\xc3\",\"method\":\"ping\"}", RPC_BAD, "", false},
        {"{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}", RPC_BAD, "", false},
        {"{\"jsonrpc\":\"2.0\",\"id\":[1],\"method\":\"ping\"}", RPC_BAD, "", false},
        {"{\"jsonrpc\":\"2.0\",\"id\":true,\"method\":\"ping\"}", RPC_BAD, "", false},
        {"{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":7}", RPC_BAD, "4", false},
        {"{\"jsonrpc\":\"2.0\",\"id\":5}", RPC_BAD, "5", false},
        {"{\"jsonrpc\":\"1.0\",\"id\":6,\"method\":\"ping\"}", RPC_BAD, "6", false},
        {"{\"jsonrpc\":2.0,\"id\":7,\"method\":\"ping\"}", RPC_BAD, "7", false},
        {"{\"id\":8,\"method\":\"ping\"}", RPC_BAD, "8", false},
        {"{}", RPC_BAD, "", false},
        {"7", RPC_BAD, "", false},
        {"\"ping\"", RPC_BAD, "", false},
        {"null", RPC_BAD, "", false},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\",\"params\":{" CLAIM "\"2026-07-28\"}}}",
         RPC_REQUEST, "1", true},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\",\"params\":{" CLAIM "7}}}", RPC_REQUEST,
         "1", true},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\",\"params\":{\"_meta\":[]}}", RPC_REQUEST,
         "1", false},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\",\"params\":[]}", RPC_REQUEST, "1", false},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":2,\"method\":\"x\"}", RPC_REQUEST, "2", false},
    };

    (void)state;
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        struct err e;
        size_t len = strlen(rows[i].text);
        char *text = strdup(rows[i].text);
        json_t *v own_json = js_parse(text, len, &e);
        struct rpc_msg msg;

        assert_non_null(v);
        rpc_classify(v, (struct str){text, len}, &msg);
        if (msg.kind != rows[i].kind || (msg.claim != NULL) != rows[i].claims) {
            fail_msg("%s: kind %d, claim %d", rows[i].text, (int)msg.kind, msg.claim != NULL);
        }
        assert_str(msg.raw_id, str_from(rows[i].raw_id));
        assert_true((msg.problem != NULL) == (msg.kind == RPC_BAD));
        free(text);
    }
}

static void test_an_id_that_is_too_long_is_refused(void **state)
{
    char text[RPC_ID_MAX + 128];
    char id[RPC_ID_MAX + 1];
    struct rpc_msg msg;
    struct err e;

    (void)state;
    memset(id, '9', RPC_ID_MAX);
    id[RPC_ID_MAX] = '\0';
    for (int extra = 0; extra < 2; extra++) {
        int len = snprintf(text, sizeof(text),
                           "{\"jsonrpc\":\"2.0\",\"id\":\"%s\",\"method\":\"x\"}", id + 2 - extra);
        json_t *v own_json = js_parse(text, (size_t)len, &e);

        assert_non_null(v);
        rpc_classify(v, (struct str){text, (size_t)len}, &msg);
        assert_int_equal(msg.kind, extra == 0 ? RPC_REQUEST : RPC_BAD);
        assert_int_equal(msg.raw_id.len, extra == 0 ? RPC_ID_MAX : 0);
    }
}

static void test_null_params_are_absent(void **state)
{
    char text[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\",\"params\":null}";
    struct err e;
    json_t *v own_json = js_parse(text, sizeof(text) - 1, &e);
    struct rpc_msg msg;

    (void)state;
    rpc_classify(v, S(""), &msg);
    assert_null(msg.params);
}

static void test_envelopes(void **state)
{
    struct buf out own_buf = {0};

    (void)state;
    buf_init(&out, 4096);
    rpc_begin_result(&out, S("\"\\u0061\""));
    buf_add(&out, S("{}}"));
    assert_str(buf_str(&out), S("{\"jsonrpc\":\"2.0\",\"id\":\"\\u0061\",\"result\":{}}"));
    buf_clear(&out);
    rpc_add_error(&out, STR_EMPTY, RPC_PARSE_ERROR, S("a \"b\""), STR_EMPTY);
    assert_str(buf_str(&out),
               S("{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32700,\"message\":\"a \\\"b\\\"\"}}"));
    buf_clear(&out);
    rpc_add_error(&out, S("0"), RPC_UNSUPPORTED_VERSION, S("m"), S("{\"x\":1}"));
    assert_str(buf_str(&out),
               S("{\"jsonrpc\":\"2.0\",\"id\":0,\"error\":{\"code\":-32022,\"message\":"
                 "\"m\",\"data\":{\"x\":1}}}"));
}

static void test_an_error_is_known_by_its_id(void **state)
{
    struct buf out own_buf = {0};

    (void)state;
    buf_init(&out, 4096);
    rpc_add_error(&out, S("\"a\""), RPC_MISSING_CAPABILITY, S("m"), STR_EMPTY);
    assert_int_equal(rpc_error_code(buf_str(&out), S("\"a\"")), RPC_MISSING_CAPABILITY);
    assert_int_equal(rpc_error_code(buf_str(&out), S("\"b\"")), 0);
    assert_int_equal(rpc_error_code(buf_str(&out), STR_EMPTY), 0);
    buf_clear(&out);
    rpc_add_error(&out, STR_EMPTY, RPC_PARSE_ERROR, S("m"), STR_EMPTY);
    assert_int_equal(rpc_error_code(buf_str(&out), STR_EMPTY), RPC_PARSE_ERROR);
    buf_clear(&out);
    rpc_begin_result(&out, S("1"));
    buf_add(&out, S("{\"error\":{\"code\":-32601}}}"));
    assert_int_equal(rpc_error_code(buf_str(&out), S("1")), 0);
    assert_int_equal(rpc_error_code(STR_EMPTY, S("1")), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages_are_told_apart),
        cmocka_unit_test(test_an_id_that_is_too_long_is_refused),
        cmocka_unit_test(test_null_params_are_absent),
        cmocka_unit_test(test_envelopes),
        cmocka_unit_test(test_an_error_is_known_by_its_id),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
