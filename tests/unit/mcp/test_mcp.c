/* One message in, one message out: what each kind of request is answered. */
#include "fake.h"

/* Feeds one message to a new peer that spoke `first` before, and compares the answer
 * with what it must contain; NULL: there is no answer. */
static void expect(const char *first, const char *message, const char *part)
{
    struct fake f;
    size_t before;

    fake_init(&f, 4);
    if (first != NULL) {
        fake_feed(&f, first);
    }
    before = fake_count(&f);
    fake_feed(&f, message);
    if (part != NULL) {
        assert_has(fake_message(&f, before), part);
    } else if (fake_count(&f) != before) {
        fail_msg("%s was answered: %s", message, f.messages[before]);
    }
    fake_fini(&f);
}

#define INIT(version)                                                                                    \
    "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"" version \
    "\",\"capabilities\":{},\"clientInfo\":{\"name\":\"t\",\"version\":\"0\"}}}"
#define REQUEST(method, params)                                                                    \
    "{\"jsonrpc\":\"2.0\",\"id\":\"r\",\"method\":\"" method "\",\"params\":" params "}"
#define MODERN(method, more) REQUEST(method, "{" more MODERN_META "}")
#define ERROR(code)          "{\"jsonrpc\":\"2.0\",\"id\":\"r\",\"error\":{\"code\":" code ","
#define ERROR_NO_ID(code)    "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":" code ","

static void test_legacy_requests(void **state)
{
    static const struct {
        const char *message, *part;
    } rows[] = {
        {REQUEST("ping", "{}"), "{\"jsonrpc\":\"2.0\",\"id\":\"r\",\"result\":{}}"},
        {"{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"ping\"}",
         "{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{}}"},
        {INIT("2025-03-26"), "\"protocolVersion\":\"2025-03-26\""},
        {INIT("2099-01-01"), "\"protocolVersion\":\"2025-11-25\""},
        {REQUEST("initialize", "{\"protocolVersion\":7}"), "\"protocolVersion\":\"2025-11-25\""},
        {REQUEST("initialize", "[]"), ERROR("-32602")},
        {REQUEST("tools/list", "{}"), "\"result\":{\"tools\":[{\"name\":\"exec_bash\""},
        {REQUEST("tools/list", "{\"cursor\":null}"), "\"tools\":["},
        {REQUEST("tools/list", "{\"cursor\":\"\"}"), "\"tools\":["},
        {REQUEST("tools/list", "{\"cursor\":\"x\"}"), ERROR("-32602")},
        {REQUEST("tools/list", "{\"cursor\":1}"), ERROR("-32602")},
        {REQUEST("tools/list", "[]"), ERROR("-32602")},
        {REQUEST("tools/call", "{}"), ERROR("-32602")},
        {REQUEST("tools/call", "{\"name\":7}"), ERROR("-32602")},
        {REQUEST("tools/call", "{\"name\":\"no\\\"pe\"}"), "no tool \\\"no\\\"pe\\\"; tools/list"},
        {REQUEST("resources/nothing", "{}"), ERROR("-32601")},
        {REQUEST("logging/setLevel", "{}"), ERROR("-32601")},
        {REQUEST("", "{}"), ERROR("-32601")},
        {REQUEST("server/discover", "{}"), ERROR("-32602")},
        {"{\"jsonrpc\":\"2.0\",\"id\":\"r\",\"method\":\"server/discover\"}", ERROR("-32602")},
        {"{\"id\":\"r\",\"method\":\"ping\"}", ERROR("-32600")},
        {"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}", ERROR_NO_ID("-32600")},
        {"{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}", ERROR_NO_ID("-32600")},
        {"7", ERROR_NO_ID("-32600")},
        {"{\"jsonrpc\":", ERROR_NO_ID("-32700")},
        {"hello", ERROR_NO_ID("-32700")},
        {"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}", NULL},
        {"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/what\",\"params\":[]}", NULL},
        {"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\"}", NULL},
        {"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":9}}",
         NULL},
        {"{\"jsonrpc\":\"2.0\",\"id\":9,\"result\":{}}", NULL},
        {"{\"jsonrpc\":\"2.0\",\"id\":9,\"error\":{\"code\":1,\"message\":\"\"}}", NULL},
    };

    (void)state;
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        expect(NULL, rows[i].message, rows[i].part);
    }
}

