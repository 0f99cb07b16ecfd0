/* reply.c - whole answers: their headers, JSON, and problems as sentences. */
#include <stdarg.h>
#include <stdio.h>

#include "base/log.h"
#include "base/thread.h"
#include "json/js.h"
#include "serve/http/http_own.h"
#include "serve/http/request.h"

#define VALUE_MAX  8192
#define ANSWER_MAX ((size_t)64 << 20)

void request_set_header(struct request *r, const char *name, struct str value)
{
    struct live *l = LIVE_OF(r);
    struct buf text own_buf = {0};
    LOCKED(&l->lock);

    if (l->n_headers == LIVE_HEADERS_MAX) {
        log_line(LOG_ERROR, "http", "msg=\"too many headers\" name=%s", name);
        return;
    }
    if (l->headers == NULL) {
        l->headers = arena_alloc(r->arena, LIVE_HEADERS_MAX, sizeof(struct live_header));
    }
    buf_init(&text, VALUE_MAX);
    for (size_t i = 0; i < value.len; i++) {
        unsigned char c = (unsigned char)value.p[i];

        buf_addc(&text, (char)(c < ' ' || c == 0x7f ? ' ' : c));
    }
    l->headers[l->n_headers].name = arena_cstr(r->arena, str_from(name));
    l->headers[l->n_headers].value = arena_str(r->arena, buf_str(&text));
    l->n_headers++;
}

void live_add_headers(struct live *l, struct MHD_Response *response)
{
    const struct mhd *mhd = &l->pub.http->mhd;

    for (size_t i = 0; i < l->n_headers; i++) {
        (void)mhd->add_response_header(response, l->headers[i].name, l->headers[i].value.p);
    }
    if (l->origin.len > 0) {
        (void)mhd->add_response_header(response, "Access-Control-Allow-Origin", l->origin.p);
        (void)mhd->add_response_header(response, "Access-Control-Expose-Headers",
                                       "Mcp-Session-Id, Content-Disposition, Content-Range, "
                                       "Accept-Ranges, WWW-Authenticate");
        (void)mhd->add_response_header(response, "Vary", "Origin");
    }
}

void request_reply(struct request *r, unsigned status, const char *type, struct str body)
{
    struct live *l = LIVE_OF(r);
    const struct mhd *mhd = &r->http->mhd;
    /* It copies, so the pointer stays what it is. */
    union {
        const void *from;
        void *to;
    } bytes = {.from = body.len > 0 ? body.p : ""};
    struct MHD_Response *response =
        mhd->create_response_from_buffer(body.len, bytes.to, MHD_RESPMEM_MUST_COPY);

    if (response == NULL) {
        log_line(LOG_ERROR, "http", "msg=\"no memory for an answer\"");
        live_end(l, END_GONE);
        return;
    }
    if (type != NULL) {
        (void)mhd->add_response_header(response, "Content-Type", type);
    }
    (void)mhd->add_response_header(response, "X-Content-Type-Options", "nosniff");
    live_add_headers(l, response);
    if (live_answer(l, status, response) && r->method != HTTP_HEAD) {
        count_add(&r->http->counts.bytes_out, body.len);
    }
}

void request_json(struct request *r, unsigned status, const json_t *v)
{
    struct buf text own_buf = {0};

    buf_init(&text, ANSWER_MAX);
    js_dump(v, &text);
    request_reply(r, status, "application/json", buf_str(&text));
}

static void reply_problem(struct request *r, unsigned status, const char *code, struct str sentence)
{
    json_t *v own_json = json_object();

    (void)json_object_set_new(v, "error", js_string(sentence));
    (void)json_object_set_new(v, "code", js_string(str_from(code)));
    request_json(r, status, v);
}

void request_fail(struct request *r, unsigned status, const char *code, const char *fmt, ...)
{
    char sentence[1024];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(sentence, sizeof(sentence), fmt, args);
    va_end(args);
    reply_problem(r, status, code, str_from(sentence));
}

unsigned http_status_of(enum err_kind kind)
{
    switch (kind) {
    case ERR_NONE: return MHD_HTTP_OK;
    case ERR_INVALID: return MHD_HTTP_BAD_REQUEST;
    case ERR_NOT_FOUND: return MHD_HTTP_NOT_FOUND;
    case ERR_EXISTS: return MHD_HTTP_CONFLICT;
    case ERR_DENIED: return MHD_HTTP_FORBIDDEN;
    case ERR_UNSUPPORTED: return MHD_HTTP_UNPROCESSABLE_CONTENT;
    case ERR_LIMIT: return MHD_HTTP_TOO_MANY_REQUESTS;
    case ERR_TIMEOUT: return MHD_HTTP_GATEWAY_TIMEOUT;
    case ERR_CANCELLED: return MHD_HTTP_SERVICE_UNAVAILABLE;
    case ERR_UNREACHABLE: return MHD_HTTP_BAD_GATEWAY;
    case ERR_GONE: return MHD_HTTP_GONE;
    case ERR_PROTOCOL:
    case ERR_SYSTEM:
    case ERR_BUG:
    case ERR_KINDS: break;
    }
    return MHD_HTTP_INTERNAL_SERVER_ERROR;
}

void request_fail_err(struct request *r, const struct err *e)
{
    reply_problem(r, http_status_of(e->kind), err_kind_name(e->kind), str_from(e->msg));
}
