/* test_state.c - requestState: good for what it was given for, and for nothing else. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "json/js.h"
#include "mcp/state.h"
#include "test.h"

struct world {
    char dir[40];
    struct tokens *tokens;
    struct arena arena;
};

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));

    (void)snprintf(w->dir, sizeof(w->dir), "/tmp/anybox-state-XXXXXX");
    assert_non_null(mkdtemp(w->dir));
    w->tokens = tokens_new(str_from(w->dir));
    arena_init(&w->arena, 1 << 20);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    struct err e;
    int failed;

    tokens_free(w->tokens);
    arena_fini(&w->arena);
    failed = fd_remove_tree(AT_FDCWD, w->dir, &e);
    free(w);
    return failed;
}

static void bind_text(const char *owner, const char *method, const char *params,
                      unsigned char out[SHA256_SIZE])
{
    struct err e;
    json_t *v own_json = js_parse(params, strlen(params), &e);

    assert_non_null(v);
    state_bind(str_from(owner), str_from(method), v, out);
}

static void the_same_request_has_the_same_digest(void **state)
{
    static const char *const same[] = {
        "{\"name\":\"t\",\"arguments\":{\"a\":1,\"b\":[2]}}",
        "{\"arguments\":{\"b\":[2],\"a\":1},\"name\":\"t\",\"_meta\":{\"x\":1}}",
        "{\"name\":\"t\",\"arguments\":{\"a\":1,\"b\":[2]},\"inputResponses\":{},\"requestState\":\"\"}",
    };
    static const char *const others[][3] = {
        {"", "tools/call", "{\"name\":\"t\",\"arguments\":{\"a\":1,\"b\":[3]}}"},
        {"", "tools/call", "{\"name\":\"u\",\"arguments\":{\"a\":1,\"b\":[2]}}"},
        {"", "tools/call", "{\"name\":\"t\"}"},
        {"", "prompts/get", "{\"name\":\"t\",\"arguments\":{\"a\":1,\"b\":[2]}}"},
        {"key", "tools/call", "{\"name\":\"t\",\"arguments\":{\"a\":1,\"b\":[2]}}"},
        {"tools/call", "", "{\"name\":\"t\",\"arguments\":{\"a\":1,\"b\":[2]}}"},
    };
    unsigned char first[SHA256_SIZE];
    unsigned char other[SHA256_SIZE];

    (void)state;
    bind_text("", "tools/call", same[0], first);
    for (size_t i = 0; i < COUNTOF(same); i++) {
        bind_text("", "tools/call", same[i], other);
        assert_memory_equal(first, other, SHA256_SIZE);
    }
    for (size_t i = 0; i < COUNTOF(others); i++) {
        bind_text(others[i][0], others[i][1], others[i][2], other);
        assert_memory_not_equal(first, other, SHA256_SIZE);
    }
    state_bind(STR_EMPTY, S("tools/call"), NULL, other); /* no parameters at all */
}

static void what_was_sealed_is_opened_by_the_same_request_only(void **state)
{
    struct world *w = *state;
    const unsigned char mine[SHA256_SIZE] = {1};
    const unsigned char another[SHA256_SIZE] = {2};
    json_t *sealed own_json = json_pack("{s:{s:s}}", "asked", "confirm", "box");
    json_t *opened own_json = NULL;
    struct buf text own_buf = {.max = TOKEN_TEXT_MAX};
    struct err e;

    assert_int_equal(state_seal(w->tokens, mine, sealed, &text, &e), 0);
    opened = state_open(w->tokens, mine, buf_str(&text), &w->arena, &e);
    assert_true(json_equal(opened, sealed));
    assert_null(state_open(w->tokens, another, buf_str(&text), &w->arena, &e));
    assert_int_equal(e.kind, ERR_INVALID);
    for (size_t i = 0; i < text.len; i++) {
        text.p[i] ^= 1;
        assert_null(state_open(w->tokens, mine, buf_str(&text), &w->arena, &e));
        assert_int_equal(e.kind, ERR_INVALID);
        text.p[i] ^= 1;
        assert_null(state_open(w->tokens, mine, str_head(buf_str(&text), i), &w->arena, &e));
    }
}

static void a_token_of_another_kind_or_time_is_no_state(void **state)
{
    struct world *w = *state;
    const unsigned char mine[SHA256_SIZE] = {1};
    struct buf text own_buf = {.max = TOKEN_TEXT_MAX};
    struct err e;
    char payload[SHA256_SIZE + 2] = {1};

    memcpy(payload + SHA256_SIZE, "{}", 2);
    assert_int_equal(token_make(w->tokens, TOKEN_SESSION, (struct str){payload, sizeof(payload)},
                                clock_wall_ms() + 60000, &text, &e),
                     0);
    assert_null(state_open(w->tokens, mine, buf_str(&text), &w->arena, &e));
    assert_int_equal(e.kind, ERR_INVALID);
    buf_clear(&text);
    assert_int_equal(token_make(w->tokens, TOKEN_REQUEST, (struct str){payload, sizeof(payload)},
                                clock_wall_ms() - 60000, &text, &e),
                     0);
    assert_null(state_open(w->tokens, mine, buf_str(&text), &w->arena, &e));
    assert_int_equal(e.kind, ERR_GONE);
    buf_clear(&text);
    assert_int_equal(
        token_make(w->tokens, TOKEN_REQUEST, S("short"), clock_wall_ms() + 60000, &text, &e), 0);
    assert_null(state_open(w->tokens, mine, buf_str(&text), &w->arena, &e));
    assert_int_equal(e.kind, ERR_INVALID);
}

static void too_much_is_refused(void **state)
{
    struct world *w = *state;
    const unsigned char mine[SHA256_SIZE] = {1};
    char long_text[TOKEN_PAYLOAD_MAX + 1];
    struct buf text own_buf = {.max = TOKEN_TEXT_MAX};
    json_t *large own_json = NULL;
    struct err e;

    memset(long_text, 'x', sizeof(long_text));
    large = js_string((struct str){long_text, sizeof(long_text)});
    assert_int_equal(state_seal(w->tokens, mine, large, &text, &e), -1);
    assert_int_equal(e.kind, ERR_LIMIT);
    assert_int_equal(text.len, 0);
}

int main(void)
{
    const struct CMUnitTest all[] = {
        cmocka_unit_test(the_same_request_has_the_same_digest),
        cmocka_unit_test_setup_teardown(what_was_sealed_is_opened_by_the_same_request_only, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_token_of_another_kind_or_time_is_no_state, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(too_much_is_refused, setup, teardown),
    };

    return cmocka_run_group_tests(all, NULL, NULL);
}
