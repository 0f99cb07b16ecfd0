/* test_ask.c - questions to the client, in both eras, without a transport. */
#include <fcntl.h>
#include <stdlib.h>

#include "base/fd.h"
#include "core/token.h"
#include "fake.h"

#define INIT(version, capabilities)                                                                \
    "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"     \
    "\"" version "\",\"capabilities\":" capabilities "}}"
#define CALL(id, arguments)                                                                        \
    "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"tools/call\",\"params\":{\"name\":\"ask\","   \
    "\"arguments\":" arguments "}}"
#define CANCEL(id)                                                                                 \
    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":" id "}}"
#define ELICITS "{\"elicitation\":{}}"

struct world {
    struct fake f;
    char dir[40];
};

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));

    (void)snprintf(w->dir, sizeof(w->dir), "/tmp/anybox-ask-XXXXXX");
    assert_non_null(mkdtemp(w->dir));
    fake_init(&w->f, 4);
    w->f.services.tokens = tokens_new(str_from(w->dir));
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    struct err e;
    int failed;

    fake_fini(&w->f);
    tokens_free(w->f.services.tokens);
    failed = fd_remove_tree(AT_FDCWD, w->dir, &e);
    free(w);
    return failed;
}

static json_t *message(struct fake *f, size_t i)
{
    const char *text = fake_message(f, i);
    struct err e;
    json_t *v = js_parse(text, strlen(text), &e);

    assert_non_null(v);
    return v;
}

static void expect_text(struct fake *f, size_t i, const char *want)
{
    bool is_error;
    char *text own_mem = fake_text(f, i, &is_error);

    assert_string_equal(text, want);
}

/* Answers the question that is message i. */
static void answer(struct fake *f, struct peer *by, size_t i, const char *rest)
{
    json_t *question own_json = message(f, i);
    struct buf out own_buf = {.max = 4096};

    assert_int_equal(f->kinds[i], SEND_MESSAGE);
    assert_string_equal(json_string_value(js_get(question, "method")), "elicitation/create");
    assert_int_equal(json_string_length(js_get(question, "id")), 32);
    buf_addf(&out, "{\"jsonrpc\":\"2.0\",\"id\":\"%s\",%s}",
             json_string_value(js_get(question, "id")), rest);
    mcp_feed(by, out.p, out.len);
}

static void a_legacy_question_is_a_request_and_its_answer_goes_on(void **state)
{
    struct fake *f = &((struct world *)*state)->f;

    fake_feed(f, INIT("2025-06-18", ELICITS));
    fake_feed(f, CALL("7", "{\"count\":2}"));
    answer(f, &f->peer, 1, "\"result\":{\"action\":\"accept\"}");
    answer(f, &f->peer, 2, "\"result\":{\"action\":\"decline\"}");
    assert_has(fake_message(f, 3), "\"id\":7,");
    expect_text(f, 3, "[\"accept\",\"decline\"]");
}

static void what_is_no_answer_counts_as_none(void **state)
{
    static const char *const rests[] = {
        "\"error\":{\"code\":-1,\"message\":\"no\"}",
        "\"result\":{}",
        "\"result\":{\"action\":\"maybe\"}",
        "\"result\":null",
        "\"result\":[{\"action\":\"accept\"}]",
        "\"result\":\"accept\"",
        "\"result\":null,\"error\":{\"action\":\"accept\"}",
    };
    struct fake *f = &((struct world *)*state)->f;

    fake_feed(f, INIT("2025-11-25", ELICITS));
    for (size_t i = 0; i < COUNTOF(rests); i++) {
        fake_feed(f, CALL("7", "{\"count\":1}"));
        answer(f, &f->peer, 1 + 2 * i, rests[i]);
        expect_text(f, 2 + 2 * i, "[\"nothing\"]");
    }
}

