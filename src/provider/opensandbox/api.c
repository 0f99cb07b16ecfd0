/*
 * api.c - the platform's lifecycle server, as its code answers where its specification says
 * otherwise: any status that is no success may have a body of {"code", "message"}, of
 * {"detail"} with a text or a list, or plain text.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/plain.h"
#include "provider/opensandbox/own.h"

#define PAGE_SIZE 200 /* the most that the server gives */
#define PAGES_MAX 500
#define MIB_MAX   (INT64_MAX >> 20)

enum box_state osb_state(struct str state)
{
    static const struct {
        struct str word;
        enum box_state state;
    } states[] = {
        {{"Pending", 7}, BOX_STARTING}, {{"Allocated", 9}, BOX_STARTING},
        {{"Running", 7}, BOX_RUNNING},  {{"Pausing", 7}, BOX_PAUSED},
        {{"Paused", 6}, BOX_PAUSED},    {{"Resuming", 8}, BOX_STARTING},
        {{"Stopping", 8}, BOX_GONE},    {{"Terminated", 10}, BOX_GONE},
        {{"Failed", 6}, BOX_GONE},
    };

    for (size_t i = 0; i < COUNTOF(states); i++) {
        if (str_eq_nocase(states[i].word, state)) {
            return states[i].state;
        }
    }
    return BOX_UNKNOWN;
}

struct str osb_why(const struct osb_sandbox *s)
{
    struct str why = s->message.len > 0 ? s->message : s->reason;

    while (str_ends(why, S("."))) {
        why.len--;
    }
    return why;
}

/* ---- what went wrong -------------------------------------------------------------------------- */

/* FastAPI's own shape: [{"loc": ["body", "timeout"], "msg": "..."}]. */
static void add_details(const json_t *list, struct buf *out)
{
    size_t n = json_array_size(list);

    for (size_t i = 0; i < n && i < 5; i++) {
        const json_t *one = json_array_get(list, i);
        const json_t *loc = js_get(one, "loc");
        struct str where = js_str(json_array_get(loc, json_array_size(loc) - 1));

        buf_add(out, i > 0 ? S("; ") : STR_EMPTY);
        if (where.len > 0) {
            buf_addf(out, "%.*s: ", STR_ARG(where));
        }
        buf_add(out, js_str(js_get(one, "msg")));
    }
}

static void add_reason(const struct web_resp *r, struct str *code, struct buf *out, json_t **keep)
{
    struct err ignored;
    struct str body = str_trim(buf_str(&r->body));
    json_t *v = body.len > 0 ? js_parse(body.p, body.len, &ignored) : NULL;
    const json_t *detail = js_get(v, "detail");

    *keep = v;
    *code = js_str(js_get(v, "code"));
    if (js_get(v, "message") != NULL) {
        buf_add(out, js_str(js_get(v, "message")));
    } else if (json_is_array(detail)) {
        add_details(detail, out);
    } else if (detail != NULL) {
        buf_add(out, js_str(detail));
    } else if (js_get(v, "error") != NULL) {
        buf_add(out, js_str(js_get(v, "error")));
    } else {
        buf_add(out, str_head(body, 200));
    }
}

struct advice {
    const char *code; /* a part of the code or of the message */
    long status;      /* 0: any */
    enum err_kind kind;
    const char *todo;
};

