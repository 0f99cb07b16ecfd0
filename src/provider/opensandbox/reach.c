/*
 * reach.c - the way to the execd of a box.
 *
 * Three are tried, in this order: the host port that the server names, without the detour that
 * execd's own proxy would be; the same with it; and through the server. A sandbox that was just
 * made does not listen yet, so the round is repeated, and the last way is left out of the first
 * rounds. What answered is kept with the handle until it fails.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/own.h"
#include "base/thread.h"
#include "provider/opensandbox/own.h"

#define READY_MS       30000  /* for an execd to answer whose sandbox runs */
#define FAR_MS         600000 /* that sandboxes cannot be reached straight is believed for so long */
#define PING_MS        5000   /* without an answer */
#define DIRECT_MS      2000   /* to connect straight */
#define FIRST_GAP_MS   5
#define LAST_GAP_MS    200
#define STRAIGHT_FIRST 4 /* rounds before the server is asked to pass things on */
#define RENEW_GAP_MS   5000
#define RENEW_WAIT_MS  10000
#define SAFE_SILENCE   20000
#define TRIES          3
#define TOKEN_HEADER   "X-EXECD-ACCESS-TOKEN"
#define PROXY_TRIES    50
#define PROXY_GAP_MS   100

struct box *osb_box_new(struct osb_provider *p, struct str ref)
{
    struct osb_box *b = xcalloc(1, sizeof(*b));
    bool is_own = ref.len == 32 && !str_has(ref, '-');

    b->ref = xmemdup(ref.p, ref.len);
    b->box = (struct box){.provider = &p->provider, .ref = {b->ref, ref.len}};
    atomic_init(&b->box.refs, 1);
    (void)pthread_mutex_init(&b->lock, NULL);
    (void)snprintf(is_own ? b->own_id : b->id, is_own ? sizeof(b->own_id) : sizeof(b->id), "%.*s",
                   STR_ARG(ref));
    return &b->box;
}

static int fail_gone(struct osb_box *b, struct err *e)
{
    LOCKED(&b->lock);
    b->is_reached = false;
    if (b->expires_s > 0 && clock_wall_ms() / 1000 >= b->expires_s - 1) {
        return err_set(e, ERR_GONE, "it has ended: its time to live was over");
    }
    return err_set(e, ERR_GONE,
                   "it has ended: the platform no longer has it; its time to live was over, or "
                   "somebody deleted it");
}

void osb_note(struct osb_box *b, const struct osb_sandbox *s)
{
    LOCKED(&b->lock);
    (void)snprintf(b->id, sizeof(b->id), "%.*s", STR_ARG(s->id));
    (void)snprintf(b->own_id, sizeof(b->own_id), "%.*s", STR_ARG(str_head(s->own_id, 32)));
    b->expires_s = s->expires_s;
    b->ttl_s = s->ttl_s;
    b->end_s = s->end_s;
}

static int note_found(void *arg, const struct osb_sandbox *s, struct err *e)
{
    (void)e;
    osb_note(arg, s);
    return 0;
}

int osb_know(struct osb_box *b, const struct ctx *ctx, struct str *id, struct err *e)
{
    struct osb_provider *p = osb_of(b->box.provider);
    char own_id[40];

    for (int i = 0; i < 2; i++) {
        {
            LOCKED(&b->lock);
            if (b->id[0] != '\0') {
                *id = arena_str(ctx->arena, str_from(b->id));
                return 0;
            }
            memcpy(own_id, b->own_id, sizeof(own_id));
        }
        if (i == 0 && osb_each(p, ctx, S(TAG_BOX), str_from(own_id), note_found, b, e) < 0) {
            return -1;
        }
    }
    return fail_gone(b, e);
}

void osb_forget_way(struct osb_box *b)
{
    LOCKED(&b->lock);
    b->is_reached = false;
}

/* ---- its life ---------------------------------------------------------------------------------- */

/* When it should end from now on; 0: as it is. */
static int64_t due_s(struct osb_box *b, bool is_free)
{
    int64_t now_s = clock_wall_ms() / 1000;
    int64_t until_s = now_s + b->ttl_s;

    if (b->expires_s == 0 || b->ttl_s == 0 || b->expires_s - now_s > b->ttl_s - b->ttl_s / 4) {
        return 0;
    }
    if (b->end_s > 0 && until_s > b->end_s && !is_free) {
        until_s = b->end_s;
    }
    return until_s > b->expires_s ? until_s : 0;
}

