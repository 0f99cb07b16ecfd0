/*
 * mcp_routes.c - /mcp: the classifier of both eras, in an order that matters. The core has
 * checked Host, Origin, key, path, method, type and length before; here follow what the body
 * is, which era it belongs to, and what that era demands of headers.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "base/utf8.h"
#include "json/js.h"
#include "mcp/check.h"
#include "mcp/exchange.h"
#include "serve/http/http_own.h"
#include "serve/http/mcp_head.h"
#include "serve/http/mcp_post.h"
#include "serve/http/parse.h"
#include "serve/http/route.h"
#include "serve/http/session.h"

#define BODY_MAX   ((size_t)4 << 20)
#define INLINE_MAX ((size_t)32 << 10) /* longer bodies are read on another thread */
#define WORD_SHOWN 64                 /* bytes of a client's word that an error repeats */

/* ---- the two eras -------------------------------------------------------------------------- */

/* How many calls of tools are in it. */
static unsigned count_calls(const struct mcp_message *m)
{
    const json_t *one;
    unsigned n = 0;
    size_t i;

    if (!m->batch) {
        return str_eq(m->rpc.method, S("tools/call")) ? 1 : 0;
    }
    if (json_array_size(m->json) > MCP_BATCH_MAX) {
        return 0; /* it will be refused */
    }
    json_array_foreach (m->json, i, one) {
        n += str_eq(js_str(js_get(one, "method")), S("tools/call")) ? 1 : 0;
    }
    return n;
}

/* The session is taken over. */
static void serve(struct request *r, struct session *session, bool modern, struct mcp_message *m)
{
    unsigned calls = count_calls(m);
    struct post *p;

    if (!caller_enter(r->http, r->caller, calls)) {
        if (session != NULL) {
            session_unref(r->http->sessions, session);
        }
        request_set_header(r, "Retry-After", S("1"));
        mcp_refuse(
            r, MHD_HTTP_TOO_MANY_REQUESTS, m->rpc.raw_id, RPC_INTERNAL_ERROR,
            "At most %lld calls of this key may run at once (http.max_calls), and that many are "
            "running, or would be with this message; wait for one to end, then call again.",
            (long long)r->services->config->http_max_calls);
        return;
    }
    p = post_new(r, session, modern, mcp_takes_events(r));
    p->calls = calls;
    if (!m->batch) {
        p->raw_id = arena_str(r->arena, m->rpc.raw_id);
        p->initialize = !modern && str_eq(m->rpc.method, S("initialize"));
        p->wants_events =
            p->takes_events && js_path(m->rpc.params, "_meta", "progressToken", NULL) != NULL;
    }
    post_take(p, m);
}

static void serve_modern(struct request *r, struct mcp_message *m)
{
    const struct rpc_msg *msg = &m->rpc;
    struct rpc_problem problem own_problem = {0};

    if (msg->params != NULL && !json_is_object(msg->params)) {
        mcp_refuse(r, MHD_HTTP_BAD_REQUEST, msg->raw_id, RPC_INVALID_PARAMS,
                   "\"params\" must be an object.");
        return;
    }
    if (!check_meta(msg, &problem)) {
        mcp_refuse_with(r, MHD_HTTP_BAD_REQUEST, msg->raw_id, &problem);
        return;
    }
    if (!mcp_check_header(r, "MCP-Protocol-Version", js_str(msg->claim), msg->raw_id)) {
        return;
    }
    if (!check_version(msg, &problem)) {
        mcp_refuse_with(r, MHD_HTTP_BAD_REQUEST, msg->raw_id, &problem);
        return;
    }
    if (!mcp_check_modern(r, msg)) {
        return;
    }
    if (!check_method(msg->method, true)) {
        mcp_refuse(r, MHD_HTTP_NOT_FOUND, msg->raw_id, RPC_METHOD_NOT_FOUND,
                   "There is no method \"%.*s\" here: this server offers tools, by tools/list and "
                   "tools/call.",
                   STR_ARG(utf8_head(msg->method, WORD_SHOWN)));
        return;
    }
    serve(r, NULL, true, m);
}

/* NULL: it was answered. */
static struct session *find_session(struct request *r, struct str raw_id)
{
    struct str id = request_header(r, "Mcp-Session-Id");
    struct session *s;
    struct err e;

