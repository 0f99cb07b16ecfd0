/* Calls under way: their answers, progress, cancellation and limits. */
#include "fake.h"

#define CALL(id, tool, arguments)                                                                  \
    "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"tools/call\",\"params\":{\"name\":\"" tool    \
    "\",\"arguments\":" arguments "}}"
#define CALL_TOKEN(id, tool, arguments, token)                                                     \
    "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"tools/call\",\"params\":{\"name\":\"" tool    \
    "\",\"arguments\":" arguments ",\"_meta\":{\"progressToken\":" token "}}}"
#define CANCEL(id)                                                                                 \
    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":" id    \
    ",\"reason\":\"because\"}}"
#define PING "{\"jsonrpc\":\"2.0\",\"id\":\"ping\",\"method\":\"ping\"}"

static void test_an_answer_has_one_text_block(void **state)
{
    struct fake f;

    (void)state;
    fake_init(&f, 4);
    fake_feed(&f, CALL("\"\\u0061\"", "exec_bash", "{\"text\":\"h\\u00e9\"}"));
    assert_string_equal(
        fake_message(&f, 0),
        "{\"jsonrpc\":\"2.0\",\"id\":\"\\u0061\",\"result\":{\"content\":[{\"type\":"
        "\"text\",\"text\":\"{\\\"text\\\":\\\"h\xc3\xa9\\\"}\"}]}}");
    assert_int_equal(f.kinds[0], SEND_ANSWER);
    fake_fini(&f);
}

static void test_a_modern_answer_says_who_and_that_it_is_complete(void **state)
{
    struct fake f;

    (void)state;
    fake_init(&f, 4);
    fake_feed(&f, "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"tools/call\",\"params\":{\"name\":"
                  "\"hidden\"," MODERN_META "}}");
    assert_has(fake_message(&f, 0), "{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{\"content\":[");
    assert_has(f.messages[0], "\"resultType\":\"complete\",\"_meta\":{\"io.modelcontextprotocol/"
                              "serverInfo\":{\"name\":\"anybox\",\"version\":\"");
    assert_lacks(f.messages[0], "isError");
    fake_fini(&f);
}

static void test_wrong_arguments_are_an_answer(void **state)
{
    static const char *const messages[] = {
        CALL("1", "quotes", "{\"count\":\"many\"}"),
        CALL("1", "quotes", "[]"),
        CALL("1", "quotes", "7"),
    };

    (void)state;
    for (size_t i = 0; i < COUNTOF(messages); i++) {
        struct fake f;
        char *text own_mem = NULL;
        bool is_error;

        fake_init(&f, 4);
        fake_feed(&f, messages[i]);
        text = fake_text(&f, 0, &is_error);
        assert_true(is_error);
        assert_has(text, "\"code\":\"invalid\"");
        fake_fini(&f);
    }
}

static void test_cancelling_ends_a_call_without_an_answer(void **state)
{
    struct fake f;

    (void)state;
    fake_init(&f, 4);
    fake_feed(&f, CALL("1", "wait", "{}"));
    fake_feed(&f, CALL("\"1\"", "wait", "{}"));
    fake_feed(&f, CANCEL("\"\\u0031\"")); /* the same string, written otherwise */
    fake_feed(&f, CANCEL("2"));
    fake_feed(&f, CANCEL("null"));
    fake_feed(&f, PING);
    assert_false(peer_wait(&f.peer, 50));
    fake_feed(&f, CANCEL("1"));
    assert_true(peer_wait(&f.peer, 5000));
    assert_int_equal(fake_count(&f), 1);
    assert_has(f.messages[0], "\"id\":\"ping\"");
    fake_fini(&f);
}

static void test_one_of_many_is_cancelled(void **state)
{
    struct fake f;
    bool is_error;
    char *text own_mem = NULL;

    (void)state;
    fake_init(&f, 4);
    fake_feed(&f, CALL("18446744073709551616", "wait", "{}"));
    fake_feed(&f, CALL("18446744073709551617", "work", "{\"count\":50}"));
    fake_feed(&f, CANCEL("18446744073709551616")); /* alike as floating point numbers */
    text = fake_text(&f, 0, &is_error);
    assert_string_equal(text, "true");
    assert_false(is_error);
    assert_true(peer_wait(&f.peer, 5000));
    assert_int_equal(fake_count(&f), 1);
    fake_fini(&f);
}