static void test_modern_requests(void **state)
{
#define META(version, rest)                                                                        \
    "{\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":" version rest "}}"
#define CAPABILITIES ",\"io.modelcontextprotocol/clientCapabilities\":{}"
#define LEVEL        ",\"io.modelcontextprotocol/logLevel\":"
    static const struct {
        const char *message, *part;
    } rows[] = {
        {MODERN("server/discover", ""), "\"supportedVersions\":[\"2026-07-28\",\"2025-11-25\","},
        {MODERN("server/discover", ""), "\"resultType\":\"complete\""},
        {MODERN("tools/list", ""), "\"ttlMs\":300000,\"cacheScope\":\"public\""},
        {MODERN("tools/call", "\"name\":\"no\","), ERROR("-32602")},
        {MODERN("initialize", ""), ERROR("-32601")},
        {MODERN("ping", ""), ERROR("-32601")},
        {MODERN("what", ""), ERROR("-32601")},
        {MODERN("subscriptions/listen", ""), ERROR("-32602")},
        {REQUEST("tools/list", META("\"2026-07-28\"", "")), ERROR("-32602")},
        {REQUEST("tools/list", META("7", CAPABILITIES)), ERROR("-32602")},
        {REQUEST("tools/list", META("null", CAPABILITIES)), ERROR("-32602")},
        {REQUEST("tools/list", META("\"v9\"", CAPABILITIES)), ERROR("-32022")},
        {REQUEST("tools/list", META("\"v9\"", CAPABILITIES)), "\"requested\":\"v9\"}"},
        {REQUEST("tools/list", META("\"2025-11-25\"", CAPABILITIES)),
         "\"data\":{\"supported\":[\"2026-07-28\","},
        {REQUEST("what", META("\"v9\"", CAPABILITIES)), ERROR("-32022")},
        {REQUEST("initialize", META("\"v9\"", CAPABILITIES)), "\"protocolVersion\":\"2025-11-25\""},
        {REQUEST("tools/list", META("\"2026-07-28\"", CAPABILITIES LEVEL "\"loud\"")),
         ERROR("-32602")},
        {REQUEST("tools/list", META("\"2026-07-28\"", CAPABILITIES LEVEL "\"alert\"")),
         "\"tools\":["},
    };

    (void)state;
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        expect(NULL, rows[i].message, rows[i].part);
        /* What was agreed on before makes no difference. */
        expect(INIT("2024-11-05"), rows[i].message, rows[i].part);
    }
}

static void test_modern_requests_leave_no_trace(void **state)
{
    struct fake f;

    (void)state;
    fake_init(&f, 4);
    fake_feed(&f, INIT("2024-11-05"));
    fake_feed(&f, MODERN("tools/list", ""));
    fake_feed(&f, REQUEST("tools/list", "{}"));
    assert_has(fake_message(&f, 1), "annotations");
    assert_lacks(fake_message(&f, 2), "annotations");
    assert_lacks(fake_message(&f, 2), "resultType");
    fake_fini(&f);
}

static void test_initialize_may_be_repeated(void **state)
{
    struct fake f;

    (void)state;
    fake_init(&f, 4);
    fake_feed(&f, INIT("2024-11-05"));
    fake_feed(&f, INIT("2025-06-18"));
    fake_feed(&f, REQUEST("tools/list", "{}"));
    assert_has(fake_message(&f, 0),
               "\"capabilities\":{\"tools\":{},\"prompts\":{},\"resources\":{\"subscribe\":true}}");
    assert_lacks(fake_message(&f, 0), "\"title\"");
    assert_has(fake_message(&f, 1), "\"serverInfo\":{\"name\":\"anybox\",\"title\":");
    assert_has(fake_message(&f, 2), "\"title\":\"Title of exec_bash\"");
    fake_fini(&f);
}

