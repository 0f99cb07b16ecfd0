/* delete_sandbox.c - end a box. It must be named: the active one never goes by accident. */
#include "tools/answer.h"
#include "tools/rows.h"

struct args {
    struct box_args box;
};

static json_t *not_found(struct call *c, const struct err *e)
{
    json_t *o = json_object();

    answer_str(o, "error", str_from(e->msg));
    (void)json_object_set_new(o, "code", json_string(err_kind_name(e->kind)));
    (void)json_object_set_new(o, "status", json_string("not_found"));
    (void)json_object_set_new(o, "available", answer_names(c));
    c->is_error = true;
    return o;
}

static json_t *unnamed(struct call *c)
{
    json_t *o = json_object();

    answer_str(o, "error",
               S("sandbox_id or sandbox_name is required: which sandbox to delete; `available` "
                 "has those that exist"));
    (void)json_object_set_new(o, "code", json_string(err_kind_name(ERR_INVALID)));
    (void)json_object_set_new(o, "available", answer_names(c));
    c->is_error = true;
    return o;
}

static int run(struct call *c, const void *given, json_t **out, struct err *e)
{
    const struct args *args = given;
    struct box_want want = answer_want(&args->box);
    struct str id = STR_EMPTY;
    struct str name = STR_EMPTY;

    if (want.id.len == 0 && want.name.len == 0) {
        *out = unnamed(c);
        return 0;
    }
    if (boxes_delete(c->services->boxes, c->ctx, c->scope, &want, &id, &name, e) < 0) {
        if (e->kind != ERR_NOT_FOUND) {
            return -1;
        }
        *out = not_found(c, e);
        return 0;
    }
    *out = json_object();
    answer_str(*out, "sandbox_id", id);
    answer_str(*out, "name", name);
    (void)json_object_set_new(*out, "status", json_string("deleted"));
    return 0;
}

static const struct param params[] = {
    {
        .name = "sandbox_id",
        .type = PARAM_STRING,
        .offset = offsetof(struct args, box.id),
        .max = BOX_WORD_MAX,
        .help = "which; this or sandbox_name",
    },
    PARAM_BOX_NAME(struct args),
};

const struct tool tool_delete_sandbox = {
    .name = "delete_sandbox",
    .title = "Delete a sandbox",
    .help = "End a sandbox and everything in it: processes and files are gone for good.",
    .params = params,
    .n_params = COUNTOF(params),
    .args_size = sizeof(struct args),
    .toolsets = TOOLSET_DEFAULT | TOOLSET_OPEN | TOOLSET_ALL,
    .hints = HINT_DESTRUCTIVE | HINT_IDEMPOTENT,
    .run = run,
};