void osb_use(struct osb_box *b, const struct ctx *ctx)
{
    struct osb_provider *p = osb_of(b->box.provider);
    struct ctx own = {
        .arena = ctx->arena, .cancel = ctx->cancel, .deadline_ms = clock_mono_ms() + RENEW_WAIT_MS};
    struct str id;
    int64_t expires_s = 0;
    int64_t until_s = 0;
    struct err ignored;

    {
        LOCKED(&b->lock);
        int64_t now_ms = clock_mono_ms();

        until_s = due_s(b, p->auto_renew);
        if (until_s == 0 || (b->renewed_ms > 0 && now_ms - b->renewed_ms < RENEW_GAP_MS)) {
            return;
        }
        b->renewed_ms = now_ms;
        id = arena_str(ctx->arena, str_from(b->id));
    }
    if (osb_renew(p, &own, id, until_s, &expires_s, &ignored) == 0) {
        LOCKED(&b->lock);
        b->expires_s = expires_s > 0 ? expires_s : until_s;
    }
}

static int fail_ended(const struct osb_sandbox *s, struct err *e)
{
    struct str why = osb_why(s);

    if (s->expires_s > 0 && clock_wall_ms() / 1000 >= s->expires_s - 1) {
        return err_set(e, ERR_GONE, "it has ended: its time to live was over");
    }
    return err_set(e, ERR_GONE,
                   "it has ended: the platform says %.*s%s%.*s; make another with create_sandbox",
                   STR_ARG(s->state), why.len > 0 ? ", " : "", STR_ARG(str_head(why, 200)));
}

/* 0: it runs; 1: it does not yet, and something was done about that. */
static int look_at_state(struct osb_box *b, const struct ctx *ctx, struct str id, struct err *e)
{
    struct osb_provider *p = osb_of(b->box.provider);
    struct osb_sandbox s;

    if (osb_get(p, ctx, id, &s, e) < 0) {
        return e->kind == ERR_GONE ? fail_gone(b, e) : -1;
    }
    osb_note(b, &s);
    switch (osb_state(s.state)) {
    case BOX_GONE: osb_bury(p, &s); return fail_ended(&s, e);
    case BOX_PAUSED:
        /* Somebody else may have resumed it in between. */
        return osb_resume(p, ctx, id, e) < 0 && e->kind != ERR_INVALID ? -1 : 1;
    case BOX_STARTING: return 1;
    case BOX_RUNNING:
    case BOX_UNKNOWN: return 0;
    }
    return 0;
}

int osb_explain(struct osb_box *b, const struct ctx *ctx, struct err *e)
{
    struct err why = {0};
    struct str id = STR_EMPTY;
    int rc = osb_know(b, ctx, &id, &why);

    rc = rc < 0 ? -1 : look_at_state(b, ctx, id, &why);
    if (rc < 0) {
        *e = why.kind == ERR_GONE || why.kind == ERR_DENIED ? why : *e;
        return -1;
    }
    return rc;
}

/* ---- the ways ------------------------------------------------------------------------------------ */

struct search {
    struct osb_box *box;
    struct osb_provider *provider;
    const struct ctx *ctx;
    struct str id;
    struct way ways[3];
    size_t n;
    bool is_far;      /* nothing comes back from the direct address: only the server leads there */
    char failed[400]; /* of the last way that was tried, for the sentence */
};

static void add_header(struct way *w, struct str line)
{
    if (w->n_headers < COUNTOF(w->headers) && line.len < sizeof(w->headers[0])) {
        (void)snprintf(w->headers[w->n_headers++], sizeof(w->headers[0]), "%.*s", STR_ARG(line));
    }
}

static bool has_header(const struct way *w, struct str name)
{
    for (size_t i = 0; i < w->n_headers; i++) {
        struct str value;

        if (str_eq_nocase(str_cut(str_from(w->headers[i]), ':', &value), name)) {
            return true;
        }
    }
    return false;
}

static void add_way(struct search *s, struct str where, const struct osb_endpoint *endpoint,
                    bool is_proxy)
{
    struct way *w = &s->ways[s->n++];
    bool has_scheme = str_starts(where, S("http://")) || str_starts(where, S("https://"));

    *w = (struct way){.is_proxy = is_proxy};
    while (str_ends(where, S("/"))) {
        where.len--;
    }
    (void)snprintf(w->base, sizeof(w->base), "%s%.*s",
                   has_scheme              ? ""
                   : s->provider->is_https ? "https://"
                                           : "http://",
                   STR_ARG(where));
    for (size_t i = 0; endpoint != NULL && i < endpoint->n_headers; i++) {
        add_header(w, endpoint->headers[i]);
    }
}