/* The first that fits. */
static const struct advice advices[] = {
    {"Unauthorized", 401, ERR_DENIED,
     "its token is another's: it was not made with the state folder of this anybox"},
    {NULL, 401, ERR_DENIED,
     "set OPEN_SANDBOX_API_KEY (opensandbox.api_key) to the key of the server"},
    {"IMAGE_PULL_FAILED", 0, ERR_INVALID,
     "name an image that the platform can pull, such as python:3.12, or set opensandbox.image"},
    {"quota", 0, ERR_LIMIT, "delete a sandbox with delete_sandbox, or ask who runs the platform"},
    {NULL, 429, ERR_LIMIT, "wait a moment, or delete a sandbox with delete_sandbox"},
    {NULL, 403, ERR_DENIED, "ask who runs the platform"},
    {"timeout: ", 422, ERR_INVALID, "a sandbox of this platform lives for 60 s or longer"},
    {"exceeds configured maximum", 400, ERR_INVALID, "give a shorter timeout"},
    {"egress", 400, ERR_INVALID, "leave network out: this platform has no egress control"},
    {"networkPolicy", 400, ERR_INVALID, "leave network out: this platform has no egress control"},
    {"NOT_RUNNING", 0, ERR_UNREACHABLE, "it may be paused or starting: try again"},
    {"POD_READY_TIMEOUT", 0, ERR_UNREACHABLE,
     "the platform has no room just now, or fetches the image still: try again"},
    {"POD_IP_NOT_AVAILABLE", 0, ERR_UNREACHABLE, "it is starting: try again in a moment"},
    {"START_FAILED", 0, ERR_SYSTEM, "does the image have what opensandbox.entrypoint names?"},
    {NULL, 404, ERR_GONE, NULL},
    {NULL, 400, ERR_INVALID, NULL},
    {NULL, 409, ERR_INVALID, NULL},
    {NULL, 422, ERR_INVALID, NULL},
    {NULL, 502, ERR_UNREACHABLE, "try again in a moment"},
    {NULL, 503, ERR_UNREACHABLE, "the server is busy: try again in a moment"},
    {NULL, 504, ERR_UNREACHABLE, "try again in a moment"},
    {NULL, 0, ERR_SYSTEM, NULL},
};

static bool has(struct str text, const char *word)
{
    return text.len > 0 && memmem(text.p, text.len, word, strlen(word)) != NULL;
}

static const struct advice *advice_for(long status, struct str code, struct str text)
{
    size_t i = 0;

    while (i + 1 < COUNTOF(advices)) {
        const struct advice *a = &advices[i];
        bool fits = a->status == 0 || a->status == status;

        if (fits && (a->code == NULL || has(code, a->code) || has(text, a->code))) {
            return a;
        }
        i++;
    }
    return &advices[i];
}

int osb_fail(const char *doing, const struct web_resp *r, struct err *e)
{
    struct buf said own_buf = {0}, text own_buf = {0};
    struct str code = STR_EMPTY;
    json_t *keep own_json = NULL;

    buf_init(&said, 2000);
    buf_init(&text, 300);
    add_reason(r, &code, &said, &keep);
    plain_text(str_head(buf_str(&said), 240), &text);
    const struct advice *a = advice_for(r->status, code, buf_str(&said));
    return err_set(e, a->kind, "the platform could not %s: %.*s%s%.*s (HTTP %ld)%s%s", doing,
                   STR_ARG(str_head(code, 80)), code.len > 0 && text.len > 0 ? ": " : "",
                   STR_ARG(buf_str(&text)), r->status, a->todo != NULL ? ": " : "",
                   a->todo != NULL ? a->todo : "");
}

int osb_away(const struct osb_provider *p, struct err *e)
{
    struct err was = *e;

    if (was.kind != ERR_UNREACHABLE) {
        return -1;
    }
    return err_set(e, ERR_UNREACHABLE,
                   "the OpenSandbox server at %s cannot be reached: %s. Is it running? "
                   "OPENSANDBOX_SERVER (opensandbox.server) says where it is",
                   p->base, was.msg);
}

/* ---- one exchange ------------------------------------------------------------------------------ */

static int64_t silence_ms(const struct osb_provider *p, const struct osb_call *call)
{
    return call->silence_ms > 0 ? call->silence_ms : (int64_t)p->request_s * 1000;
}