static void test_instructions_are_short(void **state)
{
    struct fake f;
    json_t *v own_json = NULL;
    const char *text;

    (void)state;
    fake_init(&f, 4);
    fake_feed(&f, INIT("2025-11-25"));
    v = json_loads(fake_message(&f, 0), 0, NULL);
    text = json_string_value(js_path(v, "result", "instructions", NULL));
    assert_non_null(text);
    assert_true(strlen(text) <= 800);
    assert_has(text, "exec_bash");
    assert_has(text, "/workspace");
    assert_has(text, "no network");
    assert_has(text, "30 minutes");
    fake_fini(&f);
}

static void test_lists_by_revision(void **state)
{
    static const struct {
        const char *init;
        bool annotations, titles;
    } rows[] = {
        {INIT("2024-11-05"), false, false},
        {INIT("2025-03-26"), true, false},
        {INIT("2025-06-18"), true, true},
        {INIT("2025-11-25"), true, true},
    };

    (void)state;
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        struct fake f;
        json_t *v own_json = NULL;
        const json_t *tool;

        fake_init(&f, 4);
        fake_feed(&f, rows[i].init);
        fake_feed(&f, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}");
        v = json_loads(fake_message(&f, 1), 0, NULL);
        assert_int_equal(json_array_size(js_path(v, "result", "tools", NULL)),
                         4); /* one is hidden */
        assert_int_equal(json_object_size(js_get(v, "result")), 1);
        tool = json_array_get(js_path(v, "result", "tools", NULL), 0);
        assert_string_equal(json_string_value(js_get(tool, "name")), "exec_bash");
        assert_string_equal(json_string_value(js_get(tool, "description")), "Does exec_bash.");
        assert_string_equal(json_string_value(js_path(tool, "inputSchema", "type", NULL)),
                            "object");
        assert_int_equal(js_get(tool, "title") != NULL, rows[i].titles);
        assert_int_equal(js_path(tool, "_meta", "anthropic/alwaysLoad", NULL) != NULL,
                         rows[i].titles);
        assert_int_equal(js_get(tool, "annotations") != NULL, rows[i].annotations);
        if (rows[i].annotations) {
            assert_has(f.messages[1],
                       "{\"readOnlyHint\":false,\"destructiveHint\":true,\"idempotentHint\":false,"
                       "\"openWorldHint\":true}");
            assert_has(f.messages[1],
                       "{\"readOnlyHint\":true,\"destructiveHint\":false,\"idempotentHint\":true,"
                       "\"openWorldHint\":false}");
        }
        tool = json_array_get(js_path(v, "result", "tools", NULL), 1);
        assert_null(js_get(tool, "_meta"));
        fake_fini(&f);
    }
}

static void test_a_subscription_is_acknowledged_and_closed(void **state)
{
    struct fake f;

    (void)state;
    fake_init(&f, 4);
    fake_feed(&f, "{\"jsonrpc\":\"2.0\",\"id\":\"\\u0061:0\",\"method\":\"subscriptions/listen\","
                  "\"params\":{\"notifications\":{\"toolsListChanged\":true}," MODERN_META "}}");
    assert_int_equal(fake_count(&f), 3);
    assert_string_equal(
        f.messages[0],
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\",\"params\":{"
        "\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":\"\\u0061:0\"},\"notifications\":{}}}");
    assert_string_equal(
        f.messages[1],
        "{\"jsonrpc\":\"2.0\",\"id\":\"\\u0061:0\",\"result\":{\"resultType\":\"complete\",\"_meta\":{"
        "\"io.modelcontextprotocol/subscriptionId\":\"\\u0061:0\"}}}");
    assert_has(f.messages[2], "\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":"
                              "\"\\u0061:0\"");
    fake_fini(&f);
}

