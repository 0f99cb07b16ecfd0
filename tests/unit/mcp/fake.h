/*
 * fake.h - a peer that keeps what it is sent, and a table of tools that run nothing.
 *
 * The table takes the place of the program's own: `tools` is defined here, so the
 * linker leaves table.c out.
 */
#ifndef TESTS_MCP_FAKE_H
#define TESTS_MCP_FAKE_H

#include <jansson.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/ctx.h"
#include "base/own.h"
#include "base/thread.h"
#include "core/services.h"
#include "json/js.h"
#include "mcp/mcp.h"
#include "mcp/peer.h"
#include "test.h"
#include "tools/tool.h"

#define FAKE_MESSAGES 256

struct fake {
    struct peer peer;
    struct services services;
    struct scope scope;
    struct config config;
    pthread_mutex_t lock;
    size_t n;
    char *messages[FAKE_MESSAGES];
    enum send_kind kinds[FAKE_MESSAGES];
};

struct fake_args {
    struct str text;
    int64_t count;
};

static int fake_echo(struct call *c, const void *args, json_t **out, struct err *e)
{
    const struct fake_args *a = args;

    (void)c;
    (void)e;
    *out = json_object();
    json_object_set_new(*out, "text", js_string(a->text));
    return 0;
}

/* Ends only by being cancelled. */
static int fake_wait(struct call *c, const void *args, json_t **out, struct err *e)
{
    (void)args;
    (void)out;
    return ctx_wait(c->ctx, NULL, 0, 0, e) < 0 ? -1 : err_set(e, ERR_BUG, "woke up");
}

/* Sleeps for `count` milliseconds, telling about every one of them. */
static int fake_work(struct call *c, const void *args, json_t **out, struct err *e)
{
    const struct fake_args *a = args;

    for (int64_t end = clock_mono_ms() + a->count; clock_mono_ms() < end;) {
        if (c->progress != NULL) {
            c->progress(c, S("line \"one\"\x01"));
        }
        if (ctx_wait(c->ctx, NULL, 0, clock_mono_ms() + 1, e) < 0) {
            return -1;
        }
    }
    *out = json_true();
    return 0;
}

/* Answers `count` bytes that JSON has to escape twice. */
static int fake_quotes(struct call *c, const void *args, json_t **out, struct err *e)
{
    const struct fake_args *a = args;
    struct buf text own_buf = {0};

    (void)c;
    (void)e;
    buf_init(&text, 1 << 20);
    for (int64_t i = 0; i < a->count; i++) {
        buf_addc(&text, '"');
    }
    *out = js_string(buf_str(&text));
    return 0;
}

/* Asks `count` questions, one after the other, each about `text`; the answer has all the
 * actions. */
static int fake_ask(struct call *c, const void *args, json_t **out, struct err *e)
{
    static const char *const keys[] = {"one", "two", "three"};
    const struct fake_args *a = args;
    json_t *heard own_json = json_array();

    for (int64_t i = 0; i < a->count; i++) {
        json_t *params own_json = json_pack("{s:s, s:{}}", "message", "Q", "requestedSchema");
        struct question q = {.key = keys[i], .kind = CAN_FORM, .about = a->text, .params = params};
        int end =
            c->ask == NULL ? err_set(e, ERR_UNSUPPORTED, "nobody to ask") : c->ask(c, &q, 1, e);

        if (end < 0 || end == ASK_LATER) {
            return end < 0 ? -1 : 0;
        }
        json_array_append_new(heard, q.answer == NULL ? json_string("nothing")
                                                      : json_incref(js_get(q.answer, "action")));
    }
    *out = json_incref(heard);
    return 0;
}

static const struct param fake_params[] = {
    {.name = "text", .type = PARAM_STRING, .offset = offsetof(struct fake_args, text), .help = "t"},
    {.name = "count",
     .type = PARAM_INTEGER,
     .offset = offsetof(struct fake_args, count),
     .max = 1000000,
     .help = "n"},
};

#define FAKE_TOOL(tool_name, sets, hint_bits, fn)                                                  \
    {                                                                                              \
        .name = (tool_name), .title = "Title of " tool_name, .help = "Does " tool_name ".",        \
        .params = fake_params, .n_params = COUNTOF(fake_params),                                   \
        .args_size = sizeof(struct fake_args), .toolsets = (sets) | TOOLSET_ALL,                   \
        .hints = (hint_bits), .run = (fn)                                                          \
    }

