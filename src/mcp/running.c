/* running.c - what a call's thread writes and sends. */
#include "mcp/running.h"

#include "base/thread.h"
#include "base/utf8.h"
#include "json/js.h"
#include "mcp/caps.h"
#include "mcp/level.h"
#include "mcp/mcp.h"

#define LOG_TEXT 4096 /* bytes */

void running_send(struct running *r, struct str message, enum send_kind kind)
{
    LOCKED(&r->peer->lock);
    if (!r->taken_back) {
        r->peer->ops->send(r->peer, message, kind);
    }
}

void running_error(struct running *r, struct buf *out, int code, struct str message,
                   struct str data)
{
    r->failed = true;
    rpc_add_error(out, r->raw_id, code, message, data);
}

void running_fail(struct running *r, struct buf *out, const struct err *e)
{
    struct buf data own_buf = {0};

    if (r->call.need == 0 || !revision_has(r->rev, REV_MODERN)) {
        running_error(r, out, rpc_code_of(e->kind), str_from(e->msg), STR_EMPTY);
        return;
    }
    buf_init(&data, 1024);
    buf_add(&data, S("{\"requiredCapabilities\":"));
    caps_add(&data, r->call.need & ~r->call.can);
    buf_addc(&data, '}');
    running_error(r, out, RPC_MISSING_CAPABILITY, str_from(e->msg), buf_str(&data));
}

void running_refuse(struct running *r, enum err_kind kind, struct str sentence, struct buf *out)
{
    (void)kind;
    running_error(r, out, RPC_INTERNAL_ERROR, sentence, STR_EMPTY);
}

void running_result(struct running *r, struct buf *out, const json_t *result, const char *hints)
{
    if (r->call.asked) {
        ask_add_result(r, out);
        return;
    }
    rpc_begin_result(out, r->raw_id);
    js_dump(result, out);
    out->len--; /* its '}', to go on */
    if (revision_has(r->rev, REV_CACHE_HINTS)) {
        buf_add(out, str_from(hints));
    }
    result_end(out, r->rev);
    buf_addc(out, '}');
    if (out->cut) {
        buf_clear(out);
        running_error(r, out, RPC_INTERNAL_ERROR,
                      S("The answer is larger than 1 MiB as JSON and was not sent."), STR_EMPTY);
    }
}

void running_log(struct call *c, enum call_level level, struct str message)
{
    struct running *r = CONTAINER_OF(c, struct running, call);
    struct buf out own_buf = {0};

    if (level < r->level) {
        return;
    }
    buf_init(&out, (size_t)8 * LOG_TEXT);
    buf_addf(&out,
             "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":"
             "\"%s\",\"logger\":\"" SERVER_NAME "\",\"data\":",
             level_name(level));
    rpc_add_string(&out, utf8_head(message, LOG_TEXT));
    buf_add(&out, S("}}"));
    running_send(r, buf_str(&out), SEND_NOTICE);
}
