/*
 * calls.c - a tool call from its request to its answer.
 *
 * A call is a `struct running`: made on the thread that reads messages, entered into
 * peer->calls before its work begins (so that a cancellation read next finds it), run
 * on a thread of services->calls, and taken out together with sending its answer.
 * peer->lock is held for both, and for each progress notification: once
 * calls_cancel() returns, nothing of the call is sent any more, and once peer->calls
 * is empty no call touches its peer.
 *
 * mcp->n_calls keeps the limit of calls, not the pool: who reads an answer may send the
 * next call at once, when the thread that sent it is still busy with tidying up.
 */
#include "mcp/calls.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/ctx.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/utf8.h"
#include "json/js.h"
#include "mcp/mcp.h"

#define CALL_ARENA_MAX  ((size_t)256 << 20) /* far above what a message of 16 MiB needs */
#define PROGRESS_GAP_MS 1000
#define PROGRESS_TEXT   512 /* bytes */

struct running {
    struct list link; /* peer.calls; guarded by peer->lock */
    bool taken_back;  /* by the client: send nothing; guarded by peer->lock */
    bool counted;     /* in mcp->n_calls */
    struct peer *peer;
    struct batch *batch; /* held; NULL: none */
    enum revision rev;
    const struct tool *tool;
    json_t *arguments; /* owned; NULL: none */
    struct str raw_id; /* in arena, like those below */
    struct str id;     /* decoded, when it is a string */
    struct str token;  /* of progress; empty: not wanted */
    struct cancel cancel;
    struct arena arena;
    struct ctx ctx;
    struct call call;
    int64_t started_ms;
    int64_t progress_ms; /* no progress before this; the call's thread only */
    int64_t progress_n;
};

static void free_running(struct running *r)
{
    cancel_fini(&r->cancel);
    arena_fini(&r->arena);
    json_decref(r->arguments);
    free(r);
}

/* {"error":...,"code":...}: the text of a tool's answer when no tool could say it. */
static void add_problem(struct buf *text, enum err_kind kind, struct str sentence)
{
    buf_add(text, S("{\"error\":"));
    rpc_add_string(text, sentence);
    buf_addf(text, ",\"code\":\"%s\"}", err_kind_name(kind));
}

static void add_result(struct buf *out, const struct running *r, struct str text, bool is_error)
{
    rpc_begin_result(out, r->raw_id);
    buf_add(out, S("{\"content\":[{\"type\":\"text\",\"text\":"));
    rpc_add_string(out, text);
    buf_add(out, S("}]"));
    if (is_error) {
        buf_add(out, S(",\"isError\":true"));
    }
    result_end(out, r->rev);
    buf_addc(out, '}');
}

/* Escapes can double a text, so only the whole message shows whether it fits. */
static void add_fitting_result(struct buf *out, const struct running *r, struct str text,
                               bool is_error)
{
    struct buf problem own_buf = {0};

    add_result(out, r, text, is_error);
    if (!out->cut) {
        return;
    }
    buf_init(&problem, 1024);
    add_problem(&problem, ERR_LIMIT,
                S("The answer is larger than 1 MiB as JSON and was not sent; the call itself has "
                  "ended. Ask for less at a time: fewer bytes, lines or characters."));
    buf_clear(out);
    add_result(out, r, buf_str(&problem), true);
}

static void finish(struct running *r, struct str text, bool is_error)
{
    struct peer *p = r->peer;
    struct buf out own_buf = {0};
    bool sent;

    buf_init(&out, MCP_MESSAGE_MAX);
    add_fitting_result(&out, r, text, is_error);
    if (r->counted) {
        (void)atomic_fetch_sub(&p->mcp->n_calls, 1);
    }
    lock(&p->lock);
    sent = !r->taken_back;
    if (sent) {
        answer_send(p, r->batch, r->raw_id, buf_str(&out));
    }
    if (r->batch != NULL) {
        batch_release(r->batch);
    }
    list_del(&r->link);
    if (list_empty(&p->calls)) {
        (void)pthread_cond_broadcast(&p->idle);
    }
    unlock(&p->lock);
    log_line(LOG_INFO, "call", "tool=%s ms=%lld error=%s", r->tool->name,
             (long long)(clock_mono_ms() - r->started_ms),
             !sent      ? "cancelled"
             : is_error ? "yes"
                        : "no");
    free_running(r);
    if (p->ops->release != NULL) {
        p->ops->release(p);
    }
}

static void run_call(void *arg)
{
    struct running *r = arg;
    struct buf text own_buf = {0};
    bool is_error = false;

    buf_init(&text, TOOL_TEXT_MAX);
    tool_call(r->tool, &r->call, r->arguments, &text, &is_error);
    finish(r, buf_str(&text), is_error);
}

