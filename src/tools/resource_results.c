/* resource_results.c - the last answers of the operator's own tools, at the addresses that they name. */
#include "base/percent.h"
#include "core/journal.h"
#include "tools/resource_rows.h"

#define HOLE "{sandbox_id}"

struct str resource_result_key(struct call *c, struct str uri, struct str box_id)
{
    return arena_printf(c->ctx->arena, "result %.*s %.*s %.*s", STR_ARG(c->scope->owner),
                        STR_ARG(uri), STR_ARG(box_id));
}

/* "benchmark://{sandbox_id}/results" of "benchmark", "results"; empty: no tool has it. */
static struct str template_of(struct call *c, const struct str *values)
{
    const struct config *config = c->services->config;
    struct str wanted =
        arena_printf(c->ctx->arena, "%.*s://" HOLE "/%.*s", STR_ARG(values[0]), STR_ARG(values[2]));

    for (size_t i = 0; i < config->n_tools; i++) {
        if (str_eq(config->tools[i].resource, wanted)) {
            return wanted;
        }
    }
    return STR_EMPTY;
}

static int key_of(struct call *c, const struct str *values, struct str *out, struct err *e)
{
    struct str uri = template_of(c, values);
    struct box_want want;
    struct str id;

    if (uri.len == 0) {
        return err_set(e, ERR_NOT_FOUND, "no tool has such a resource");
    }
    if (resource_box_word(c, values[1], &want, e) < 0) {
        return -1;
    }
    struct box *b CLEANUP(box_unref_p) =
        boxes_find(c->services->boxes, c->ctx, c->scope, &want, &id, e);
    if (b == NULL) {
        return -1;
    }
    *out = resource_result_key(c, uri, id);
    return 0;
}

static int read_result(struct call *c, struct str uri, const struct str *values, json_t **contents,
                       struct err *e)
{
    struct buf text own_buf = {0};
    struct str key = STR_EMPTY;

    if (key_of(c, values, &key, e) < 0) {
        return -1;
    }
    buf_init(&text, JOURNAL_BYTES);
    journal_tail(c->services->journal, key, SIZE_MAX, &text);
    if (text.len == 0) {
        return err_set(e, ERR_NOT_FOUND, "its tool was not run there yet");
    }
    *contents = resource_text(uri, "application/json", buf_str(&text));
    return 0;
}

static int version(struct call *c, const struct str *values, bool quick, struct buf *out,
                   struct err *e)
{
    struct str key = STR_EMPTY;

    (void)quick;
    if (key_of(c, values, &key, e) < 0) {
        return -1;
    }
    buf_addf(out, "%llu", (unsigned long long)journal_count(c->services->journal, key));
    return 0;
}

static void templates(const struct config *config, json_t *all)
{
    for (size_t i = 0; i < config->n_tools; i++) {
        const struct config_tool *t = &config->tools[i];

        if (t->resource.len > 0) {
            (void)json_array_append_new(all,
                                        json_pack("{s:s, s:s, s:s, s:s}", "uriTemplate",
                                                  t->resource.p, "name", t->name.p, "description",
                                                  t->help.p, "mimeType", "application/json"));
        }
    }
}

const struct resource resource_result = {
    .uri = "{scheme}://{sandbox_id}/{+rest}",
    .name = "result",
    .help = "what a tool of the configuration answered last",
    .mime = "application/json",
    .changes = true,
    .read = read_result,
    .version = version,
    .templates = templates,
    .complete = resource_complete_box,
};