static void test_an_id_in_use_serves_both_and_cancels_both(void **state)
{
    struct fake f;

    (void)state;
    fake_init(&f, 4);
    fake_feed(&f, CALL("5", "wait", "{}"));
    fake_feed(&f, CALL("5", "exec_bash", "{}"));
    assert_has(fake_message(&f, 0), "\"id\":5");
    fake_feed(&f, CALL("5", "wait", "{}"));
    fake_feed(&f, CANCEL("5"));
    assert_true(peer_wait(&f.peer, 5000));
    assert_int_equal(fake_count(&f), 1);
    fake_fini(&f);
}

static void test_nothing_is_sent_after_a_cancellation_was_read(void **state)
{
    struct fake f;
    size_t n;

    (void)state;
    fake_init(&f, 8);
    for (int round = 0; round < 20; round++) {
        fake_feed(&f, CALL_TOKEN("7", "work", "{\"count\":1000}", "7"));
        fake_feed(&f, CANCEL("7"));
        n = fake_count(&f);
        assert_true(peer_wait(&f.peer, 5000));
        assert_int_equal(fake_count(&f), n);
    }
    fake_fini(&f);
}

static void test_leaving_cancels_and_answers(void **state)
{
    struct fake f;
    char *text own_mem = NULL;
    bool is_error;

    (void)state;
    fake_init(&f, 4);
    fake_feed(&f, CALL("1", "wait", "{}"));
    assert_true(peer_close(&f.peer, 5000));
    text = fake_text(&f, 0, &is_error);
    assert_true(is_error);
    assert_has(text, "\"code\":\"cancelled\"");
    fake_fini(&f);
}

static void test_progress_is_told_with_the_token_as_it_came(void **state)
{
    static const struct {
        const char *token;
        bool told;
    } rows[] = {
        {"0", true},
        {"-1", true},
        {"\"\"", true},
        {"\"\\u0061\"", true},
        {"123456789012345678901234567890", true},
        {"null", false},
        {"{}", false},
        {"1.5", false},
    };

    (void)state;
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        struct fake f;
        char call[512], want[256];

        fake_init(&f, 4);
        snprintf(call, sizeof(call), CALL_TOKEN("1", "work", "{\"count\":20}", "%s"),
                 rows[i].token);
        snprintf(want, sizeof(want),
                 "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{"
                 "\"progressToken\":%s,\"progress\":1,\"message\":\"line \\\"one\\\"\\u0001\"}}",
                 rows[i].token);
        fake_feed(&f, call);
        assert_true(peer_wait(&f.peer, 5000));
        assert_int_equal(fake_count(&f), rows[i].told ? 2 : 1);
        if (rows[i].told) {
            assert_string_equal(f.messages[0], want);
            assert_int_equal(f.kinds[0], SEND_NOTICE);
        }
        fake_fini(&f);
    }
}

static void test_progress_is_seldom_and_grows(void **state)
{
    struct fake f;

    (void)state;
    fake_init(&f, 4);
    fake_feed(&f, CALL_TOKEN("1", "work", "{\"count\":1200}", "0"));
    assert_true(peer_wait(&f.peer, 5000));
    assert_int_equal(fake_count(&f), 3);
    assert_has(f.messages[0], "\"progress\":1,");
    assert_has(f.messages[1], "\"progress\":2,");
    fake_fini(&f);
}

static void test_the_first_revision_knows_no_progress_message(void **state)
{
    struct fake f;

    (void)state;
    fake_init(&f, 4);
    fake_feed(&f, "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{"
                  "\"protocolVersion\":\"2024-11-05\"}}");
    fake_feed(&f, CALL_TOKEN("1", "work", "{\"count\":10}", "0"));
    assert_has(fake_message(&f, 1), "\"progressToken\":0,\"progress\":1}}");
    fake_fini(&f);
}

static void test_too_many_calls_are_told_the_limit(void **state)
{
    struct fake f;
    char *text own_mem = NULL;
    bool is_error;

    (void)state;
    fake_init(&f, 2);
    fake_feed(&f, CALL("1", "wait", "{}"));
    fake_feed(&f, CALL("2", "wait", "{}"));
    fake_feed(&f, CALL("3", "exec_bash", "{}"));
    text = fake_text(&f, 0, &is_error);
    assert_true(is_error);
    assert_has(text, "2 calls");
    assert_has(text, "\"code\":\"limit\"");
    assert_has(f.messages[0], "\"id\":3");
    fake_feed(&f, PING);
    assert_has(fake_message(&f, 1), "\"id\":\"ping\"");
    fake_fini(&f);
}

