#include "serve/http/mcp_head.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/utf8.h"
#include "json/js.h"
#include "mcp/mcp.h"
#include "mcp/revision.h"
#include "serve/http/http_own.h"
#include "serve/http/parse.h"

#define MODERN_DATE 20260728
#define WORD_SHOWN  64 /* bytes of a client's word that an error repeats */

/* ---- refusals -------------------------------------------------------------------------- */

void mcp_refuse_with(struct request *r, unsigned status, struct str raw_id,
                     const struct rpc_problem *p)
{
    struct buf out own_buf = {0};

    buf_init(&out, MCP_MESSAGE_MAX);
    rpc_add_error(&out, raw_id, p->code, str_from(p->message), buf_str(&p->data));
    request_reply(r, status, "application/json", buf_str(&out));
}

void mcp_refuse(struct request *r, unsigned status, struct str raw_id, int code, const char *fmt,
                ...)
{
    struct rpc_problem p = {.code = code};
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(p.message, sizeof(p.message), fmt, args);
    va_end(args);
    mcp_refuse_with(r, status, raw_id, &p);
}

/* ---- headers ----------------------------------------------------------------------------- */

bool mcp_takes_events(struct request *r)
{
    struct str accept = request_header(r, "Accept");

    for (size_t i = 0; i + sizeof(MCP_EVENTS) - 1 <= accept.len; i++) {
        if (str_eq_nocase(str_head(str_skip(accept, i), sizeof(MCP_EVENTS) - 1), S(MCP_EVENTS))) {
            return http_accept_q(accept, S(MCP_EVENTS)) > 0;
        }
    }
    return false;
}

bool mcp_names_modern(struct request *r)
{
    return http_revision_date(request_header(r, "MCP-Protocol-Version")) >= MODERN_DATE;
}

/* Is the header there once, and does it say the same as the body? */
bool mcp_check_header(struct request *r, const char *name, struct str wanted, struct str raw_id)
{
    struct str value = request_header(r, name);
    struct str decoded;
    struct err e;

    if (request_header_count(r, name) != 1) {
        mcp_refuse(r, MHD_HTTP_BAD_REQUEST, raw_id, RPC_HEADER_MISMATCH,
                   "Header mismatch: the header %s must be there once, with the value \"%.*s\".",
                   name, STR_ARG(utf8_head(wanted, WORD_SHOWN)));
        return false;
    }
    if (http_mcp_value(r->arena, value, &decoded, &e) < 0) {
        mcp_refuse(r, MHD_HTTP_BAD_REQUEST, raw_id, RPC_HEADER_MISMATCH,
                   "Header mismatch: %s cannot be read: %s.", name, e.msg);
        return false;
    }
    if (!str_eq(decoded, wanted)) {
        mcp_refuse(r, MHD_HTTP_BAD_REQUEST, raw_id, RPC_HEADER_MISMATCH,
                   "Header mismatch: %s says \"%.*s\", but the body says \"%.*s\".", name,
                   STR_ARG(utf8_head(decoded, WORD_SHOWN)), STR_ARG(utf8_head(wanted, WORD_SHOWN)));
        return false;
    }
    return true;
}

/* Which parameter Mcp-Name repeats; NULL: none. */
static const char *named_param(struct str method)
{
    static const struct {
        const char *method, *param;
    } named[] = {
        {"tools/call", "name"},  {"prompts/get", "name"},    {"resources/read", "uri"},
        {"tasks/get", "taskId"}, {"tasks/update", "taskId"}, {"tasks/cancel", "taskId"},
    };

    for (size_t i = 0; i < COUNTOF(named); i++) {
        if (str_eq(method, str_from(named[i].method))) {
            return named[i].param;
        }
    }
    return NULL;
}

bool mcp_check_modern(struct request *r, const struct rpc_msg *msg)
{
    const char *param = named_param(msg->method);
    const json_t *name = param != NULL ? js_get(msg->params, param) : NULL;

    if (!mcp_check_header(r, "Mcp-Method", msg->method, msg->raw_id)) {
        return false;
    }
    return !json_is_string(name) || mcp_check_header(r, "Mcp-Name", js_str(name), msg->raw_id);
}

/* Codex reads both sentences. */
bool mcp_check_legacy(struct request *r, struct str raw_id)
{
    struct str version = request_header(r, "MCP-Protocol-Version");
    struct buf known own_buf = {0};

    if (version.len == 0 || revision_find(version) != REV_NONE) {
        return true;
    }
    buf_init(&known, 256);
    for (int rev = REV_COUNT - 1; rev > REV_NONE; rev--) {
        buf_addf(&known, "%s%s", known.len > 0 ? ", " : "", revision_name((enum revision)rev));
    }
    mcp_refuse(r, MHD_HTTP_BAD_REQUEST, raw_id, RPC_LEGACY,
               "Bad Request: Unsupported protocol version: %.*s (supported versions: %s)",
               STR_ARG(utf8_head(version, WORD_SHOWN)), known.p);
    return false;
}
