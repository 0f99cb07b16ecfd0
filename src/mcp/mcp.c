/*
 * mcp.c - from a message to a method.
 *
 * Every message is judged on its own. A request that claims a protocol version in
 * params._meta is modern: it stands alone, and this layer neither reads nor writes
 * what it knows of the connection. Without a claim it is legacy and is served as the
 * revision that initialize agreed on, or, before that, as 2025-03-26: scripts that
 * skip the handshake work. A method that only the modern era has is modern even
 * without a claim, so that its sender hears what is missing.
 */
#include "mcp/mcp.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/utf8.h"
#include "json/js.h"
#include "mcp/calls.h"
#include "mcp/check.h"
#include "mcp/exchange.h"
#include "mcp/level.h"
#include "mcp/listen.h"
#include "mcp/observe.h"
#include "tools/custom.h"

#define WORD_SHOWN 64 /* bytes of a client's word that an error repeats */

struct mcp *mcp_new(const struct services *services, unsigned toolsets)
{
    struct mcp *m = xcalloc(1, sizeof(*m));

    m->services = services;
    m->toolsets = toolsets;
    (void)pthread_mutex_init(&m->questions_lock, NULL);
    list_init(&m->questions);
    (void)pthread_mutex_init(&m->listeners_lock, NULL);
    list_init(&m->listeners);
    m->observer = observer_new(m);
    m->custom = custom_new(services->config);
    listing_build(m);
    return m;
}

void mcp_free(struct mcp *m)
{
    if (m == NULL) {
        return;
    }
    observer_free(m->observer);
    custom_free(m->custom);
    for (int r = REV_NONE; r < REV_COUNT; r++) {
        buf_fini(&m->lists[r]);
    }
    (void)pthread_mutex_destroy(&m->questions_lock);
    (void)pthread_mutex_destroy(&m->listeners_lock);
    free(m);
}

const struct custom *mcp_custom(const struct mcp *m)
{
    return m->custom;
}

void exchange_result(const struct exchange *x, struct str body)
{
    struct buf out own_buf = {0};

    buf_init(&out, MCP_MESSAGE_MAX);
    rpc_begin_result(&out, x->msg->raw_id);
    buf_add(&out, body);
    buf_addc(&out, '}');
    answer_send(x->peer, x->batch, x->msg->raw_id, buf_str(&out));
    request_log(x->peer, x->msg->method, x->msg->raw_id, x->started_ms, "ok");
}

void request_log(const struct peer *p, struct str method, struct str raw_id, int64_t started_ms,
                 const char *outcome)
{
    char name[LOG_QUOTE_SIZE], id[LOG_QUOTE_SIZE], owner[LOG_QUOTE_SIZE];

    log_line(LOG_INFO, "request", "transport=%s owner=%s request=%s method=%s ms=%lld outcome=%s",
             p->ops->transport != NULL ? p->ops->transport : "none",
             log_quote(p->scope->owner, owner), log_quote(raw_id, id), log_quote(method, name),
             (long long)(clock_mono_ms() - started_ms), outcome);
}

struct failure {
    int code;
    struct str message;
    struct str data; /* JSON text, or empty */
};

static void send_error(struct peer *p, struct batch *b, struct str raw_id, struct str method,
                       int64_t started_ms, const struct failure *f)
{
    struct buf out own_buf = {0};
    char outcome[16];

    buf_init(&out, MCP_MESSAGE_MAX);
    rpc_add_error(&out, raw_id, f->code, f->message, f->data);
    answer_send(p, b, raw_id, buf_str(&out));
    (void)snprintf(outcome, sizeof(outcome), "%d", f->code);
    request_log(p, method, raw_id, started_ms, outcome);
}

/* For what is no request. */
static void refuse(struct peer *p, struct batch *b, struct str raw_id, int code,
                   const char *message)
{
    const struct failure f = {.code = code, .message = str_from(message)};

    send_error(p, b, raw_id, STR_EMPTY, clock_mono_ms(), &f);
}

static void fail(const struct exchange *x, const struct failure *f)
{
    send_error(x->peer, x->batch, x->msg->raw_id, x->msg->method, x->started_ms, f);
}

void exchange_error(const struct exchange *x, int code, const char *fmt, ...)
{
    char message[512];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(message, sizeof(message), fmt, args);
    va_end(args);
    fail(x, &(struct failure){.code = code, .message = str_from(message)});
}

static bool check_log_level(const struct exchange *x)
{
    const json_t *level = js_path(x->msg->params, "_meta", RPC_META_LOG_LEVEL, NULL);

    if (level == NULL || level_find(js_str(level)) != LEVEL_NONE) {
        return true;
    }
    exchange_error(x, RPC_INVALID_PARAMS, "\"%s\" must be one of " LEVEL_NAMES ".",
                   RPC_META_LOG_LEVEL);
    return false;
}