static void test_an_answer_that_grows_beyond_a_message_is_replaced(void **state)
{
    struct fake f;
    char *text own_mem = NULL;
    bool is_error;

    (void)state;
    fake_init(&f, 4);
    fake_feed(&f, CALL("1", "quotes", "{\"count\":400000}")); /* 1.6 MB when escaped twice */
    text = fake_text(&f, 0, &is_error);
    assert_true(is_error);
    assert_has(text, "1 MiB");
    fake_feed(&f, CALL("2", "quotes", "{\"count\":200000}"));
    assert_true(strlen(fake_message(&f, 1)) > 800000);
    assert_true(strlen(f.messages[1]) <= MCP_MESSAGE_MAX);
    assert_lacks(f.messages[1], "isError");
    fake_fini(&f);
}

static void test_a_batch_waits_for_its_calls(void **state)
{
    struct fake f;
    json_t *v own_json = NULL;

    (void)state;
    fake_init(&f, 4);
    fake_feed(&f,
              "[" CALL("1", "work", "{\"count\":30}") "," CALL(
                  "2", "exec_bash", "{}") "," PING "," CALL("3", "wait", "{}") "," CANCEL("3") "]");
    v = json_loads(fake_message(&f, 0), 0, NULL);
    assert_int_equal(json_array_size(v), 3);
    assert_true(peer_wait(&f.peer, 5000));
    assert_int_equal(fake_count(&f), 1);
    fake_fini(&f);
}

static void test_a_batch_whose_calls_are_all_cancelled_is_not_answered(void **state)
{
    struct fake f;

    (void)state;
    fake_init(&f, 4);
    fake_feed(&f, "[" CALL("1", "wait", "{}") "," CALL("2", "wait", "{}") "]");
    fake_feed(&f, CANCEL("1"));
    fake_feed(&f, CANCEL("2"));
    assert_true(peer_wait(&f.peer, 5000));
    assert_int_equal(fake_count(&f), 0);
    fake_fini(&f);
}

static void test_a_batch_of_big_answers_stays_one_message(void **state)
{
    struct fake f;
    json_t *v own_json = NULL;
    size_t errors = 0;

    (void)state;
    fake_init(&f, 8);
    fake_feed(&f, "[" CALL("1", "quotes", "{\"count\":150000}") "," CALL(
                      "2", "quotes", "{\"count\":150000}") "," CALL("3", "quotes",
                                                                    "{\"count\":150000}") "]");
    v = json_loads(fake_message(&f, 0), 0, NULL);
    assert_int_equal(json_array_size(v), 3);
    assert_true(strlen(f.messages[0]) <= MCP_MESSAGE_MAX);
    for (size_t i = 0; i < 3; i++) {
        errors += js_get(json_array_get(v, i), "error") != NULL;
    }
    assert_int_equal(errors, 2);
    fake_fini(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_answer_has_one_text_block),
        cmocka_unit_test(test_a_modern_answer_says_who_and_that_it_is_complete),
        cmocka_unit_test(test_wrong_arguments_are_an_answer),
        cmocka_unit_test(test_cancelling_ends_a_call_without_an_answer),
        cmocka_unit_test(test_one_of_many_is_cancelled),
        cmocka_unit_test(test_an_id_in_use_serves_both_and_cancels_both),
        cmocka_unit_test(test_nothing_is_sent_after_a_cancellation_was_read),
        cmocka_unit_test(test_leaving_cancels_and_answers),
        cmocka_unit_test(test_progress_is_told_with_the_token_as_it_came),
        cmocka_unit_test(test_progress_is_seldom_and_grows),
        cmocka_unit_test(test_the_first_revision_knows_no_progress_message),
        cmocka_unit_test(test_too_many_calls_are_told_the_limit),
        cmocka_unit_test(test_an_answer_that_grows_beyond_a_message_is_replaced),
        cmocka_unit_test(test_a_batch_waits_for_its_calls),
        cmocka_unit_test(test_a_batch_whose_calls_are_all_cancelled_is_not_answered),
        cmocka_unit_test(test_a_batch_of_big_answers_stays_one_message),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
