/*
 * ask.c - questions to the client in the middle of a call.
 *
 * Up to 2025-11-25 a question is a request of ours on the stream of the call, with an id
 * that nobody can guess. The call's thread sleeps until the answer comes in, by whatever
 * connection: mcp->questions is where the two meet. It waits ASK_WAIT_MS at most.
 *
 * From 2026-07-28 on a question is a result: the call ends, and the client makes the same
 * call again with its answers (inputResponses) and what we told it to bring along
 * (requestState, see state.h). The tool then runs from its beginning, and its questions
 * are answered at once. Answers of earlier rounds travel in the state, so that a tool may
 * ask one thing after the other without knowing of any of this.
 *
 * An answer that is missing or makes no sense is asked for again; only a state that is
 * not ours is an error.
 */
#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/own.h"
#include "base/thread.h"
#include "json/js.h"
#include "mcp/caps.h"
#include "mcp/mcp.h"
#include "mcp/running.h"
#include "mcp/state.h"

#define ASK_WAIT_MS 120000
#define ID_BYTES    16

static struct str owner_of(const struct peer *p)
{
    return p->scope != NULL ? p->scope->owner : STR_EMPTY;
}

/* Is it an answer to such a question at all? */
static bool is_answer(enum client_can kind, const json_t *answer)
{
    struct str action = js_str(js_get(answer, "action"));

    if (kind != CAN_FORM && kind != CAN_URL) {
        return json_is_object(answer);
    }
    return str_eq(action, S("accept")) || str_eq(action, S("decline")) ||
           str_eq(action, S("cancel"));
}

static void keep_answer(struct running *r, const struct question *q, json_t *answer)
{
    json_t *entry = json_array();

    (void)json_array_append_new(entry, js_string(q->about));
    (void)json_array_append_new(entry, answer);
    if (r->known == NULL) {
        r->known = json_object();
    }
    (void)json_object_set_new(r->known, q->key, entry);
}

static const json_t *find_known(const struct running *r, const struct question *q)
{
    const json_t *entry = js_get(r->known, q->key);

    if (!str_eq(js_str(json_array_get(entry, 0)), q->about)) {
        return NULL;
    }
    return json_array_get(entry, 1);
}

/* ---- until 2025-11-25: a request, and its answer ------------------------------------------ */

/* A question that is under way; on the stack of the call's thread. */
struct waiting {
    struct list link; /* mcp.questions; guarded by mcp->questions_lock, like what follows */
    char id[2 * ID_BYTES + 1];
    struct str owner; /* who may answer */
    int fd;           /* eventfd: answered */
    bool is_answered;
    json_t *answer; /* owned; NULL: an error */
};

static int begin(struct running *r, struct waiting *w, struct err *e)
{
    struct mcp *m = r->peer->mcp;

    *w = (struct waiting){.owner = owner_of(r->peer), .fd = eventfd(0, EFD_CLOEXEC)};
    if (w->fd < 0) {
        return err_sys(e, errno, "eventfd");
    }
    id_hex(w->id, ID_BYTES);
    LOCKED(&m->questions_lock);
    list_add_tail(&m->questions, &w->link);
    return 0;
}

/* Nobody answers it any more; what was answered is the caller's. */
static json_t *end(struct running *r, struct waiting *w)
{
    struct mcp *m = r->peer->mcp;

    lock(&m->questions_lock);
    list_del(&w->link);
    unlock(&m->questions_lock);
    (void)close(w->fd);
    return w->answer;
}

static void send_request(struct running *r, const struct waiting *w, const struct question *q)
{
    struct buf out own_buf = {0};

    buf_init(&out, MCP_MESSAGE_MAX);
    buf_addf(&out, "{\"jsonrpc\":\"2.0\",\"id\":\"%s\",\"method\":\"%s\",\"params\":", w->id,
             caps_method(q->kind));
    js_dump(q->params, &out);
    buf_addc(&out, '}');
    running_send(r, buf_str(&out), SEND_MESSAGE);
}