static int fail_slow(const struct osb_provider *p, const struct osb_call *call, struct err *e)
{
    return err_set(e, ERR_UNREACHABLE, "the OpenSandbox server at %s did not %s within %lld s%s",
                   p->base, call->doing, (long long)silence_ms(p, call) / 1000,
                   call->silence_ms > 0 ? ": it may still be fetching the image; try again, or set "
                                          "opensandbox.create_timeout to more"
                                        : "");
}

/* A gateway before the server that lost patience answers in words of its own, and the server goes on. */
static void note_failure(const struct osb_call *call, const struct web_resp *r)
{
    struct str body = buf_str(&r->body);

    if (call->may_act != NULL) {
        *call->may_act =
            (r->status == 502 || r->status == 504 || r->status == 524) && !has(body, "\"code\"");
    }
    if (call->is_early != NULL) {
        *call->is_early = r->status == 404 && has(body, "POD_IP_NOT_AVAILABLE");
    }
}

int osb_ask(struct osb_provider *p, const struct ctx *ctx, const struct osb_call *call,
            json_t **out, struct err *e)
{
    struct web_resp resp own_resp;
    struct web_req req = {.method = call->method, .body = call->body};
    char request_id[33];

    id_hex(request_id, 16);
    req.url = arena_printf(ctx->arena, "%s%.*s", p->base, STR_ARG(call->path));
    req.silence_ms = silence_ms(p, call);
    req.headers[req.n_headers++] = arena_printf(ctx->arena, "X-Request-ID: %s", request_id);
    if (p->api_key[0] != '\0') {
        req.headers[req.n_headers++] =
            arena_printf(ctx->arena, "OPEN-SANDBOX-API-KEY: %s", p->api_key);
    }
    web_resp_init(&resp);
    if (web_do(p->web, ctx, &req, &resp, e) < 0) {
        if (call->may_act != NULL) {
            *call->may_act = !resp.not_sent;
        }
        return resp.silent ? fail_slow(p, call, e) : osb_away(p, e);
    }
    if (resp.status == 404 && call->is_tolerant) {
        return 0;
    }
    if (resp.status < 200 || resp.status > 299) {
        note_failure(call, &resp);
        return osb_fail(call->doing, &resp, e);
    }
    if (out == NULL) {
        return 0;
    }
    struct str body = buf_str(&resp.body);
    *out = js_parse(body.p, body.len, e);
    if (*out == NULL) {
        return err_set(e, ERR_PROTOCOL,
                       "%s answers what is no OpenSandbox server's: is OPENSANDBOX_SERVER right?",
                       p->base);
    }
    return 0;
}

/* ---- sandboxes ---------------------------------------------------------------------------------- */

/* "2026-06-12T06:52:53.899034Z", or with an offset. 0: it cannot be read. */
static int64_t parse_time(struct str text)
{
    char copy[64];
    struct tm tm = {0};
    int sign = 0;
    int hours = 0;
    int minutes = 0;

    if (text.len == 0 || text.len >= sizeof(copy)) {
        return 0;
    }
    memcpy(copy, text.p, text.len);
    copy[text.len] = '\0';
    const char *rest = strptime(copy, "%Y-%m-%dT%H:%M:%S", &tm);
    if (rest == NULL) {
        return 0;
    }
    if (*rest == '.') {
        rest += 1 + strspn(rest + 1, "0123456789");
    }
    if (*rest == '+' || *rest == '-') {
        sign = *rest == '+' ? 1 : -1;
        if (sscanf(rest + 1, "%2d:%2d", &hours, &minutes) != 2) {
            return 0;
        }
    }
    return (int64_t)timegm(&tm) - (int64_t)sign * (hours * 3600 + minutes * 60);
}

static int64_t tag_number(const json_t *tags, const char *key, int64_t max)
{
    struct err ignored;
    int64_t n = 0;

    return str_to_i64(js_str(js_get(tags, key)), 0, max, &n, &ignored) == 0 ? n : 0;
}

static struct str kept(struct arena *a, const json_t *v, const char *key)
{
    return arena_str(a, js_str(js_get(v, key)));
}