static void only_its_owner_answers_a_question_by_any_connection(void **state)
{
    struct fake *f = &((struct world *)*state)->f;
    struct scope theirs;
    struct scope ours;
    struct peer stranger;
    struct peer other;

    scope_init(&theirs, S("b"), STR_EMPTY);
    scope_init(&ours, STR_EMPTY, STR_EMPTY);
    peer_init(&stranger, &fake_ops, f->peer.mcp, &theirs);
    peer_init(&other, &fake_ops, f->peer.mcp, &ours);
    fake_feed(f, INIT("2025-11-25", ELICITS));
    fake_feed(f, CALL("7", "{\"count\":1}"));
    answer(f, &stranger, 1, "\"result\":{\"action\":\"accept\"}");
    assert_false(peer_wait(&f->peer, 30));
    answer(f, &other, 1, "\"result\":{\"action\":\"decline\"}");
    expect_text(f, 2, "[\"decline\"]");
    answer(f, &other, 1, "\"result\":{\"action\":\"accept\"}"); /* late: nothing happens */
    peer_fini(&stranger);
    peer_fini(&other);
    scope_fini(&theirs);
    scope_fini(&ours);
}

static void a_call_that_is_taken_back_stops_asking(void **state)
{
    struct fake *f = &((struct world *)*state)->f;

    fake_feed(f, INIT("2025-11-25", ELICITS));
    fake_feed(f, CALL("7", "{\"count\":1}"));
    (void)fake_message(f, 1);
    fake_feed(f, CANCEL("7"));
    assert_true(peer_wait(&f->peer, 5000));
    answer(f, &f->peer, 1, "\"result\":{\"action\":\"accept\"}");
    assert_int_equal(fake_count(f), 2);
}

static void who_cannot_answer_is_not_asked(void **state)
{
    static const char *const greetings[] = {
        INIT("2025-11-25", "{}"),    INIT("2025-11-25", "{\"elicitation\":{\"url\":{}}}"),
        INIT("2025-03-26", ELICITS), INIT("2024-11-05", ELICITS),
        INIT("2025-11-25", ELICITS), INIT("2025-06-18", "7"),
    };
    struct fake *f = &((struct world *)*state)->f;
    bool is_error = false;

    for (size_t i = 0; i < COUNTOF(greetings); i++) {
        fake_feed(f, greetings[i]);
        if (i == 4) { /* by a transport that carries no questions */
            peer_set_legacy(&f->peer, f->peer.legacy, 0);
        }
        fake_feed(f, CALL("7", "{\"count\":1}"));
        free(fake_text(f, 2 * i + 1, &is_error));
        assert_true(is_error);
        assert_has(f->messages[2 * i + 1], "unsupported");
        assert_int_equal(f->kinds[2 * i + 1], SEND_ANSWER);
    }
}

/* ---- 2026-07-28 ---------------------------------------------------------------------------- */

#define MODERN_CALL                                                                                \
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"ask\","        \
    "\"arguments\":%s,\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","      \
    "\"io.modelcontextprotocol/clientCapabilities\":{\"elicitation\":{}}}%s%s%s%s}}"

/* Calls with the answers and the state of message `from` (none: -1); gives the answer. */
static json_t *call_again(struct fake *f, const char *arguments, int from, const char *answers)
{
    size_t at = fake_count(f);
    struct buf out own_buf = {.max = 8192};
    json_t *before own_json = from >= 0 ? message(f, (size_t)from) : NULL;
    const char *token = json_string_value(js_path(before, "result", "requestState", NULL));

    buf_addf(&out, MODERN_CALL, arguments, answers != NULL ? ",\"inputResponses\":" : "",
             answers != NULL ? answers : "", token != NULL ? ",\"requestState\":\"" : "",
             token != NULL ? token : "");
    if (token != NULL) { /* the text ends with "}}": the quote goes before them */
        out.len -= 2;
        buf_add(&out, S("\"}}"));
    }
    mcp_feed(&f->peer, out.p, out.len);
    return message(f, at);
}

static bool asks(const json_t *m, const char *key)
{
    const json_t *result = js_get(m, "result");

    return str_eq(js_str(js_get(result, "resultType")), S("input_required")) &&
           json_object_size(js_get(result, "inputRequests")) == 1 &&
           js_path(result, "inputRequests", key, "params", NULL) != NULL;
}

