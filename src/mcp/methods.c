/* methods.c - what a client can ask for; a method is one row. */
#include "base/buf.h"
#include "base/utf8.h"
#include "json/js.h"
#include "mcp/calls.h"
#include "mcp/caps.h"
#include "mcp/exchange.h"
#include "mcp/mcp.h"

/* Clients show this to the model before any tool, and search in it: it says what we
 * are for, not what the tools' own descriptions repeat. At most 800 characters. */
#define INSTRUCTIONS                                                                               \
    "Runs shell commands and code in isolated Linux sandboxes. Use it to execute bash, Python or " \
    "any installed program, to try generated or untrusted code, to build, test and analyse data, " \
    "and to read and write files apart from the user's system. No set-up is needed: the first "    \
    "exec_bash makes a sandbox by itself. Commands start in /workspace, where files stay between " \
    "calls; every call is a fresh shell, so join cd and export with what follows. Sandboxes have " \
    "no network and end after 30 minutes without use. create_sandbox makes others, with "          \
    "limits or network internet; list_sandboxes shows them, and sandbox_id or sandbox_name on "    \
    "any tool says which one is meant."

#define CAPABILITIES "\"capabilities\":{\"tools\":{}}"
#define NAME_SHOWN   64 /* bytes of a client's word that an error repeats */

void result_end_as(struct buf *out, enum revision rev, const char *type)
{
    if (revision_has(rev, REV_RESULT_TYPE)) {
        buf_addf(out, ",\"resultType\":\"%s\"", type);
        buf_add(out, S(",\"_meta\":{\"" RPC_META_SERVER_INFO "\":{\"name\":\"" SERVER_NAME
                       "\",\"version\":\"" ANYBOX_VERSION "\"}}"));
    }
    buf_addc(out, '}');
}

void result_end(struct buf *out, enum revision rev)
{
    result_end_as(out, rev, "complete");
}

static void add_instructions(struct buf *out)
{
    buf_add(out, S(",\"instructions\":"));
    rpc_add_string(out, S(INSTRUCTIONS));
}

static void run_initialize(const struct exchange *x)
{
    enum revision rev = revision_agree(js_str(js_get(x->msg->params, "protocolVersion")));
    struct buf body own_buf = {0};

    peer_set_legacy(x->peer, (int)rev, caps_read(js_get(x->msg->params, "capabilities"), rev));
    buf_init(&body, MCP_MESSAGE_MAX);
    buf_addf(&body, "{\"protocolVersion\":\"%s\",", revision_name(rev));
    buf_add(&body, S(CAPABILITIES ",\"serverInfo\":{\"name\":\"" SERVER_NAME "\","));
    if (revision_has(rev, REV_TITLES)) {
        buf_add(&body, S("\"title\":\"anybox sandboxes\","));
    }
    buf_add(&body, S("\"version\":\"" ANYBOX_VERSION "\"}"));
    add_instructions(&body);
    buf_addc(&body, '}');
    exchange_result(x, buf_str(&body));
}

static void run_ping(const struct exchange *x)
{
    exchange_result(x, S("{}"));
}

static void run_discover(const struct exchange *x)
{
    struct buf body own_buf = {0};

    buf_init(&body, MCP_MESSAGE_MAX);
    buf_add(&body, S("{\"supportedVersions\":"));
    revision_add_all(&body);
    buf_add(&body, S("," CAPABILITIES));
    add_instructions(&body);
    buf_add(&body, S(CACHE_HINTS));
    result_end(&body, x->rev);
    exchange_result(x, buf_str(&body));
}

/* We list everything on one page and so never gave out a cursor. */
static bool is_first_page(const json_t *cursor)
{
    return cursor == NULL || json_is_null(cursor) ||
           (json_is_string(cursor) && json_string_length(cursor) == 0);
}

static void run_tools_list(const struct exchange *x)
{
    if (!is_first_page(js_get(x->msg->params, "cursor"))) {
        exchange_error(x, RPC_INVALID_PARAMS,
                       "\"cursor\" is not one of ours: tools/list has one page; ask without it.");
        return;
    }
    exchange_result(x, buf_str(&x->peer->mcp->lists[x->rev]));
}

static void run_tools_call(const struct exchange *x)
{
    const json_t *name = js_get(x->msg->params, "name");
    const struct tool *t;

    if (!json_is_string(name)) {
        exchange_error(x, RPC_INVALID_PARAMS,
                       "tools/call needs \"name\", the name of a tool as a string; tools/list "
                       "shows the tools.");
        return;
    }
    t = tool_find(js_str(name));
    if (t == NULL) {
        exchange_error(x, RPC_INVALID_PARAMS,
                       "There is no tool \"%.*s\"; tools/list shows the tools.",
                       STR_ARG(utf8_head(js_str(name), NAME_SHOWN)));
        return;
    }
    calls_start(x, &tool_job, t, t->name);
}

static void add_subscription(struct buf *out, const struct exchange *x)
{
    buf_add(out, S("\"_meta\":{\"" RPC_META_SUBSCRIPTION "\":"));
    buf_add(out, x->msg->raw_id);
    buf_addc(out, '}');
}

/*
 * Nothing of ours changes while we run, so there is nothing to subscribe to: the
 * subscription is acknowledged as empty and closed at once. Where all answers share a
 * stream its end is told twice, since the specification asks for both.
 */
static void run_listen(const struct exchange *x)
{
    struct buf out own_buf = {0};

    if (!json_is_object(js_get(x->msg->params, "notifications"))) {
        exchange_error(x, RPC_INVALID_PARAMS,
                       "subscriptions/listen needs \"notifications\", an object that names the "
                       "kinds of notifications wanted.");
        return;
    }
    buf_init(&out, MCP_MESSAGE_MAX);
    buf_add(&out, S("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\","
                    "\"params\":{"));
    add_subscription(&out, x);
    buf_add(&out, S(",\"notifications\":{}}}"));
    x->peer->ops->send(x->peer, buf_str(&out), SEND_MESSAGE);

    buf_clear(&out);
    buf_add(&out, S("{\"resultType\":\"complete\","));
    add_subscription(&out, x);
    buf_addc(&out, '}');
    exchange_result(x, buf_str(&out));
    if (!x->peer->ops->one_stream) {
        return;
    }
    buf_clear(&out);
    buf_add(&out, S("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{"
                    "\"requestId\":"));
    buf_add(&out, x->msg->raw_id);
    buf_add(&out, S(",\"reason\":\"nothing to subscribe to\"}}"));
    x->peer->ops->send(x->peer, buf_str(&out), SEND_MESSAGE);
}

static const struct method methods[] = {
    {"tools/call", ERA_LEGACY | ERA_MODERN, false, run_tools_call},
    {"tools/list", ERA_LEGACY | ERA_MODERN, false, run_tools_list},
    {"ping", ERA_LEGACY, false, run_ping},
    {"initialize", ERA_LEGACY, true, run_initialize},
    {"server/discover", ERA_MODERN, false, run_discover},
    {"subscriptions/listen", ERA_MODERN, false, run_listen},
};

const struct method *method_find(struct str name)
{
    for (size_t i = 0; i < COUNTOF(methods); i++) {
        if (str_eq(name, str_from(methods[i].name))) {
            return &methods[i];
        }
    }
    return NULL;
}
