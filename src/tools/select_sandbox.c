/* select_sandbox.c - which box is meant from now on when a call names none. */
#include "core/idle.h"
#include "tools/answer.h"
#include "tools/rows.h"

struct args {
    struct box_args box;
};

static json_t *refusal(struct call *c, struct str error, enum err_kind kind)
{
    json_t *o = json_object();

    answer_str(o, "error", error);
    (void)json_object_set_new(o, "code", json_string(err_kind_name(kind)));
    (void)json_object_set_new(o, "available", answer_names(c));
    c->is_error = true;
    return o;
}

/* "auto" is the idlest one, unless a sandbox has that name. */
static int select_box(struct call *c, const struct box_want *want, struct box_view *view,
                      struct err *e)
{
    struct str word = want->id.len > 0 ? want->id : want->name;

    if (boxes_select(c->services->boxes, c->ctx, c->scope, want, view, e) == 0) {
        return 0;
    }
    if (e->kind != ERR_NOT_FOUND || !str_eq(word, S("auto"))) {
        return -1;
    }
    return boxes_select_idlest(c->services->boxes, c->ctx, c->scope, view, e);
}

static int run(struct call *c, const void *given, json_t **out, struct err *e)
{
    const struct args *args = given;
    struct box_want want = answer_want(&args->box);
    struct box_view view = {0};

    if (want.id.len == 0 && want.name.len == 0) {
        *out = refusal(c, S("sandbox_name or sandbox_id is required: which sandbox to select"),
                       ERR_INVALID);
        return 0;
    }
    if (select_box(c, &want, &view, e) < 0) {
        if (e->kind != ERR_NOT_FOUND && e->kind != ERR_GONE) {
            return -1;
        }
        *out = refusal(c, str_from(e->msg), e->kind);
        return 0;
    }
    c->box_id = view.row.id;
    *out = json_object();
    answer_str(*out, "active_sandbox", view.row.name);
    answer_str(*out, "sandbox_id", view.row.id);
    if (view.usage != NULL) {
        (void)json_object_set_new(*out, "idle_score", answer_round(idle_score(view.usage), 3));
    }
    (void)json_object_set_new(*out, "status", json_string("selected"));
    return 0;
}

static const struct param params[] = {
    {
        .name = "sandbox_name",
        .type = PARAM_STRING,
        .offset = offsetof(struct args, box.name),
        .max = BOX_WORD_MAX,
        .help = "which; auto: the idlest",
    },
    {
        .name = "sandbox_id",
        .type = PARAM_STRING,
        .offset = offsetof(struct args, box.id),
        .max = BOX_WORD_MAX,
        .help = "instead of sandbox_name",
    },
};

const struct tool tool_select_sandbox = {
    .name = "select_sandbox",
    .title = "Select a sandbox",
    .help = "Make a sandbox the active one: calls that name none use it from now on.",
    .params = params,
    .n_params = COUNTOF(params),
    .args_size = sizeof(struct args),
    .toolsets = TOOLSET_DEFAULT | TOOLSET_REMOTE | TOOLSET_ALL,
    .hints = HINT_IDEMPOTENT,
    .run = run,
};
