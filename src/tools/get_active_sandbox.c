/* get_active_sandbox.c - the box that a call without a name would use. Makes none. */
#include "tools/answer.h"
#include "tools/rows.h"

static int run(struct call *c, const void *args, json_t **out, struct err *e)
{
    struct box_view view = {0};

    (void)args;
    if (boxes_active(c->services->boxes, c->ctx, c->scope, &view, e) < 0) {
        if (e->kind != ERR_NOT_FOUND && e->kind != ERR_GONE) {
            return -1;
        }
        *out = json_object();
        (void)json_object_set_new(*out, "active_sandbox", json_null());
        answer_str(*out, "note",
                   S("there is no active sandbox: create_sandbox makes one, select_sandbox picks "
                     "one that exists"));
        answer_str(*out, "reason", str_from(e->msg));
        return 0;
    }
    c->box_id = view.row.id;
    *out = json_object();
    answer_str(*out, "active_sandbox", view.row.name);
    answer_str(*out, "sandbox_id", view.row.id);
    answer_str(*out, "provider", view.row.provider);
    (void)json_object_set_new(*out, "status", json_string(answer_status(&view)));
    answer_connection(*out, &view);
    answer_str_if(*out, "work_dir", view.info.work_dir);
    return 0;
}

const struct tool tool_get_active_sandbox = {
    .name = "get_active_sandbox",
    .title = "Get the active sandbox",
    .help =
        "Tell the active sandbox, which is used by calls that name none, and whether it is alive.",
    .toolsets = TOOLSET_DEFAULT | TOOLSET_REMOTE | TOOLSET_ALL,
    .hints = HINT_READ_ONLY | HINT_IDEMPOTENT,
    .run = run,
};