static void add_token(struct search *s)
{
    char token[65];
    char own_id[40];
    char line[128];

    {
        LOCKED(&s->box->lock);
        memcpy(own_id, s->box->own_id, sizeof(own_id));
    }
    if (own_id[0] == '\0') {
        return;
    }
    osb_token(s->provider, str_from(own_id), token);
    (void)snprintf(line, sizeof(line), TOKEN_HEADER ": %s", token);
    for (size_t i = 0; i < s->n; i++) {
        if (!has_header(&s->ways[i], S(TOKEN_HEADER))) { /* the server's own goes first */
            add_header(&s->ways[i], str_from(line));
        }
    }
}

/* 1: *at is where execd is; 0: the sandbox has no address yet. */
static int ask_endpoint(struct search *s, bool proxied, struct osb_endpoint *at, struct err *e)
{
    int rc = osb_endpoint(s->provider, s->ctx, s->id, EXECD_PORT, proxied, at, e);

    if (rc == 0) {
        (void)snprintf(s->failed, sizeof(s->failed), "it has no address yet");
    }
    return rc < 0 && e->kind == ERR_GONE ? fail_gone(s->box, e) : rc;
}

static int find_ways(struct search *s, struct err *e)
{
    struct osb_provider *p = s->provider;
    struct osb_endpoint at;
    const struct str detour = S("/proxy/44772");
    int rc = 1;

    s->n = 0;
    if (p->way != PLATFORM_PROXY && !s->is_far) {
        rc = ask_endpoint(s, false, &at, e);
        if (rc <= 0) {
            return rc;
        }
        if (str_ends(at.where, detour)) {
            add_way(s, str_head(at.where, at.where.len - detour.len), &at, false);
        }
        add_way(s, at.where, &at, false);
    }
    if (p->way != PLATFORM_DIRECT) {
        /* The server's own idea of its address may not be ours: only the headers are taken. */
        rc = ask_endpoint(s, true, &at, e);
        if (rc <= 0) {
            return rc;
        }
        add_way(s,
                arena_printf(s->ctx->arena, "%s/sandboxes/%.*s/proxy/%d", p->base, STR_ARG(s->id),
                             EXECD_PORT),
                &at, true);
    }
    add_token(s);
    return 0;
}

void osb_request(const struct osb_provider *p, const struct ctx *ctx, const struct way *way,
                 const char *method, struct str path, struct web_req *req)
{
    req->method = method;
    req->url = arena_printf(ctx->arena, "%s%.*s", way->base, STR_ARG(path));
    req->n_headers = 0;
    for (size_t i = 0; i < way->n_headers; i++) {
        req->headers[req->n_headers++] = arena_str(ctx->arena, str_from(way->headers[i]));
    }
    /* Code of the sandbox shares its host with execd: the key is for the server alone. */
    if (way->is_proxy && p->api_key[0] != '\0') {
        req->headers[req->n_headers++] =
            arena_printf(ctx->arena, "OPEN-SANDBOX-API-KEY: %s", p->api_key);
    }
}

/* 1: execd answers; 0: not this way, or not yet. */
static int ping(struct search *s, const struct way *way, bool *is_deaf, struct err *e)
{
    struct web_req req = {.silence_ms = PING_MS, .connect_ms = way->is_proxy ? 0 : DIRECT_MS};
    struct web_resp resp own_resp;
    int64_t began_ms = clock_mono_ms();

    web_resp_init(&resp);
    osb_request(s->provider, s->ctx, way, "GET", S("/ping"), &req);
    if (web_do(s->provider->web, s->ctx, &req, &resp, e) < 0) {
        *is_deaf = resp.refused;
        s->is_far = s->is_far || (resp.refused && s->provider->way == PLATFORM_AUTO &&
                                  clock_mono_ms() - began_ms >= DIRECT_MS);
        (void)snprintf(s->failed, sizeof(s->failed), "%.200s: %.150s", way->base, e->msg);
        return e->kind == ERR_UNREACHABLE ? 0 : -1;
    }
    (void)snprintf(s->failed, sizeof(s->failed), "%.200s: HTTP %ld", way->base, resp.status);
    if (resp.status == 401) {
        return osb_fail("let us into the sandbox", &resp, e);
    }
    return resp.status >= 200 && resp.status < 300 ? 1 : 0;
}

/* One round. 1: *found is a way. */
static int try_ways(struct search *s, int round, const struct way **found, struct err *e)
{
    bool is_deaf = false;

    for (size_t i = 0; i < s->n; i++) {
        const struct way *w = &s->ways[i];
        bool is_last_resort = w->is_proxy && s->n > 1 && !s->is_far;

        if ((!w->is_proxy && (is_deaf || s->is_far)) ||
            (is_last_resort && round < STRAIGHT_FIRST)) {
            continue;
        }
        int rc = ping(s, w, &is_deaf, e);
        if (rc != 0) {
            *found = w;
            return rc;
        }
    }
    return 0;
}

