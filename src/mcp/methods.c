/* methods.c - what a client can ask for; a method is one row. */
#include "base/buf.h"
#include "base/utf8.h"
#include "json/js.h"
#include "mcp/calls.h"
#include "mcp/caps.h"
#include "mcp/exchange.h"
#include "mcp/level.h"
#include "mcp/listen.h"
#include "mcp/mcp.h"
#include "mcp/method_rows.h"
#include "mcp/offer.h"
#include "tools/custom.h"

/* Clients show this to the model before any tool, and search in it: it says what we
 * are for, not what the tools' own descriptions repeat. At most 800 characters. */
#define WHAT_IT_IS                                                                                 \
    "Runs shell commands and code in isolated Linux sandboxes. Use it to execute bash, Python or " \
    "any installed program, to try generated or untrusted code, to build, test and analyse data, " \
    "and to read and write files apart from the user's system. "
#define LOCAL_BOXES                                                                                \
    "No set-up is needed: the first exec_bash makes a sandbox by itself. Commands start in "       \
    "/workspace, where files stay between calls; every call is a fresh shell, so join cd and "     \
    "export with what follows. Sandboxes have no network and end after 30 minutes without use. "   \
    "create_sandbox makes others, with limits or network internet; list_sandboxes shows them, "    \
    "and sandbox_id or sandbox_name on any tool says which one is meant."
#define OTHER_BOXES                                                                                \
    "Every call is a fresh shell, so join cd and export with what follows. list_sandboxes shows "  \
    "the sandboxes there are, and sandbox_id or sandbox_name on any tool says which one is meant."

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

static bool is_hidden(const struct mcp *m, struct str name)
{
    const struct tool *t = tool_find(name);

    return t != NULL && (t->toolsets & m->toolsets) == 0;
}

/* Boxes by themselves, as the long text promises them, are made where nothing else is configured. */
static void add_instructions(const struct mcp *m, struct buf *out)
{
    const struct config *c = m->services->config;
    bool is_elsewhere = c->n_hosts > 0 || c->elsewhere.len > 0 ||
                        str_eq(c->default_provider, S("opensandbox")) ||
                        str_eq(c->default_provider, S("docker"));

    buf_add(out, S(",\"instructions\":"));
    rpc_add_string(out,
                   is_elsewhere || is_hidden(m, S("exec_bash")) || is_hidden(m, S("create_sandbox"))
                       ? S(WHAT_IT_IS OTHER_BOXES)
                       : S(WHAT_IT_IS LOCAL_BOXES));
}

static void run_initialize(const struct exchange *x)
{
    enum revision rev = revision_agree(js_str(js_get(x->msg->params, "protocolVersion")));
    struct buf body own_buf = {0};

    peer_set_legacy(x->peer, (int)rev, caps_read(js_get(x->msg->params, "capabilities"), rev));
    buf_init(&body, MCP_MESSAGE_MAX);
    buf_addf(&body, "{\"protocolVersion\":\"%s\",", revision_name(rev));
    offers_add(x->peer->mcp, &body, rev);
    buf_add(&body, S(",\"serverInfo\":{\"name\":\"" SERVER_NAME "\","));
    if (revision_has(rev, REV_TITLES)) {
        buf_add(&body, S("\"title\":\"anybox sandboxes\","));
    }
    buf_add(&body, S("\"version\":\"" ANYBOX_VERSION "\"}"));
    add_instructions(x->peer->mcp, &body);
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
    buf_addc(&body, ',');
    offers_add(x->peer->mcp, &body, x->rev);
    add_instructions(x->peer->mcp, &body);
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

bool exchange_check_cursor(const struct exchange *x)
{
    if (is_first_page(js_get(x->msg->params, "cursor"))) {
        return true;
    }
    exchange_error(x, RPC_INVALID_PARAMS,
                   "\"cursor\" is not one of ours: %.*s has one page; ask without it.",
                   STR_ARG(x->msg->method));
    return false;
}

void exchange_list(const struct exchange *x, const char *name, const json_t *all, const char *hints)
{
    struct buf body own_buf = {0};

    if (!exchange_check_cursor(x)) {
        return;
    }
    buf_init(&body, MCP_MESSAGE_MAX);
    buf_addf(&body, "{\"%s\":", name);
    js_dump(all, &body);
    if (revision_has(x->rev, REV_CACHE_HINTS)) {
        buf_add(&body, str_from(hints));
    }
    result_end(&body, x->rev);
    exchange_result(x, buf_str(&body));
}

static void run_tools_list(const struct exchange *x)
{
    if (exchange_check_cursor(x)) {
        exchange_result(x, buf_str(&x->peer->mcp->lists[x->rev]));
    }
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
    t = custom_find(x->peer->mcp->custom, js_str(name));
    if (t == NULL) {
        exchange_error(x, RPC_INVALID_PARAMS,
                       "There is no tool \"%.*s\"; tools/list shows the tools.",
                       STR_ARG(utf8_head(js_str(name), NAME_SHOWN)));
        return;
    }
    calls_start(x, &tool_job, t, t->name);
}

static void run_set_level(const struct exchange *x)
{
    enum call_level level = level_find(js_str(js_get(x->msg->params, "level")));

    if (level == LEVEL_NONE) {
        exchange_error(x, RPC_INVALID_PARAMS, "\"level\" must be one of " LEVEL_NAMES ".");
        return;
    }
    peer_set_level(x->peer, level);
    exchange_result(x, S("{}"));
}

#define BOTH (ERA_LEGACY | ERA_MODERN)

static const struct method methods[] = {
    {"tools/call", BOTH, false, run_tools_call, 0},
    {"tools/list", BOTH, false, run_tools_list, 0},
    {"ping", ERA_LEGACY, false, run_ping, 0},
    {"initialize", ERA_LEGACY, true, run_initialize, 0},
    {"server/discover", ERA_MODERN, false, run_discover, 0},
    {"subscriptions/listen", ERA_MODERN, false, listen_start, 0},
    {"prompts/list", BOTH, false, run_prompts_list, OFFER_PROMPTS},
    {"prompts/get", BOTH, false, run_prompts_get, OFFER_PROMPTS},
    {"completion/complete", BOTH, false, run_complete, OFFER_COMPLETIONS},
    {"resources/list", BOTH, false, run_resources_list, OFFER_RESOURCES},
    {"resources/templates/list", BOTH, false, run_templates_list, OFFER_RESOURCES},
    {"resources/read", BOTH, false, run_resources_read, OFFER_RESOURCES},
    {"resources/subscribe", ERA_LEGACY, false, listen_subscribe, OFFER_SUBSCRIBE},
    {"resources/unsubscribe", ERA_LEGACY, false, listen_unsubscribe, OFFER_SUBSCRIBE},
    {"logging/setLevel", ERA_LEGACY, false, run_set_level, OFFER_LOGGING},
};

const struct method *method_find(struct str name)
{
    for (size_t i = 0; i < COUNTOF(methods); i++) {
        const struct method *m = &methods[i];

        if (str_eq(name, str_from(m->name))) {
            return m->offer == 0 || (offers(NULL) & m->offer) != 0 ? m : NULL;
        }
    }
    return NULL;
}