/* So that a form does not stay open that leads nowhere. */
static void send_withdrawal(struct running *r, const struct waiting *w)
{
    struct buf out own_buf = {0};

    buf_init(&out, MCP_MESSAGE_MAX);
    buf_addf(&out,
             "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{"
             "\"requestId\":\"%s\",\"reason\":\"there was no answer in time\"}}",
             w->id);
    running_send(r, buf_str(&out), SEND_MESSAGE);
}

/* Folders are asked for once, and again when the client says that they changed: by many calls,
 * most of which do not need them. A copy, because of the reference count. */
static json_t *known_roots(struct peer *p, unsigned *era)
{
    LOCKED(&p->lock);
    *era = p->roots_era;
    return json_deep_copy(p->roots);
}

/* No answer is one too: who gave none in two minutes is not waited for again. */
static void keep_roots(struct peer *p, const json_t *answer, unsigned era)
{
    LOCKED(&p->lock);
    if (p->roots_era == era) {
        json_decref(p->roots);
        p->roots = answer != NULL ? json_deep_copy(answer) : json_object();
    }
}

void ask_roots_changed(struct peer *p)
{
    LOCKED(&p->lock);
    p->roots_era++;
    json_decref(p->roots);
    p->roots = NULL;
}

static int ask_client(struct running *r, struct question *q, struct err *e)
{
    struct waiting w;
    struct pollfd answered;
    json_t *answer;
    int ready;

    if (begin(r, &w, e) < 0) {
        return -1;
    }
    answered = (struct pollfd){.fd = w.fd, .events = POLLIN};
    send_request(r, &w, q);
    ready = ctx_wait(&r->ctx, &answered, 1, clock_mono_ms() + ASK_WAIT_MS, e);
    answer = end(r, &w);
    if (ready == 0) {
        send_withdrawal(r, &w);
    }
    if (ready >= 0 && is_answer(q->kind, answer)) {
        q->answer = answer;
        keep_answer(r, q, answer);
        return 0;
    }
    json_decref(answer);
    return ready < 0 ? -1 : 0;
}

static int ask_one(struct running *r, struct question *q, struct err *e)
{
    unsigned era = 0;
    json_t *known = q->kind == CAN_ROOTS ? known_roots(r->peer, &era) : NULL;

    if (known != NULL) {
        q->answer = known;
        keep_answer(r, q, known);
        return 0;
    }
    if (ask_client(r, q, e) < 0) {
        return -1;
    }
    if (q->kind == CAN_ROOTS) {
        keep_roots(r->peer, q->answer, era);
    }
    return 0;
}

static int ask_now(struct running *r, struct question *questions, size_t n, struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        questions[i].answer = NULL;
        if (ask_one(r, &questions[i], e) < 0) {
            return -1;
        }
    }
    return ASK_ANSWERED;
}

/* The reference count of what the reader parsed is its own thread's, so the answer is
 * taken out of the message for the thread that waits. */
static json_t *take_result(json_t *message)
{
    json_t *result = json_incref(js_get(message, "result"));

    (void)json_object_del(message, "result");
    return result;
}

void ask_answered(struct peer *p, json_t *message)
{
    struct str id = js_str(js_get(message, "id"));
    struct mcp *m = p->mcp;
    struct list *pos;

    LOCKED(&m->questions_lock);
    list_each (pos, &m->questions) {
        struct waiting *w = list_entry(pos, struct waiting, link);
        uint64_t one = 1;

        if (str_eq(id, str_from(w->id)) && str_eq(owner_of(p), w->owner) && !w->is_answered) {
            w->is_answered = true;
            w->answer = take_result(message);
            (void)!write(w->fd, &one, sizeof(one));
            return;
        }
    }
}

/* ---- from 2026-07-28 on: a result, and another call -------------------------------------- */

/* The answer that this call brings, when the question was asked before. */
static const json_t *find_given(struct running *r, const struct question *q)
{
    json_t *answer = js_path(r->params, "inputResponses", q->key, NULL);

    if (q->about.len > 0 && !str_eq(js_str(js_get(r->asked, q->key)), q->about)) {
        return NULL;
    }
    if (!is_answer(q->kind, answer)) {
        return NULL;
    }
    keep_answer(r, q, json_incref(answer));
    return answer;
}