/* ---- what the place is like ------------------------------------------------------------------------ */

static bool put_line(struct str *rest, char *to, size_t size)
{
    struct str line = str_cut(*rest, '\n', rest);

    if (line.len >= size) {
        return false;
    }
    memcpy(to, line.p, line.len);
    to[line.len] = '\0';
    return true;
}

static int learn(struct search *s, struct way *way, struct err *e)
{
    struct buf script own_buf = {0}, said own_buf = {0};
    char shell[8];
    int status = 0;

    buf_init(&script, 64u << 10);
    buf_init(&said, 64u << 10);
    buf_add(&script, S("h=${HOME:-/};w="));
    buf_add_quoted(&script, str_from(s->provider->work_dir));
    buf_add(&script, S(";[ -n \"$w\" ]&&{ [ -d \"$w\" ]||mkdir -p -- \"$w\" 2>/dev/null;};"
                       "{ [ -n \"$w\" ]&&[ -w \"$w\" ]&&cd -- \"$w\" 2>/dev/null;}||cd -- \"$h\"||"
                       "cd /;printf '%s\\n' \"$h\" \"$PWD\" \"$(id -un 2>/dev/null)\" "
                       "\"${BASH_VERSION:+bash}\""));
    if (osb_run(s->box, s->ctx, way, buf_str(&script), &said, &status, e) < 0) {
        return -1;
    }
    struct str rest = buf_str(&said);
    if (status != 0 || !put_line(&rest, way->home, sizeof(way->home)) ||
        !put_line(&rest, way->work, sizeof(way->work)) ||
        !put_line(&rest, way->user, sizeof(way->user)) || !put_line(&rest, shell, sizeof(shell)) ||
        way->work[0] != '/') {
        return err_set(e, ERR_PROTOCOL,
                       "the sandbox's shell does not tell where its folders are: has its image a "
                       "shell?");
    }
    way->has_bash = shell[0] != '\0';
    return 0;
}

/* The state of the sandbox and its ways, anew. A sandbox that does not run yet has more time, up to what
 * a create may take. */
static int look_again(struct search *s, int64_t began_ms, int64_t *until_ms, struct err *e)
{
    int64_t last_ms = began_ms + (int64_t)s->provider->create_s * 1000;
    int64_t more_ms = clock_mono_ms() + READY_MS;
    int state = look_at_state(s->box, s->ctx, s->id, e);

    if (state > 0) {
        *until_ms = more_ms < last_ms ? more_ms : last_ms;
    }
    return state < 0 ? -1 : find_ways(s, e);
}

/* 1: *out is a way to an execd that runs commands; 0: not yet. */
static int try_once(struct search *s, int round, struct way *out, struct err *e)
{
    const struct way *found = NULL;
    int rc = try_ways(s, round, &found, e);

    if (rc <= 0) {
        return rc;
    }
    *out = *found;
    if (learn(s, out, e) == 0) {
        return 1;
    }
    (void)snprintf(s->failed, sizeof(s->failed), "%.390s", e->msg);
    return e->kind == ERR_UNREACHABLE ? 0 : -1; /* execd answers pings before it does all else */
}

static int search_way(struct search *s, struct way *out, struct err *e)
{
    int64_t began_ms = clock_mono_ms();
    int64_t until_ms = began_ms + READY_MS;
    int64_t gap_ms = FIRST_GAP_MS;

    for (int round = 0;; round++) {
        /* Endpoints change when a sandbox was paused, and it may have ended. */
        if ((round == 0 || round % 8 == 7) && look_again(s, began_ms, &until_ms, e) < 0) {
            return -1;
        }
        int rc = try_once(s, round, out, e);
        if (rc != 0) {
            return rc < 0 ? -1 : 0;
        }
        if (clock_mono_ms() > until_ms) {
            return err_set(
                e, ERR_UNREACHABLE,
                "it does not answer within %lld s (%s); opensandbox.connection = \"proxy\" "
                "goes through the server",
                (long long)(until_ms - began_ms) / 1000, s->failed);
        }
        if (ctx_wait(s->ctx, NULL, 0, clock_mono_ms() + gap_ms, e) < 0) {
            return -1;
        }
        gap_ms = gap_ms * 2 < LAST_GAP_MS ? gap_ms * 2 : LAST_GAP_MS;
    }
}

