/* resource_job.c - resources/list, resources/templates/list and resources/read. */
#include "base/utf8.h"
#include "json/js.h"
#include "mcp/calls.h"
#include "mcp/mcp.h"
#include "mcp/method_rows.h"
#include "tools/resource.h"

static json_t *show(const struct resource *row, enum revision rev)
{
    json_t *o = json_pack("{s:s, s:s, s:s}", resource_is_template(row) ? "uriTemplate" : "uri",
                          row->uri, "name", row->name, "description", row->help);

    if (row->mime != NULL) {
        (void)json_object_set_new(o, "mimeType", json_string(row->mime));
    }
    if (revision_has(rev, REV_TITLES) && row->title != NULL) {
        (void)json_object_set_new(o, "title", json_string(row->title));
    }
    return o;
}

static json_t *all_of(bool templates, enum revision rev, const struct config *config)
{
    json_t *all = json_array();

    for (size_t i = 0; resources[i] != NULL; i++) {
        if (resources[i]->templates != NULL) {
            if (templates) {
                resources[i]->templates(config, all);
            }
        } else if (resource_is_template(resources[i]) == templates) {
            (void)json_array_append_new(all, show(resources[i], rev));
        }
    }
    return all;
}

/* With those of each template that there are, which takes a look into the database. */
static void list_all(struct running *r, struct buf *out)
{
    json_t *all = all_of(false, r->rev, r->call.services->config);
    json_t *result own_json = json_pack("{s:o}", "resources", all);
    struct err e = {0};

    for (size_t i = 0; resources[i] != NULL; i++) {
        if (resources[i]->list != NULL && resources[i]->list(&r->call, all, &e) < 0) {
            running_fail(r, out, &e);
            return;
        }
    }
    running_result(r, out, result, CACHE_HINTS_PRIVATE);
}

static const struct job list_job = {.run = list_all, .refuse = running_refuse};

void run_resources_list(const struct exchange *x)
{
    if (exchange_check_cursor(x)) {
        calls_start(x, &list_job, NULL, "resources/list");
    }
}

void run_templates_list(const struct exchange *x)
{
    json_t *all own_json = all_of(true, x->rev, x->peer->mcp->services->config);

    exchange_list(x, "resourceTemplates", all, CACHE_HINTS_PRIVATE);
}

/* ---- resources/read -------------------------------------------------------------------------- */

static void not_found(struct running *r, struct buf *out, struct str uri, struct str sentence)
{
    struct buf data own_buf = {0};

    buf_init(&data, MCP_MESSAGE_MAX);
    buf_add(&data, S("{\"uri\":"));
    rpc_add_string(&data, uri);
    buf_addc(&data, '}');
    running_error(r, out,
                  revision_has(r->rev, REV_MODERN) ? RPC_INVALID_PARAMS : RPC_RESOURCE_NOT_FOUND,
                  sentence, buf_str(&data));
}

static void read_it(struct running *r, struct buf *out)
{
    struct str uri = js_str(js_get(r->params, "uri"));
    struct str values[RESOURCE_VALUES] = {{0}};
    const struct resource *row = resource_find(uri, values);
    json_t *contents = NULL;
    json_t *result own_json = json_object();
    struct err e = {0};

    if (row == NULL) {
        not_found(r, out, uri, S("Resource not found"));
        return;
    }
    if (row->read(&r->call, uri, values, &contents, &e) < 0) {
        if (e.kind == ERR_NOT_FOUND) {
            not_found(r, out, uri, S("Resource not found"));
        } else if (e.kind == ERR_GONE) {
            not_found(r, out, uri, str_from(e.msg)); /* which box ended, and why */
        } else {
            running_fail(r, out, &e);
        }
        return;
    }
    if (contents != NULL) {
        (void)json_object_set_new(result, "contents", contents);
    }
    running_result(r, out, result, CACHE_HINTS_PRIVATE);
}

static const struct job read_job = {.run = read_it, .refuse = running_refuse};

void run_resources_read(const struct exchange *x)
{
    if (!json_is_string(js_get(x->msg->params, "uri"))) {
        exchange_error(
            x, RPC_INVALID_PARAMS,
            "resources/read needs \"uri\", a string; resources/list shows the resources.");
        return;
    }
    calls_start(x, &read_job, NULL, "resources/read");
}