static int read_sandbox(const json_t *v, struct arena *a, struct osb_sandbox *out, struct err *e)
{
    const json_t *status = js_get(v, "status");
    const json_t *tags = js_get(v, "metadata");

    *out = (struct osb_sandbox){
        .id = kept(a, v, "id"),
        .state = kept(a, status, "state"),
        .reason = kept(a, status, "reason"),
        .message = kept(a, status, "message"),
        .image = kept(a, js_get(v, "image"), "uri"),
        .own_id = kept(a, tags, TAG_BOX),
        .owner = kept(a, tags, TAG_OWNER),
        .name = kept(a, tags, TAG_NAME),
        .created_s = parse_time(js_str(js_get(v, "createdAt"))),
        .expires_s = parse_time(js_str(js_get(v, "expiresAt"))),
        .ttl_s = tag_number(tags, TAG_TTL, INT32_MAX),
        .end_s = tag_number(tags, TAG_LIFE, INT64_MAX),
        .memory_mib = tag_number(tags, TAG_MEMORY, MIB_MAX),
        .cpu_millis = tag_number(tags, TAG_CPU, INT32_MAX),
        .network =
            str_eq(js_str(js_get(tags, TAG_NETWORK)), S("none")) ? NETWORK_NONE : NETWORK_INTERNET,
    };
    if (out->id.len == 0 || out->id.len > 64) {
        return err_set(e, ERR_PROTOCOL, "the server tells of a sandbox without an id");
    }
    return 0;
}

static struct str path_of(const struct ctx *ctx, struct str id, const char *below)
{
    struct buf path own_buf = {0};

    buf_init(&path, OSB_TEXT_MAX);
    buf_add(&path, S("/sandboxes/"));
    web_add_escaped(&path, id);
    buf_add(&path, str_from(below));
    return arena_str(ctx->arena, buf_str(&path));
}

int osb_get(struct osb_provider *p, const struct ctx *ctx, struct str id, struct osb_sandbox *out,
            struct err *e)
{
    struct osb_call call = {
        .method = "GET", .path = path_of(ctx, id, ""), .doing = "tell about the sandbox"};
    json_t *v own_json = NULL;

    return osb_ask(p, ctx, &call, &v, e) < 0 ? -1 : read_sandbox(v, ctx->arena, out, e);
}

static struct str list_path(const struct ctx *ctx, struct str key, struct str value, int page)
{
    struct buf path own_buf = {0}, pair own_buf = {0};

    buf_init(&path, OSB_TEXT_MAX);
    buf_init(&pair, OSB_TEXT_MAX);
    buf_addf(&path, "/sandboxes?page=%d&pageSize=%d", page, PAGE_SIZE);
    if (key.len > 0) {
        /* A query string inside a parameter: encoded twice. */
        web_add_escaped(&pair, key);
        buf_addc(&pair, '=');
        web_add_escaped(&pair, value);
        buf_add(&path, S("&metadata="));
        web_add_escaped(&path, buf_str(&pair));
    }
    return arena_str(ctx->arena, buf_str(&path));
}

int osb_each(struct osb_provider *p, const struct ctx *ctx, struct str key, struct str value,
             osb_sandbox_fn *each, void *arg, struct err *e)
{
    for (int page = 1; page <= PAGES_MAX; page++) {
        struct osb_call call = {.method = "GET",
                                .path = list_path(ctx, key, value, page),
                                .doing = "list the sandboxes"};
        json_t *v own_json = NULL;

        if (osb_ask(p, ctx, &call, &v, e) < 0) {
            return -1;
        }
        const json_t *items = js_get(v, "items");
        for (size_t i = 0; i < json_array_size(items); i++) {
            struct osb_sandbox one;

            if (read_sandbox(json_array_get(items, i), ctx->arena, &one, e) < 0 ||
                each(arg, &one, e) < 0) {
                return -1;
            }
        }
        if (!json_is_true(js_get(js_get(v, "pagination"), "hasNextPage"))) {
            return 0;
        }
    }
    return 0;
}

