/*
 * delete_sandbox.c - end a box. It must be named: the active one never goes by accident.
 *
 * A box in which something runs is ended only after a person said so, where the client
 * can ask one. Other clients were never asked, and programs of theirs delete busy boxes
 * every day: for them nothing changed.
 */
#include "tools/answer.h"
#include "tools/confirm.h"
#include "tools/rows.h"

struct args {
    struct box_args box;
    bool force;
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

/* How many processes would end with the box. A box that cannot be asked has none that
 * anybody could miss: whether it exists at all is for boxes_delete() to say. */
static int count_running(struct call *c, const struct box_want *want, struct str *id)
{
    struct err ignored;
    struct usage usage = {0};
    struct box *b CLEANUP(box_unref_p) =
        boxes_find(c->services->boxes, c->ctx, c->scope, want, id, &ignored);

    if (b == NULL || box_usage(b, c->ctx, &usage, &ignored) < 0) {
        return 0;
    }
    return usage.processes;
}

static json_t *kept(struct str id, int running, enum confirmed confirmed)
{
    json_t *o = json_object();
    const char *reason = confirmed == CONFIRM_NO
                             ? "the user declined; the sandbox was left as it is"
                             : "nobody confirmed it, so the sandbox was left as it is; end its "
                               "processes first, or ask the user and call again with force: true";

    answer_str(o, "sandbox_id", id);
    (void)json_object_set_new(o, "status", json_string("not_deleted"));
    (void)json_object_set_new(o, "processes", json_integer(running));
    (void)json_object_set_new(o, "reason", json_string(reason));
    return o;
}

/* CONFIRM_YES also when there is nothing to ask about, or nobody who could be asked. What
 * was confirmed is that very box, whoever has its name by then. */
static int ask_first(struct call *c, const struct args *args, struct box_want *want,
                     enum confirmed *confirmed, json_t **out, struct err *e)
{
    struct str id = STR_EMPTY;
    struct str message;
    int running;

    *confirmed = CONFIRM_YES;
    if ((c->can & CAN_FORM) == 0 || args->force) {
        return 0;
    }
    running = count_running(c, want, &id);
    if (running <= 0) {
        return 0;
    }
    message = arena_printf(c->ctx->arena,
                           "Delete sandbox \"%.*s\"? %d process%s running in it; %s and all files "
                           "of the sandbox would be gone for good.",
                           STR_ARG(want->name.len > 0 ? want->name : want->id), running,
                           running == 1 ? " is" : "es are", running == 1 ? "it" : "they");
    if (confirm_ask(c, id, message, "Delete the sandbox", confirmed, e) < 0) {
        return -1;
    }
    if (*confirmed == CONFIRM_NO || *confirmed == CONFIRM_NOBODY) {
        *out = kept(id, running, *confirmed);
    }
    *want = (struct box_want){.id = id};
    return 0;
}

static int run(struct call *c, const void *given, json_t **out, struct err *e)
{
    const struct args *args = given;
    struct box_want want = answer_want(&args->box);
    struct str id = STR_EMPTY;
    struct str name = STR_EMPTY;
    enum confirmed confirmed;

    if (want.id.len == 0 && want.name.len == 0) {
        *out = unnamed(c);
        return 0;
    }
    if (ask_first(c, args, &want, &confirmed, out, e) < 0) {
        return -1;
    }
    if (confirmed != CONFIRM_YES) {
        return 0;
    }
    if (boxes_delete(c->services->boxes, c->ctx, c->scope, &want, &id, &name, e) < 0) {
        if (e->kind != ERR_NOT_FOUND) {
            return -1;
        }
        *out = not_found(c, e);
        return 0;
    }
    c->box_id = id;
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
    {
        .name = "force",
        .type = PARAM_BOOLEAN,
        .offset = offsetof(struct args, force),
        .help = "do not ask the user when processes are running in it",
        .hidden = true,
    },
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