static void add_request(struct running *r, const struct question *q)
{
    if (r->requests == NULL) {
        r->requests = json_object();
        r->open = json_object();
    }
    (void)json_object_set_new(
        r->requests, q->key,
        json_pack("{s:s, s:O}", "method", caps_method(q->kind), "params", q->params));
    (void)json_object_set_new(r->open, q->key, js_string(q->about));
}

static int ask_by_result(struct running *r, struct question *questions, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct question *q = &questions[i];

        q->answer = find_known(r, q);
        if (q->answer == NULL) {
            q->answer = find_given(r, q);
        }
        if (q->answer == NULL) {
            add_request(r, q);
        }
    }
    r->call.asked = r->requests != NULL;
    return r->call.asked ? ASK_LATER : ASK_ANSWERED;
}

static struct tokens *tokens_of(const struct running *r)
{
    return r->peer->mcp->services->tokens;
}

static void bind_state(const struct running *r, unsigned char bound[SHA256_SIZE])
{
    state_bind(owner_of(r->peer), r->method, r->params, bound);
}

int ask_resume(struct running *r, struct err *e)
{
    const json_t *text = js_get(r->params, "requestState");
    const json_t *given = js_get(r->params, "inputResponses");
    unsigned char bound[SHA256_SIZE];
    json_t *state own_json = NULL;

    if (!revision_has(r->rev, REV_MODERN)) {
        return 0;
    }
    if (given != NULL && !json_is_object(given)) {
        return err_set(e, ERR_INVALID,
                       "\"inputResponses\" must be an object with an answer for each question");
    }
    if (text == NULL) {
        return 0;
    }
    bind_state(r, bound);
    state = state_open(tokens_of(r), bound, js_str(text), &r->arena, e);
    if (state == NULL) {
        return e->kind == ERR_GONE ? 0 : -1; /* too old: asked again */
    }
    r->asked = json_incref(js_get(state, "asked"));
    r->known = json_incref(js_get(state, "known"));
    return 0;
}

void ask_add_result(struct running *r, struct buf *out)
{
    json_t *state own_json = json_pack("{s:O, s:O*}", "asked", r->open, "known", r->known);
    unsigned char bound[SHA256_SIZE];
    struct buf text own_buf = {0};
    struct err e;

    bind_state(r, bound);
    buf_init(&text, TOKEN_TEXT_MAX);
    if (state_seal(tokens_of(r), bound, state, &text, &e) < 0) {
        running_error(r, out, rpc_code_of(e.kind), str_from(e.msg), STR_EMPTY);
        return;
    }
    rpc_begin_result(out, r->raw_id);
    buf_add(out, S("{\"inputRequests\":"));
    js_dump(r->requests, out);
    buf_add(out, S(",\"requestState\":\""));
    buf_add(out, buf_str(&text));
    buf_addc(out, '"');
    result_end_as(out, r->rev, "input_required");
    buf_addc(out, '}');
}

/* ---- both -------------------------------------------------------------------------------- */

static int ask(struct call *c, struct question *questions, size_t n, struct err *e)
{
    struct running *r = CONTAINER_OF(c, struct running, call);

    for (size_t i = 0; i < n; i++) {
        if ((c->can & (unsigned)questions[i].kind) == 0) {
            return err_set(e, ERR_UNSUPPORTED, "this client does not answer %s",
                           caps_method(questions[i].kind));
        }
    }
    return revision_has(r->rev, REV_MODERN) ? ask_by_result(r, questions, n)
                                            : ask_now(r, questions, n, e);
}

void ask_init(struct running *r, unsigned can)
{
    r->call.can = can;
    r->call.ask = can != 0 ? ask : NULL;
}

void ask_fini(struct running *r)
{
    json_decref(r->asked);
    json_decref(r->known);
    json_decref(r->requests);
    json_decref(r->open);
}
