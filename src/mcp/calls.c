/*
 * calls.c - a call from its request to its answer: of a tool, or of anything else that
 * takes time (struct job).
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
#include "base/thread.h"
#include "base/utf8.h"
#include "json/js.h"
#include "mcp/caps.h"
#include "mcp/level.h"
#include "mcp/listen.h"
#include "mcp/mcp.h"
#include "mcp/running.h"

#define CALL_ARENA_MAX  ((size_t)256 << 20) /* far above what a message of 16 MiB needs */
#define PROGRESS_GAP_MS 1000
#define PROGRESS_TEXT   512 /* bytes */

static void free_running(struct running *r)
{
    cancel_fini(&r->cancel);
    ask_fini(r);
    json_decref(r->call.content);
    arena_fini(&r->arena);
    json_decref(r->params);
    free(r);
}

static void finish(struct running *r, const struct buf *answer)
{
    struct peer *p = r->peer;
    bool sent;

    if (r->counted) {
        (void)atomic_fetch_sub(&p->mcp->n_calls, 1);
    }
    lock(&p->lock);
    sent = !r->taken_back;
    if (sent) {
        answer_send(p, r->batch, r->raw_id, buf_str(answer));
    }
    if (r->batch != NULL) {
        batch_release(r->batch);
    }
    list_del(&r->link);
    if (list_empty(&p->calls)) {
        (void)pthread_cond_broadcast(&p->idle);
    }
    unlock(&p->lock);
    request_log(p, r->method, r->raw_id, r->started_ms,
                !sent       ? "cancelled"
                : r->failed ? "error"
                            : "ok");
    free_running(r);
    if (p->ops->release != NULL) {
        p->ops->release(p);
    }
}

static void run_call(void *arg)
{
    struct running *r = arg;
    struct buf out own_buf = {0};
    struct err e;

    buf_init(&out, MCP_MESSAGE_MAX);
    if (ask_resume(r, &e) < 0) {
        running_error(r, &out, rpc_code_of(e.kind), str_from(e.msg), STR_EMPTY);
    } else {
        r->job->run(r, &out);
    }
    finish(r, &out);
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
    running_send(r, buf_str(&out), SEND_NOTICE);
}

/* The call's thread gets the parameters to itself: a reference count that two threads
 * use is one race too many in jansson. */
static json_t *take_params(const struct rpc_msg *msg)
{
    json_t *params = json_incref(js_get(msg->json, "params"));

    (void)json_object_del(msg->json, "params");
    return params;
}

static unsigned client_can(const struct exchange *x)
{
    if (x->batch != NULL) {
        return 0; /* its answers come together, when all is done */
    }
    if (!revision_has(x->rev, REV_MODERN)) {
        return peer_can(x->peer);
    }
    return caps_read(js_path(x->msg->params, "_meta", RPC_META_CAPABILITIES, NULL), x->rev);
}

/* From which level on the client wants messages. */
static enum call_level wanted_level(const struct exchange *x)
{
    if (!revision_has(x->rev, REV_MODERN)) {
        return peer_level(x->peer);
    }
    return level_find(js_str(js_path(x->msg->params, "_meta", RPC_META_LOG_LEVEL, NULL)));
}

static void publish(struct call *c, enum change what, struct str uri)
{
    listen_publish(CONTAINER_OF(c, struct running, call)->peer->mcp, what, uri);
}

static struct running *new_running(const struct exchange *x, const struct job *job, const void *row,
                                   const char *label)
{
    const struct rpc_msg *msg = x->msg;
    const json_t *token = js_path(msg->params, "_meta", "progressToken", NULL);
    struct running *r = xcalloc(1, sizeof(*r));

    r->peer = x->peer;
    r->batch = x->batch;
    r->rev = x->rev;
    r->job = job;
    r->row = row;
    r->label = label;
    arena_init(&r->arena, CALL_ARENA_MAX);
    r->method = arena_str(&r->arena, msg->method);
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
        .link_base = x->peer->link_base,
        .transport = x->peer->ops->transport,
        .request_id = r->raw_id,
        .progress = r->token.len > 0 ? send_progress : NULL,
        .changed = publish,
    };
    r->level = wanted_level(x);
    r->call.log = r->level != LEVEL_NONE ? running_log : NULL;
    ask_init(r, client_can(x));
    r->params = take_params(msg);
    r->started_ms = clock_mono_ms();
    return r;
}

/* The call cannot run at all; its client hears why from the same place as ever. */
static void refuse(struct running *r, const struct err *e)
{
    struct buf out own_buf = {0};
    struct err why = *e;

    buf_init(&out, MCP_MESSAGE_MAX);
    if (e->kind == ERR_LIMIT && e->sys == 0) {
        (void)err_set(&why, ERR_LIMIT,
                      "%lld calls are running, which is the most that may run at once; wait for "
                      "one to end or cancel one, then call again.",
                      (long long)r->call.services->config->max_calls);
    } else {
        (void)err_wrap(&why, "this call was not started and may be tried again later");
    }
    r->failed = true;
    r->job->refuse(r, why.kind, str_from(why.msg), &out);
    finish(r, &out);
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

void calls_start(const struct exchange *x, const struct job *job, const void *row,
                 const char *label)
{
    struct running *r = new_running(x, job, row, label);
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