    if (id.len == 0) {
        mcp_refuse(r, MHD_HTTP_BAD_REQUEST, raw_id, RPC_LEGACY,
                   "Bad Request: No valid session ID provided");
        return NULL;
    }
    s = session_find(r->http->sessions, r->caller, id, &e);
    if (s == NULL) {
        mcp_refuse(r, MHD_HTTP_NOT_FOUND, raw_id, RPC_NO_SESSION, "%s", e.msg);
    }
    return s;
}

/* What asks for nothing: it is about the requests of the session, or an answer to ours. */
static void notify(struct session *s, struct mcp_message *m)
{
    if (!m->batch) {
        session_notify(s, m);
        return;
    }
    for (size_t i = 0; i < json_array_size(m->json); i++) {
        struct mcp_message one = {.text = js_raw_item(m->text, i)};

        rpc_classify(json_array_get(m->json, i), one.text, &one.rpc);
        session_notify(s, &one);
    }
}

static void refuse_batch(struct request *r)
{
    mcp_refuse(r, MHD_HTTP_BAD_REQUEST, STR_EMPTY, RPC_INVALID_REQUEST,
               "This protocol version has no batches: send each message on its own.");
}

static void serve_note(struct request *r, struct mcp_message *m)
{
    struct session *s = mcp_check_legacy(r, STR_EMPTY) ? find_session(r, STR_EMPTY) : NULL;

    if (s == NULL) {
        return;
    }
    if (m->batch && !revision_has(s->rev, REV_BATCHES)) {
        refuse_batch(r);
    } else {
        notify(s, m);
        request_reply(r, MHD_HTTP_ACCEPTED, NULL, STR_EMPTY);
    }
    session_unref(r->http->sessions, s);
}

static void serve_legacy(struct request *r, struct mcp_message *m)
{
    struct str raw_id = m->batch ? STR_EMPTY : m->rpc.raw_id;
    struct session *s;

    if (!m->batch && str_eq(m->rpc.method, S("initialize"))) {
        serve(r, NULL, false, m);
        return;
    }
    if (!mcp_check_legacy(r, raw_id)) {
        return;
    }
    s = find_session(r, raw_id);
    if (s != NULL) {
        serve(r, s, false, m);
    }
}

/* ---- POST ------------------------------------------------------------------------------------ */

/* Notifications and answers to us: nothing in it is owed an answer. */
static bool is_notes(struct mcp_message *m)
{
    size_t n = json_array_size(m->json);

    for (size_t i = 0; i < n && n <= MCP_BATCH_MAX; i++) {
        struct rpc_msg one;

        rpc_classify(json_array_get(m->json, i), js_raw_item(m->text, i), &one);
        if (one.claim != NULL || (one.kind != RPC_NOTIFICATION && one.kind != RPC_RESPONSE)) {
            return false;
        }
    }
    return n > 0 && n <= MCP_BATCH_MAX;
}

static void serve_batch(struct request *r, struct mcp_message *m)
{
    if (mcp_names_modern(r)) {
        refuse_batch(r);
    } else if (is_notes(m)) {
        serve_note(r, m);
    } else {
        serve_legacy(r, m);
    }
}

static void classify(struct request *r, struct mcp_message *m)
{
    bool modern = m->rpc.claim != NULL;

    if (m->batch) {
        serve_batch(r, m);
        return;
    }
    modern = modern || (mcp_names_modern(r) && !str_eq(m->rpc.method, S("initialize")));
    switch (m->rpc.kind) {
    case RPC_BAD:
        mcp_refuse(r, MHD_HTTP_BAD_REQUEST, m->rpc.raw_id, RPC_INVALID_REQUEST, "%s",
                   m->rpc.problem);
        break;
    case RPC_REQUEST:
        if (modern) {
            serve_modern(r, m);
        } else {
            serve_legacy(r, m);
        }
        break;
    case RPC_NOTIFICATION:
        if (modern) { /* it tells nothing that we need */
            request_reply(r, MHD_HTTP_ACCEPTED, NULL, STR_EMPTY);
        } else {
            serve_note(r, m);
        }
        break;
    case RPC_RESPONSE: serve_note(r, m); break;
    }
}

static void read_body(struct request *r)
{
    struct mcp_message m own_message = {0};
    struct err e;

    if (mcp_read(&m, r->body, &e) < 0) {
        mcp_refuse(r, MHD_HTTP_BAD_REQUEST, STR_EMPTY, RPC_PARSE_ERROR, "%s.", e.msg);
        return;
    }
    classify(r, &m);
}