int osb_create(struct osb_provider *p, const struct ctx *ctx, json_t *order,
               struct osb_sandbox *out, bool *may_exist, struct err *e)
{
    struct buf body own_buf = {0};
    json_t *v own_json = NULL;

    buf_init(&body, 16u << 20);
    js_dump(order, &body);
    struct osb_call call = {.method = "POST",
                            .path = S("/sandboxes"),
                            .body = buf_str(&body),
                            .doing = "create the sandbox",
                            .silence_ms = (int64_t)p->create_s * 1000};

    call.may_act = may_exist;
    return osb_ask(p, ctx, &call, &v, e) < 0 ? -1 : read_sandbox(v, ctx->arena, out, e);
}

int osb_delete(struct osb_provider *p, const struct ctx *ctx, struct str id, struct err *e)
{
    struct osb_call call = {.method = "DELETE",
                            .path = path_of(ctx, id, ""),
                            .doing = "delete the sandbox",
                            .is_tolerant = true};

    return osb_ask(p, ctx, &call, NULL, e);
}

int osb_pause(struct osb_provider *p, const struct ctx *ctx, struct str id, struct err *e)
{
    struct osb_call call = {
        .method = "POST", .path = path_of(ctx, id, "/pause"), .doing = "pause the sandbox"};

    return osb_ask(p, ctx, &call, NULL, e);
}

int osb_resume(struct osb_provider *p, const struct ctx *ctx, struct str id, struct err *e)
{
    struct osb_call call = {
        .method = "POST", .path = path_of(ctx, id, "/resume"), .doing = "resume the sandbox"};

    return osb_ask(p, ctx, &call, NULL, e);
}

int osb_renew(struct osb_provider *p, const struct ctx *ctx, struct str id, int64_t until_s,
              int64_t *expires_s, struct err *e)
{
    char when[CLOCK_RFC3339_SIZE];
    struct str body =
        arena_printf(ctx->arena, "{\"expiresAt\":\"%s\"}", clock_rfc3339(until_s * 1000, when));
    struct osb_call call = {.method = "POST",
                            .path = path_of(ctx, id, "/renew-expiration"),
                            .body = body,
                            .doing = "renew the sandbox's life"};
    json_t *v own_json = NULL;

    if (osb_ask(p, ctx, &call, &v, e) < 0) {
        return -1;
    }
    *expires_s = parse_time(js_str(js_get(v, "expiresAt")));
    return 0;
}

int osb_endpoint(struct osb_provider *p, const struct ctx *ctx, struct str id, uint16_t port,
                 bool proxied, struct osb_endpoint *out, struct err *e)
{
    char below[80];
    const char *key;
    json_t *value;
    json_t *v own_json = NULL;
    bool is_early = false;

    (void)snprintf(below, sizeof(below), "/endpoints/%u%s", port,
                   proxied ? "?use_server_proxy=true" : "");
    struct osb_call call = {.method = "GET",
                            .path = path_of(ctx, id, below),
                            .doing = "tell where the sandbox is reached",
                            .is_early = &is_early};
    if (osb_ask(p, ctx, &call, &v, e) < 0) {
        return is_early ? 0 : -1;
    }
    *out = (struct osb_endpoint){.where = kept(ctx->arena, v, "endpoint")};
    json_t *headers = js_get(v, "headers");
    json_object_foreach (headers, key, value) {
        if (out->n_headers < COUNTOF(out->headers) && !str_has(js_str(value), '\n')) {
            out->headers[out->n_headers++] =
                arena_printf(ctx->arena, "%s: %.*s", key, STR_ARG(js_str(value)));
        }
    }
    if (out->where.len == 0 || out->where.len > OSB_TEXT_MAX / 2) {
        return err_set(e, ERR_PROTOCOL, "the server does not tell where port %u is reached", port);
    }
    return 1;
}
