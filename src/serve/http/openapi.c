/*
 * openapi.c - GET /openapi.json and GET /docs.
 *
 * What is the same for all servers is openapi_base.json, put into the program when it is built;
 * the tools are added from their tables. The page at /docs is one text (docs_page.*) whose
 * scripts and styles are allowed by their hashes, so that nothing else in it ever runs.
 */
#include "serve/http/openapi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "json/js.h"
#include "mcp/mcp.h"
#include "serve/http/http_own.h"
#include "serve/http/route.h"
#include "serve/http_assets.h"
#include "tools/custom.h"

static json_t *reference(const char *to)
{
    return json_pack("{s:s}", "$ref", to);
}

static json_t *tool_responses(void)
{
    static const char *const errors[] = {"400", "403", "404", "409",    "410",
                                         "413", "415", "422", "default"};
    json_t *o = json_object();

    (void)json_object_set_new(o, "200",
                              json_pack("{s:s, s:{s:{s:{}}}}", "description", "The tool's answer.",
                                        "content", "application/json", "schema"));
    for (size_t i = 0; i < COUNTOF(errors); i++) {
        (void)json_object_set_new(o, errors[i], reference("#/components/responses/Error"));
    }
    (void)json_object_set_new(o, "401", reference("#/components/responses/Unauthorized"));
    (void)json_object_set_new(o, "429", reference("#/components/responses/Limit"));
    return o;
}

static json_t *tool_operation(const struct tool *t)
{
    json_t *schema = tool_schema(t);
    bool needs_body = json_array_size(js_get(schema, "required")) > 0;
    json_t *o = json_pack("{s:s, s:[s], s:s, s:s}", "operationId", t->name, "tags", "tools",
                          "summary", t->title, "description", t->help);

    (void)json_object_set_new(o, "requestBody",
                              json_pack("{s:b, s:{s:{s:o}}}", "required", needs_body, "content",
                                        "application/json", "schema", schema));
    (void)json_object_set_new(o, "responses", tool_responses());
    (void)json_object_set_new(o, "x-read-only", json_boolean((t->hints & HINT_READ_ONLY) != 0));
    (void)json_object_set_new(o, "x-destructive", json_boolean((t->hints & HINT_DESTRUCTIVE) != 0));
    return o;
}

static void add_path(json_t *paths, const struct tool *t, const struct config *config)
{
    char path[128];

    if (tool_allowed(t, config)) {
        (void)snprintf(path, sizeof(path), "/mcp/tools/%s", t->name);
        (void)json_object_set_new(paths, path, json_pack("{s:o}", "post", tool_operation(t)));
    }
}

static json_t *build_paths(json_t *fixed, unsigned toolsets, const struct custom *custom,
                           const struct config *config)
{
    json_t *paths = json_object();

    for (size_t i = 0; tools[i] != NULL; i++) {
        if ((tools[i]->toolsets & toolsets) != 0) {
            add_path(paths, tools[i], config);
        }
    }
    for (size_t i = 0; i < custom_count(custom); i++) {
        add_path(paths, custom_at(custom, i), config);
    }
    (void)json_object_update(paths, fixed);
    return paths;
}

json_t *openapi_build(struct str base, unsigned toolsets, const struct custom *custom,
                      const struct config *config)
{
    struct err e;
    json_t *v = js_parse(assets_openapi, sizeof(assets_openapi) - 1, &e);

    (void)json_object_set_new(js_get(v, "info"), "version", json_string(ANYBOX_VERSION));
    (void)json_object_set_new(v, "servers", json_pack("[{s:o}]", "url", js_string(base)));
    (void)json_object_set_new(v, "paths",
                              build_paths(js_get(v, "paths"), toolsets, custom, config));
    return v;
}

/* ---- as text ------------------------------------------------------------------------------- */

#define TEXT_MAX ((size_t)4 << 20)
#define NO_BASE  "base of the server" /* stands where the base will */

/* Nobody needs a key to ask for it, so it must cost nothing: made once, but for the base. */
struct openapi {
    struct buf text;
    struct str before, after; /* the base */
};

void openapi_free(struct openapi *o)
{
    if (o == NULL) {
        return;
    }
    buf_fini(&o->text);
    free(o);
}

static struct openapi *openapi_new(const struct http *h)
{
    struct openapi *o = xcalloc(1, sizeof(*o));
    json_t *v own_json =
        openapi_build(S(NO_BASE), h->options->toolsets, mcp_custom(h->mcp), h->services->config);
    const char *base;

    buf_init(&o->text, TEXT_MAX);
    js_dump(v, &o->text);
    base = memmem(o->text.p, o->text.len, "\"" NO_BASE "\"", sizeof(NO_BASE) + 1);
    o->before = buf_str(&o->text);
    if (base != NULL) {
        o->before.len = (size_t)(base - o->text.p);
        o->after = str_skip(buf_str(&o->text), o->before.len + sizeof(NO_BASE) + 1);
    }
    return o;
}

static void show_openapi(struct request *r)
{
    struct http *h = r->http;
    struct buf text own_buf = {0};
    json_t *base own_json = js_string(request_base_url(r));

    if (h->openapi == NULL) {
        h->openapi = openapi_new(h);
    }
    buf_init(&text, TEXT_MAX);
    buf_add(&text, h->openapi->before);
    js_dump(base, &text);
    buf_add(&text, h->openapi->after);
    request_set_header(r, "Cache-Control", S("no-cache"));
    request_reply(r, MHD_HTTP_OK, "application/json", buf_str(&text));
}

static void show_docs(struct request *r)
{
    request_set_header(r, "Content-Security-Policy", S(ASSETS_DOCS_CSP));
    request_set_header(r, "Referrer-Policy", S("no-referrer"));
    request_set_header(r, "X-Frame-Options", S("DENY"));
    request_set_header(r, "Cross-Origin-Opener-Policy", S("same-origin"));
    request_set_header(r, "Cache-Control", S("no-cache"));
    request_reply(r, MHD_HTTP_OK, "text/html; charset=utf-8",
                  (struct str){assets_docs, sizeof(assets_docs) - 1});
}

const struct route openapi_routes[] = {
    {
        .path = "/openapi.json",
        .methods = HTTP_GET,
        .flags = ROUTE_OPEN | ROUTE_QUICK | ROUTE_CORS,
        .run = show_openapi,
    },
    {.path = "/docs", .methods = HTTP_GET, .flags = ROUTE_OPEN | ROUTE_QUICK, .run = show_docs},
    {.path = NULL},
};