static void read_body_apart(void *arg)
{
    struct request *r = arg;

    read_body(r);
    request_drop_body(r);
    request_unref(r);
}

static void run_post(struct request *r)
{
    struct err e;

    if (r->body.len <= INLINE_MAX) {
        read_body(r);
        request_drop_body(r);
        return;
    }
    request_hold(r);
    if (pool_run(r->services->calls, read_body_apart, r, &e) < 0) {
        request_set_header(r, "Retry-After", S("1"));
        mcp_refuse(r, MHD_HTTP_SERVICE_UNAVAILABLE, STR_EMPTY, RPC_INTERNAL_ERROR, "%s", e.msg);
        request_unref(r);
    }
}

/* ---- GET and DELETE, of sessions only --------------------------------------------------------- */

/* The session that is meant; NULL: it was answered. */
static struct session *session_of(struct request *r)
{
    if (request_header(r, "Mcp-Session-Id").len == 0) {
        request_set_header(r, "Allow", S("POST"));
        mcp_refuse(r, MHD_HTTP_METHOD_NOT_ALLOWED, STR_EMPTY, RPC_LEGACY,
                   "Method not allowed: without a session there is only POST.");
        return NULL;
    }
    return mcp_check_legacy(r, STR_EMPTY) ? find_session(r, STR_EMPTY) : NULL;
}

/* What the request of a stream knows of its session, which it holds. */
struct listener {
    struct request *r;
    struct session *session;
};

static void on_listener_end(void *arg, enum end_why why)
{
    struct listener *l = arg;

    (void)why;
    session_drop_stream(l->session, l->r);
}

static void free_listener(void *arg)
{
    struct listener *l = arg;

    session_unref(l->r->http->sessions, l->session);
    free(l);
}

/* The session is taken over. */
static void open_listener(struct request *r, struct session *s)
{
    struct listener *l = xcalloc(1, sizeof(*l));

    *l = (struct listener){.r = r, .session = s};
    live_own(LIVE_OF(r), l, free_listener, on_listener_end);
    session_set_stream(s, stream_open(r));
    if (!request_waits(r)) { /* it went before the session had its stream */
        session_drop_stream(s, r);
    }
}

static void run_get(struct request *r)
{
    struct session *s;

    if (r->method == HTTP_HEAD) {
        request_set_header(r, "Allow", S("POST"));
        request_reply(r, MHD_HTTP_METHOD_NOT_ALLOWED, NULL, STR_EMPTY);
        return;
    }
    s = session_of(r);
    if (s == NULL) {
        return;
    }
    if (http_accept_q(request_header(r, "Accept"), S(MCP_EVENTS)) == 0) {
        mcp_refuse(r, MHD_HTTP_NOT_ACCEPTABLE, STR_EMPTY, RPC_LEGACY,
                   "Not Acceptable: Client must accept text/event-stream");
        session_unref(r->http->sessions, s);
        return;
    }
    open_listener(r, s);
}

static void run_delete(struct request *r)
{
    struct session *s = session_of(r);

    if (s == NULL) {
        return;
    }
    session_end(r->http->sessions, s);
    session_unref(r->http->sessions, s);
    request_reply(r, MHD_HTTP_NO_CONTENT, NULL, STR_EMPTY);
}

/* Clients look there for an OAuth server before anything else; there is none. */
static void run_well_known(struct request *r)
{
    request_fail(r, MHD_HTTP_NOT_FOUND, "not_found",
                 "There is nothing here: this server knows keys, not OAuth.");
}

#define MCP_FLAGS (ROUTE_QUICK | ROUTE_CORS | ROUTE_RPC)
#define MCP_AT(where)                                                                              \
    {where, HTTP_POST, MCP_FLAGS, BODY_MAX, "application/json", run_post, NULL},                   \
        {where, HTTP_GET, MCP_FLAGS, 0, NULL, run_get, NULL},                                      \
    {                                                                                              \
        where, HTTP_DELETE, MCP_FLAGS, 0, NULL, run_delete, NULL                                   \
    }

const struct route mcp_routes[] = {
    MCP_AT("/mcp"),
    MCP_AT("/"),
    {"/.well-known/*", HTTP_GET | HTTP_POST, ROUTE_OPEN | ROUTE_QUICK | ROUTE_CORS, 0, NULL,
     run_well_known, NULL},
    {0},
};
