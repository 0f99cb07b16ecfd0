/*
 * rest.c - tools as plain HTTP: POST /mcp/tools/{tool}, the body is the arguments, the answer
 * is the tool's JSON. For scripts and people; programs that speak MCP use /mcp.
 *
 * A call belongs to its request: who closes the connection takes the call back, as in the
 * newest revision of MCP, because nobody else could ever read the answer. The status tells in
 * one number what the answer's "code" says in a word (http_status_of()).
 */
#include "json/js.h"
#include "mcp/mcp.h"
#include "serve/http/http_own.h"
#include "serve/http/parse.h"
#include "serve/http/route.h"
#include "tools/custom.h"

#define BODY_MAX ((size_t)16 << 20) /* as a message of MCP */

static void refuse_unknown(struct request *r)
{
    unsigned toolsets = r->http->options->toolsets;
    const struct custom *custom = mcp_custom(r->http->mcp);
    json_t *v own_json = json_object();
    json_t *names = json_array();

    for (size_t i = 0; tools[i] != NULL; i++) {
        if ((tools[i]->toolsets & toolsets) != 0 && tool_allowed(tools[i], r->services->config)) {
            (void)json_array_append_new(names, json_string(tools[i]->name));
        }
    }
    for (size_t i = 0; i < custom_count(custom); i++) {
        (void)json_array_append_new(names, json_string(custom_at(custom, i)->name));
    }
    (void)json_object_set_new(
        v, "error",
        js_string(arena_printf(r->arena,
                               "there is no tool \"%.*s\"; `available` has those that there are",
                               STR_ARG(str_head(r->tail, 100)))));
    (void)json_object_set_new(v, "code", json_string(err_kind_name(ERR_NOT_FOUND)));
    (void)json_object_set_new(v, "available", names);
    request_json(r, MHD_HTTP_NOT_FOUND, v);
}

/* *out is a new reference, or NULL when there are no arguments. False: it was refused. */
static bool read_arguments(struct request *r, json_t **out)
{
    struct str body = str_trim(r->body);
    struct media_type type;
    struct err e;

    *out = NULL;
    if (body.len == 0) {
        return true;
    }
    if (request_header_count(r, "Content-Type") != 1 ||
        http_media_type(request_header(r, "Content-Type"), &type, &e) < 0 ||
        !media_type_is(&type, S("application/json"))) {
        request_fail(r, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE, "invalid",
                     "The arguments must be sent with \"Content-Type: application/json\".");
        return false;
    }
    *out = js_parse(body.p, body.len, &e);
    if (*out == NULL) {
        request_fail(r, MHD_HTTP_BAD_REQUEST, "invalid",
                     "The body is %s. It must be the tool's arguments as one JSON object, or "
                     "empty when there are none.",
                     e.msg);
        return false;
    }
    if (json_is_object(*out)) {
        return true;
    }
    request_fail(r, MHD_HTTP_BAD_REQUEST, "invalid",
                 "The body must be the tool's arguments as one JSON object, such as "
                 "{\"command\": \"ls\"}, or empty when there are none.");
    return false;
}

/* The caller was let in. */
static void run_call(struct request *r, const struct tool *t, json_t *arguments)
{
    struct buf text own_buf = {0};
    struct call call = {
        .ctx = &r->ctx,
        .services = r->services,
        .scope = &r->caller->scope,
        .toolsets = r->http->options->toolsets,
        .link_base = request_base_url(r),
        .transport = "http",
    };
    bool is_error = false;

    buf_init(&text, TOOL_TEXT_MAX);
    tool_call(t, &call, arguments, &text, &is_error);
    caller_leave(r->caller, 1); /* who reads the answer may call again at once */
    if (call.failed == ERR_LIMIT) {
        request_set_header(r, "Retry-After", S("1"));
    }
    request_set_header(r, "Cache-Control", S("no-store"));
    if (call.content != NULL) { /* blocks of MCP, which are all that there is then */
        json_t *v own_json = json_pack("{s:o}", "content", call.content);

        request_json(r, http_status_of(call.failed), v);
        return;
    }
    request_reply(r, http_status_of(call.failed), "application/json", buf_str(&text));
}

static void run_tool(struct request *r)
{
    const struct tool *t = custom_find(mcp_custom(r->http->mcp), r->tail);
    json_t *arguments own_json = NULL;

    if (t == NULL) {
        refuse_unknown(r);
        return;
    }
    if (!read_arguments(r, &arguments)) {
        return;
    }
    request_drop_body(r);
    if (!caller_enter(r->http, r->caller, 1)) {
        request_set_header(r, "Retry-After", S("1"));
        request_fail(r, MHD_HTTP_TOO_MANY_REQUESTS, "limit",
                     "%lld calls of this key are running, as many as http.max_calls allows; wait "
                     "for one to end, then call again.",
                     (long long)r->services->config->http_max_calls);
        return;
    }
    run_call(r, t, arguments);
}

static void check(struct request *r)
{
    request_set_header(r, "Cache-Control", S("no-store"));
    request_reply(r, MHD_HTTP_OK, "application/json", S("\"success\""));
}

static void live(struct request *r)
{
    request_set_header(r, "Cache-Control", S("no-store"));
    request_reply(r, MHD_HTTP_OK, "application/json", S("{\"status\":\"healthy\"}"));
}

/* A server that leaves refuses all requests, this one too. */
static void ready(struct request *r)
{
    if (r->services->config->problem.len == 0) {
        live(r);
        return;
    }
    request_set_header(r, "Cache-Control", S("no-store"));
    request_reply(r, MHD_HTTP_SERVICE_UNAVAILABLE, "application/json",
                  S("{\"status\":\"unhealthy\",\"error\":\"The configuration has an error; `anybox "
                    "doctor` says which.\",\"code\":\"invalid\"}"));
}

const struct route rest_routes[] = {
    {
        .path = "/mcp/tools/*",
        .methods = HTTP_POST,
        .flags = ROUTE_CORS,
        .body_max = BODY_MAX,
        .run = run_tool,
    },
    {.path = "/check", .methods = HTTP_GET, .flags = ROUTE_OPEN | ROUTE_QUICK, .run = check},
    {.path = "/health", .methods = HTTP_GET, .flags = ROUTE_OPEN | ROUTE_QUICK, .run = ready},
    {.path = "/health/live", .methods = HTTP_GET, .flags = ROUTE_OPEN | ROUTE_QUICK, .run = live},
    {.path = "/health/ready", .methods = HTTP_GET, .flags = ROUTE_OPEN | ROUTE_QUICK, .run = ready},
    {.path = NULL},
};