static void one_question_after_the_other_needs_no_memory_of_ours(void **state)
{
    struct fake *f = &((struct world *)*state)->f;
    json_t *first own_json = call_again(f, "{\"count\":3}", -1, NULL);
    json_t *second own_json =
        call_again(f, "{\"count\":3}", 0, "{\"one\":{\"action\":\"accept\"}}");
    json_t *third own_json = call_again(f, "{\"count\":3}", 1, "{\"two\":{\"action\":\"cancel\"}}");
    json_t *last own_json =
        call_again(f, "{\"count\":3}", 2, "{\"three\":{\"action\":\"decline\"}}");

    assert_true(asks(first, "one"));
    assert_true(asks(second, "two"));
    assert_true(asks(third, "three"));
    assert_non_null(last);
    expect_text(f, 3, "[\"accept\",\"cancel\",\"decline\"]");
    assert_has(f->messages[3], "\"resultType\":\"complete\"");
    assert_true(peer_wait(&f->peer, 5000));
}

static void an_answer_about_something_else_is_asked_for_again(void **state)
{
    struct fake *f = &((struct world *)*state)->f;
    json_t *first own_json = call_again(f, "{\"count\":1,\"text\":\"box\"}", -1, NULL);
    json_t *unasked own_json =
        call_again(f, "{\"count\":1,\"text\":\"box\"}", -1, "{\"one\":{\"action\":\"accept\"}}");
    json_t *empty own_json = call_again(f, "{\"count\":1,\"text\":\"box\"}", 0, "{}");
    json_t *other own_json =
        call_again(f, "{\"count\":1,\"text\":\"fox\"}", 0, "{\"one\":{\"action\":\"accept\"}}");

    assert_true(asks(first, "one"));
    assert_true(asks(unasked, "one"));
    assert_true(asks(empty, "one"));
    assert_int_equal(json_integer_value(js_path(other, "error", "code", NULL)), -32602);
    json_decref(
        call_again(f, "{\"count\":1,\"text\":\"box\"}", 0, "{\"one\":{\"action\":\"accept\"}}"));
    expect_text(f, 4, "[\"accept\"]");
}

static void what_cannot_be_answers_is_refused(void **state)
{
    static const char *const wrong[] = {"7", "[]", "\"one\"", "null", "true"};
    struct fake *f = &((struct world *)*state)->f;

    for (size_t i = 0; i < COUNTOF(wrong); i++) {
        json_t *m own_json = call_again(f, "{\"count\":1}", -1, wrong[i]);

        assert_int_equal(json_integer_value(js_path(m, "error", "code", NULL)), -32602);
    }
    json_decref(call_again(f, "{\"count\":0}", -1, "{\"one\":7}")); /* not needed: ignored */
    expect_text(f, COUNTOF(wrong), "[]");
}

static void too_long_an_answer_ends_the_rounds(void **state)
{
    struct fake *f = &((struct world *)*state)->f;
    struct buf answers own_buf = {.max = 8192};
    json_t *m own_json = NULL;

    buf_add(&answers, S("{\"one\":{\"action\":\"accept\",\"content\":{\"x\":\""));
    for (int i = 0; i < 3000; i++) {
        buf_addc(&answers, 'x');
    }
    buf_add(&answers, S("\"}}}"));
    m = call_again(f, "{\"count\":2}", -1, answers.p);
    assert_int_equal(json_integer_value(js_path(m, "error", "code", NULL)), -32602);
    assert_has(f->messages[0], "fewer words");
}

int main(void)
{
    const struct CMUnitTest all[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        TEST(a_legacy_question_is_a_request_and_its_answer_goes_on),
        TEST(what_is_no_answer_counts_as_none),
        TEST(only_its_owner_answers_a_question_by_any_connection),
        TEST(a_call_that_is_taken_back_stops_asking),
        TEST(who_cannot_answer_is_not_asked),
        TEST(one_question_after_the_other_needs_no_memory_of_ours),
        TEST(an_answer_about_something_else_is_asked_for_again),
        TEST(what_cannot_be_answers_is_refused),
        TEST(too_long_an_answer_ends_the_rounds),
    };

    return cmocka_run_group_tests(all, NULL, NULL);
}