/* Whether sandboxes of this platform are known not to be reached straight from here. */
static bool is_far(struct osb_provider *p)
{
    LOCKED(&p->lock);
    return p->far_ms > 0 && clock_mono_ms() - p->far_ms < FAR_MS;
}

int osb_reach(struct osb_box *b, const struct ctx *ctx, struct way *out, struct err *e)
{
    struct search *s own_mem = NULL;
    bool is_known;

    {
        LOCKED(&b->lock);
        is_known = b->is_reached;
        if (is_known) {
            *out = b->way;
        }
    }
    if (is_known) {
        osb_use(b, ctx);
        return 0;
    }
    s = xcalloc(1, sizeof(*s));
    s->box = b;
    s->provider = osb_of(b->box.provider);
    s->ctx = ctx;
    s->is_far = s->provider->way == PLATFORM_AUTO && is_far(s->provider);
    bool was_far = s->is_far;
    if (osb_know_secret(s->provider, e) < 0 || osb_know(b, ctx, &s->id, e) < 0 ||
        search_way(s, out, e) < 0) {
        return -1;
    }
    if (s->is_far && !was_far) {
        LOCKED(&s->provider->lock);
        s->provider->far_ms = clock_mono_ms();
    }
    {
        LOCKED(&b->lock);
        b->way = *out;
        b->is_reached = true;
    }
    osb_use(b, ctx);
    return 0;
}

/* ---- one exchange with execd ----------------------------------------------------------------------------- */

static bool is_safe(const char *method)
{
    return strcmp(method, "GET") == 0 || strcmp(method, "DELETE") == 0;
}

static bool says(const struct web_resp *r, const char *word)
{
    return r->body.len > 0 && memmem(r->body.p, r->body.len, word, strlen(word)) != NULL;
}

/* Proxies that answer 503 for a connection that broke say so, and of one that was never there, too. */
static bool is_unavailable(const struct web_resp *r)
{
    return r->status == 503 &&
           (!says(r, "before headers") || says(r, "connection failure") || says(r, "overflow"));
}

/* Nobody in the sandbox heard of the request: the platform's server has no such sandbox, or it or a gateway
 * cannot connect, or execd is not ready for more than pings. */
bool osb_is_unheard(const struct web_resp *r)
{
    if (r->status == 404) {
        return !says(r, "FILE_NOT_FOUND") &&
               (says(r, "SANDBOX_NOT_FOUND") || says(r, "POD_IP_NOT_AVAILABLE") ||
                says(r, "OpenSandbox Ingress"));
    }
    return is_unavailable(r) || (r->status == 502 && says(r, "Could not connect"));
}

/* 1: the same again; 0: it is an answer. */
static int judge(struct osb_box *b, const struct ctx *ctx, const struct web_req *req,
                 const struct web_resp *r, int n, struct err *e)
{
    bool is_unsure = r->status == 502 && is_safe(req->method);

    if (!osb_is_unheard(r) && !is_unsure) {
        return 0;
    }
    (void)osb_fail("pass a request on", r, e);
    int state = osb_explain(b, ctx, e);
    if (state < 0 || n >= PROXY_TRIES || req->file != NULL) { /* a file is read once */
        return -1;
    }
    if (state > 0) {
        osb_forget_way(b);
    }
    return ctx_wait(ctx, NULL, 0, clock_mono_ms() + PROXY_GAP_MS, e) < 0 ? -1 : 1;
}

int osb_execd(struct osb_box *b, const struct ctx *ctx, const char *method, struct str path,
              struct web_req *req, struct web_resp *resp, struct err *e)
{
    struct osb_provider *p = osb_of(b->box.provider);
    struct way *way own_mem = xcalloc(1, sizeof(*way));
    int fails = 0;

    if (req->silence_ms == 0) {
        req->silence_ms = SAFE_SILENCE;
    }
    for (int n = 0;; n++) {
        if (osb_reach(b, ctx, way, e) < 0) {
            return -1;
        }
        osb_request(p, ctx, way, method, path, req);
        if (web_do(p->web, ctx, req, resp, e) == 0) {
            int rc = judge(b, ctx, req, resp, n, e);

            if (rc <= 0) {
                return rc;
            }
            continue;
        }
        if (e->kind != ERR_UNREACHABLE) {
            return -1;
        }
        bool is_new = resp->not_sent || (is_safe(method) && !resp->broken);
        osb_forget_way(b);
        int again = osb_explain(b, ctx, e);
        if (again < 0 || !is_new || ++fails >= TRIES) {
            return -1;
        }
    }
}