static void test_batches(void **state)
{
    static const struct {
        const char *init, *message, *answer; /* NULL: none */
    } rows[] = {
        {NULL, "[]", ERROR_NO_ID("-32600")},
        {INIT("2025-06-18"), "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]",
         ERROR_NO_ID("-32600")},
        {INIT("2025-11-25"), "[]", ERROR_NO_ID("-32600")},
        {INIT("2024-11-05"), "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]",
         "[{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}]"},
        {NULL,
         "[ {\"jsonrpc\":\"2.0\",\"id\":\"\\u0061\",\"method\":\"ping\"} , 7,"
         "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"},"
         "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}]",
         "[{\"jsonrpc\":\"2.0\",\"id\":\"\\u0061\",\"result\":{}},{\"jsonrpc\":\"2.0\",\"error\":{"
         "\"code\":-32600,\"message\":\"A message must be a JSON object.\"}},"
         "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}]"},
        {NULL, "[{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}]", NULL},
        {NULL, "[{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}]", NULL},
        {NULL, "[" INIT("2025-03-26") "]",
         "[{\"jsonrpc\":\"2.0\",\"id\":0,\"error\":{\"code\":-32600,"},
        {NULL,
         "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}," MODERN("server/discover", "") "]",
         ERROR_NO_ID("-32600")},
    };

    (void)state;
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        expect(rows[i].init, rows[i].message, rows[i].answer);
    }
}

static void test_a_batch_has_a_limit(void **state)
{
    struct fake f;

    (void)state;
    for (unsigned n = MCP_BATCH_MAX; n <= MCP_BATCH_MAX + 1; n++) {
        struct buf text own_buf = {0};
        json_t *v own_json = NULL;

        fake_init(&f, 4);
        buf_init(&text, 1 << 20);
        for (unsigned i = 0; i < n; i++) {
            buf_addf(&text, "%c{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"ping\"}", i ? ',' : '[',
                     i);
        }
        buf_addc(&text, ']');
        fake_feed(&f, text.p);
        v = json_loads(fake_message(&f, 0), 0, NULL);
        assert_int_equal(json_array_size(v), n <= MCP_BATCH_MAX ? n : 0);
        assert_int_equal(fake_count(&f), 1);
        fake_fini(&f);
    }
}

static void test_a_line_that_was_too_long(void **state)
{
    struct fake f;

    (void)state;
    fake_init(&f, 4);
    mcp_feed_too_long(&f.peer);
    assert_has(fake_message(&f, 0), ERROR_NO_ID("-32600"));
    fake_fini(&f);
}

static void test_errors_repeat_a_bounded_part_of_what_was_asked(void **state)
{
    struct fake f;
    struct buf text own_buf = {0};

    (void)state;
    fake_init(&f, 4);
    buf_init(&text, 1 << 20);
    buf_add(&text, S("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\""));
    for (int i = 0; i < 50000; i++) {
        buf_add(&text, S("\xc3\xa9"));
    }
    buf_add(&text, S("\"}"));
    fake_feed(&f, text.p);
    assert_has(fake_message(&f, 0), "\"code\":-32601");
    assert_true(strlen(f.messages[0]) < 1000);
    fake_fini(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_legacy_requests),
        cmocka_unit_test(test_modern_requests),
        cmocka_unit_test(test_modern_requests_leave_no_trace),
        cmocka_unit_test(test_initialize_may_be_repeated),
        cmocka_unit_test(test_instructions_are_short),
        cmocka_unit_test(test_lists_by_revision),
        cmocka_unit_test(test_a_subscription_is_acknowledged_and_closed),
        cmocka_unit_test(test_batches),
        cmocka_unit_test(test_a_batch_has_a_limit),
        cmocka_unit_test(test_a_line_that_was_too_long),
        cmocka_unit_test(test_errors_repeat_a_bounded_part_of_what_was_asked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
