#include "mcp/check.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/utf8.h"
#include "json/js.h"
#include "mcp/exchange.h"
#include "mcp/revision.h"

#define WORD_SHOWN 64 /* bytes of a client's word that an error repeats */

void rpc_problem_fini(struct rpc_problem *p)
{
    buf_fini(&p->data);
}

static bool wrong(struct rpc_problem *out, const char *fmt, ...) PRINTF_LIKE(2, 3);
static bool wrong(struct rpc_problem *out, const char *fmt, ...)
{
    va_list args;

    out->code = RPC_INVALID_PARAMS;
    va_start(args, fmt);
    (void)vsnprintf(out->message, sizeof(out->message), fmt, args);
    va_end(args);
    return false;
}

bool check_meta(const struct rpc_msg *msg, struct rpc_problem *out)
{
    const json_t *meta = js_get(msg->params, "_meta");

    if (!json_is_object(meta)) {
        return wrong(out, "\"params\" must have the object \"_meta\" with \"%s\" and \"%s\".",
                     RPC_META_VERSION, RPC_META_CAPABILITIES);
    }
    if (!json_is_string(js_get(meta, RPC_META_VERSION))) {
        return wrong(out, "\"_meta\" must have \"%s\", a string such as \"%s\".", RPC_META_VERSION,
                     revision_name(REV_2026_07_28));
    }
    if (!json_is_object(js_get(meta, RPC_META_CAPABILITIES))) {
        return wrong(out, "\"_meta\" must have \"%s\", an object; {} when there are none.",
                     RPC_META_CAPABILITIES);
    }
    return true;
}

bool check_version(const struct rpc_msg *msg, struct rpc_problem *out)
{
    struct str wanted = js_str(msg->claim);

    if (revision_has(revision_find(wanted), REV_MODERN)) {
        return true;
    }
    (void)wrong(out,
                "Protocol version \"%.*s\" cannot be claimed by a request here; claim %s, or send "
                "initialize without a claim for the older ones.",
                STR_ARG(utf8_head(wanted, WORD_SHOWN)), revision_name(REV_2026_07_28));
    out->code = RPC_UNSUPPORTED_VERSION;
    buf_init(&out->data, (size_t)8 * RPC_ID_MAX);
    buf_add(&out->data, S("{\"supported\":"));
    revision_add_all(&out->data);
    buf_add(&out->data, S(",\"requested\":"));
    rpc_add_string(&out->data, utf8_head(wanted, RPC_ID_MAX));
    buf_addc(&out->data, '}');
    return false;
}

bool check_method(struct str name, bool modern)
{
    const struct method *method = method_find(name);

    return method != NULL && (method->eras & (unsigned)(modern ? ERA_MODERN : ERA_LEGACY)) != 0;
}

bool check_is_modern(const struct rpc_msg *msg)
{
    const struct method *method = method_find(msg->method);

    if (method != NULL && method->eras == ERA_MODERN) {
        return true;
    }
    /* A handshake is never refused for a version, unless it is truly a modern request. */
    if (str_eq(msg->method, S("initialize"))) {
        return revision_has(revision_find(js_str(msg->claim)), REV_MODERN);
    }
    return msg->claim != NULL;
}