static void on_request(struct peer *p, struct batch *b, const struct rpc_msg *msg)
{
    const struct method *method = method_find(msg->method);
    bool modern = check_is_modern(msg);
    struct exchange x = {.peer = p, .batch = b, .msg = msg, .started_ms = clock_mono_ms()};
    struct rpc_problem problem own_problem = {0};

    x.rev = modern ? REV_2026_07_28 : peer_revision(p);
    if (msg->params != NULL && !json_is_object(msg->params)) {
        exchange_error(&x, RPC_INVALID_PARAMS, "\"params\" must be an object.");
        return;
    }
    if (modern && (!check_meta(msg, &problem) || !check_version(msg, &problem))) {
        fail(&x,
             &(struct failure){problem.code, str_from(problem.message), buf_str(&problem.data)});
        return;
    }
    if (method == NULL || (method->eras & (unsigned)(modern ? ERA_MODERN : ERA_LEGACY)) == 0) {
        exchange_error(&x, RPC_METHOD_NOT_FOUND,
                       "There is no method \"%.*s\" here: this server offers tools, by tools/list "
                       "and tools/call.",
                       STR_ARG(utf8_head(msg->method, WORD_SHOWN)));
        return;
    }
    if (b != NULL && method->alone) {
        exchange_error(&x, RPC_INVALID_REQUEST, "%s cannot be part of a batch; send it alone.",
                       method->name);
        return;
    }
    if (modern && !check_log_level(&x)) {
        return;
    }
    method->run(&x);
}

/* A cancellation says only which request it means: it is good for both eras. Of the other
 * notifications only the one about roots tells something that we need. */
static void on_notification(struct peer *p, const struct rpc_msg *msg)
{
    const json_t *id = js_get(msg->params, "requestId");
    struct str raw_id;

    if (str_eq(msg->method, S("notifications/roots/list_changed"))) {
        ask_roots_changed(p);
        return;
    }
    if (!str_eq(msg->method, S("notifications/cancelled")) || id == NULL) {
        return;
    }
    raw_id = rpc_echo(id, js_raw(msg->text, "params", "requestId", NULL));
    if (raw_id.len > 0) {
        calls_cancel(p, id, raw_id);
        listen_cancel(p, id, raw_id);
    }
}

static void take_one(struct peer *p, struct batch *b, const struct rpc_msg *msg)
{
    switch (msg->kind) {
    case RPC_REQUEST: on_request(p, b, msg); break;
    case RPC_NOTIFICATION: on_notification(p, msg); break;
    case RPC_RESPONSE: ask_answered(p, msg->json); break;
    case RPC_BAD: refuse(p, b, msg->raw_id, RPC_INVALID_REQUEST, msg->problem); break;
    }
}

/* Why the array is not a batch that we serve; NULL when it is. */
static const char *batch_problem(struct peer *p, const json_t *array)
{
    const json_t *element;
    size_t i;

    if (!revision_has(peer_revision(p), REV_BATCHES)) {
        return "This protocol version has no batches: send each message on its own.";
    }
    if (json_array_size(array) == 0) {
        return "A batch must have at least one message.";
    }
    if (json_array_size(array) > MCP_BATCH_MAX) {
        return "A batch may have at most 64 messages; send the others separately.";
    }
    json_array_foreach (array, i, element) {
        if (js_path(element, "params", "_meta", RPC_META_VERSION, NULL) != NULL) {
            return "A request that claims a protocol version cannot be part of a batch; send each "
                   "message on its own.";
        }
    }
    return NULL;
}

static void feed_batch(struct peer *p, const json_t *array, struct str text)
{
    const char *problem = batch_problem(p, array);
    struct batch *b;

    if (problem != NULL) {
        refuse(p, NULL, STR_EMPTY, RPC_INVALID_REQUEST, problem);
        return;
    }
    b = batch_new(p);
    for (size_t i = 0; i < json_array_size(array); i++) {
        struct rpc_msg msg;

        rpc_classify(json_array_get(array, i), js_raw_item(text, i), &msg);
        take_one(p, b, &msg);
    }
    batch_release(b);
}

int mcp_read(struct mcp_message *m, struct str text, struct err *e)
{
    *m = (struct mcp_message){.text = text};
    m->json = js_parse(text.p, text.len, e);
    if (m->json == NULL) {
        return err_wrap(e, "The message cannot be read");
    }
    m->batch = json_is_array(m->json);
    if (!m->batch) {
        rpc_classify(m->json, text, &m->rpc);
    }
    return 0;
}

void mcp_message_fini(struct mcp_message *m)
{
    json_decref(m->json);
    m->json = NULL;
}

void mcp_take(struct peer *p, struct mcp_message *m)
{
    if (m->batch) {
        feed_batch(p, m->json, m->text);
    } else {
        take_one(p, NULL, &m->rpc);
    }
}

void mcp_feed(struct peer *p, const char *text, size_t len)
{
    struct mcp_message m own_message = {0};
    struct err e;

    if (mcp_read(&m, (struct str){text, len}, &e) < 0) {
        char message[sizeof(e.msg) + 2];

        (void)snprintf(message, sizeof(message), "%s.", e.msg);
        refuse(p, NULL, STR_EMPTY, RPC_PARSE_ERROR, message);
        return;
    }
    mcp_take(p, &m);
}

void mcp_feed_too_long(struct peer *p)
{
    refuse(p, NULL, STR_EMPTY, RPC_INVALID_REQUEST,
           "The message is longer than 16 MiB and was skipped; send big files in parts.");
}