static const struct tool fake_tools[] = {
    FAKE_TOOL("ask", 0, 0, fake_ask),
    FAKE_TOOL("exec_bash", TOOLSET_DEFAULT, HINT_DESTRUCTIVE | HINT_OPEN_WORLD, fake_echo),
    FAKE_TOOL("hidden", TOOLSET_MCP, 0, fake_echo),
    FAKE_TOOL("quotes", TOOLSET_DEFAULT, HINT_READ_ONLY | HINT_IDEMPOTENT, fake_quotes),
    FAKE_TOOL("wait", TOOLSET_DEFAULT, 0, fake_wait),
    FAKE_TOOL("work", TOOLSET_DEFAULT, 0, fake_work),
};

const struct tool *const tools[] = {
    &fake_tools[0], &fake_tools[1], &fake_tools[2], &fake_tools[3],
    &fake_tools[4], &fake_tools[5], NULL,
};

static void fake_send(struct peer *p, struct str message, enum send_kind kind)
{
    struct fake *f = CONTAINER_OF(p, struct fake, peer);
    LOCKED(&f->lock);

    if (f->n < FAKE_MESSAGES) {
        f->kinds[f->n] = kind;
        f->messages[f->n++] = xmemdup(message.p, message.len);
    }
}

static const struct peer_ops fake_ops = {.send = fake_send, .one_stream = true};

static void fake_init(struct fake *f, unsigned max_calls)
{
    *f = (struct fake){0};
    pthread_mutex_init(&f->lock, NULL);
    f->config.max_calls = max_calls;
    f->services.config = &f->config;
    f->services.calls = pool_new("call", 2 * max_calls);
    scope_init(&f->scope, STR_EMPTY, S("/"));
    peer_init(&f->peer, &fake_ops, mcp_new(&f->services, TOOLSET_DEFAULT), &f->scope);
}

static void fake_fini(struct fake *f)
{
    assert_true(peer_close(&f->peer, 5000));
    pool_free(f->services.calls);
    peer_fini(&f->peer);
    scope_fini(&f->scope);
    mcp_free(f->peer.mcp);
    for (size_t i = 0; i < f->n; i++) {
        free(f->messages[i]);
    }
    pthread_mutex_destroy(&f->lock);
}

/* Feeds a copy that ends where the message ends, so that a sanitizer sees overruns. */
static void fake_feed(struct fake *f, const char *message)
{
    size_t len = strlen(message);
    char *text = malloc(len);

    memcpy(text, message, len);
    mcp_feed(&f->peer, text, len);
    free(text);
}

static size_t fake_count(struct fake *f)
{
    LOCKED(&f->lock);
    return f->n;
}

/* Message i, once it is there. */
static const char *fake_message(struct fake *f, size_t i)
{
    int64_t end = clock_mono_ms() + 5000;

    while (fake_count(f) <= i) {
        struct ctx ctx = {0};
        struct err e;

        if (clock_mono_ms() > end) {
            fail_msg("message %zu never came", i);
        }
        (void)!ctx_wait(&ctx, NULL, 0, clock_mono_ms() + 1, &e);
    }
    LOCKED(&f->lock);
    return f->messages[i];
}

/* The text block of a tool's answer, and whether it was marked as an error. */
UNUSED static char *fake_text(struct fake *f, size_t i, bool *is_error)
{
    char *message own_mem = xstrdup(fake_message(f, i));
    struct err e;
    json_t *v own_json = js_parse(message, strlen(message), &e);
    const json_t *result = js_get(v, "result");

    assert_non_null(result);
    *is_error = json_is_true(js_get(result, "isError"));
    return xstrdup(json_string_value(js_get(json_array_get(js_get(result, "content"), 0), "text")));
}

static void assert_has(const char *text, const char *part)
{
    assert_non_null(text);
    if (strstr(text, part) == NULL) {
        fail_msg("%s\n  lacks %s", text, part);
    }
}

UNUSED static void assert_lacks(const char *text, const char *part)
{
    if (strstr(text, part) != NULL) {
        fail_msg("%s\n  has %s", text, part);
    }
}

#define MODERN_META                                                                                \
    "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                       \
    "\"io.modelcontextprotocol/clientCapabilities\":{}}"

#endif