static void send_progress(struct call *c, struct str message)
{
    struct running *r = CONTAINER_OF(c, struct running, call);
    int64_t now = clock_mono_ms();
    struct buf out own_buf = {0};

    if (now < r->progress_ms) {
        return;
    }
    r->progress_ms = now + PROGRESS_GAP_MS;
    r->progress_n++;
    buf_init(&out, RPC_ID_MAX + (8 * PROGRESS_TEXT));
    buf_add(&out, S("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{"
                    "\"progressToken\":"));
    buf_add(&out, r->token);
    buf_addf(&out, ",\"progress\":%lld", (long long)r->progress_n);
    if (revision_has(r->rev, REV_PROGRESS_TEXT) && message.len > 0) {
        buf_add(&out, S(",\"message\":"));
        rpc_add_string(&out, utf8_head(message, PROGRESS_TEXT));
    }
    buf_add(&out, S("}}"));

    LOCKED(&r->peer->lock);
    if (!r->taken_back) {
        r->peer->ops->send(r->peer, buf_str(&out), SEND_NOTICE);
    }
}

/* The call's thread gets the arguments to itself: a reference count that two threads
 * use is one race too many in jansson. */
static json_t *take_arguments(const struct rpc_msg *msg)
{
    json_t *params = js_get(msg->json, "params");
    json_t *arguments = json_incref(js_get(params, "arguments"));

    (void)json_object_del(params, "arguments");
    return json_is_null(arguments) ? NULL : arguments;
}

static struct running *new_running(const struct exchange *x, const struct tool *t)
{
    const struct rpc_msg *msg = x->msg;
    const json_t *token = js_path(msg->params, "_meta", "progressToken", NULL);
    struct running *r = xcalloc(1, sizeof(*r));

    r->peer = x->peer;
    r->batch = x->batch;
    r->rev = x->rev;
    r->tool = t;
    r->arguments = take_arguments(msg);
    arena_init(&r->arena, CALL_ARENA_MAX);
    r->raw_id = arena_str(&r->arena, msg->raw_id);
    r->id = arena_str(&r->arena, js_str(msg->id));
    if (token != NULL) {
        struct str raw = js_raw(msg->text, "params", "_meta", "progressToken", NULL);

        r->token = arena_str(&r->arena, rpc_echo(token, raw));
    }
    r->cancel.fd = -1; /* until calls_start() has made one */
    r->ctx = (struct ctx){.arena = &r->arena, .cancel = &r->cancel};
    r->call = (struct call){
        .ctx = &r->ctx,
        .services = x->peer->mcp->services,
        .scope = x->peer->scope,
        .toolsets = x->peer->mcp->toolsets,
        .progress = r->token.len > 0 ? send_progress : NULL,
    };
    r->started_ms = clock_mono_ms();
    return r;
}

/* The call cannot run at all; its client hears why from the same place as ever. */
static void refuse(struct running *r, const struct err *e)
{
    struct buf text own_buf = {0};

    buf_init(&text, 2048);
    if (e->kind == ERR_LIMIT && e->sys == 0) {
        char sentence[160];

        (void)snprintf(sentence, sizeof(sentence),
                       "%lld calls are running, which is the most that may run at once; wait for "
                       "one to end or cancel one, then call again.",
                       (long long)r->call.services->config->max_calls);
        add_problem(&text, ERR_LIMIT, str_from(sentence));
    } else {
        struct err why = *e;

        (void)err_wrap(&why, "this call was not started and may be tried again later");
        add_problem(&text, why.kind, str_from(why.msg));
    }
    finish(r, buf_str(&text), true);
}

static int count_in(struct running *r, struct err *e)
{
    struct mcp *m = r->peer->mcp;
    int64_t max = m->services->config->max_calls;

    r->counted = true;
    if (atomic_fetch_add(&m->n_calls, 1) >= max) {
        return err_set(e, ERR_LIMIT, "all %lld calls are in use", (long long)max);
    }
    return 0;
}

void calls_start(const struct exchange *x, const struct tool *t)
{
    struct running *r = new_running(x, t);
    struct peer *p = x->peer;
    struct err e;
    bool ready = cancel_init(&r->cancel, &e) == 0 && count_in(r, &e) == 0;

    if (p->ops->hold != NULL) {
        p->ops->hold(p);
    }
    if (r->batch != NULL) {
        batch_hold(r->batch);
    }
    lock(&p->lock);
    list_add_tail(&p->calls, &r->link);
    unlock(&p->lock);
    if (!ready || pool_run(p->mcp->services->calls, run_call, r, &e) < 0) {
        refuse(r, &e);
    }
}

/* Strings are compared as such: the same one may be escaped in two ways. */
static bool same_id(const struct running *r, const json_t *id, struct str raw_id)
{
    return str_eq(r->raw_id, raw_id) ||
           (raw_id.p[0] == '"' && r->raw_id.p[0] == '"' && str_eq(r->id, js_str(id)));
}

void calls_cancel(struct peer *p, const json_t *id, struct str raw_id)
{
    struct list *pos;

    LOCKED(&p->lock);
    list_each (pos, &p->calls) {
        struct running *r = list_entry(pos, struct running, link);

        if (same_id(r, id, raw_id)) {
            r->taken_back = true;
            cancel_fire(&r->cancel);
        }
    }
}

void calls_cancel_all(struct peer *p)
{
    struct list *pos;

    LOCKED(&p->lock);
    list_each (pos, &p->calls) {
        cancel_fire(&list_entry(pos, struct running, link)->cancel);
    }
}
