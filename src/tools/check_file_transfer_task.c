/* check_file_transfer_task.c - how far a background sync is. */
#include "base/own.h"
#include "base/plain.h"
#include "tools/rows.h"
#include "tools/transfer.h"

#define LISTED   20
#define TAIL_MAX 65536

struct args {
    int64_t task_id;
    int64_t last_n_lines;
};

static int add_one(void *arg, const struct transfer_view *view, struct err *e)
{
    json_t *list = arg;

    (void)e;
    (void)json_array_append_new(list, transfer_view_answer(view));
    return 0;
}

static int list_all(struct call *c, json_t **out, struct err *e)
{
    own_json json_t *list = json_array();

    if (transfer_each(c->services, c->ctx, c->scope, LISTED, add_one, list, e) < 0) {
        return -1;
    }
    *out = json_object();
    (void)json_object_set(*out, "transfers", list);
    return 0;
}

static int run(struct call *c, const void *given, json_t **out, struct err *e)
{
    const struct args *args = given;
    struct buf tail own_buf = {0};
    struct transfer_view view;

    if (args->task_id == 0) {
        return list_all(c, out, e);
    }
    if (transfer_get(c->services, c->ctx, c->scope, args->task_id, &view, e) < 0) {
        return -1;
    }
    buf_init(&tail, TAIL_MAX);
    if (args->last_n_lines > 0) {
        plain_text(transfer_log(&view.row, args->last_n_lines, c->ctx->arena), &tail);
    }
    *out = transfer_view_answer(&view);
    answer_str(*out, "log_file", view.row.log_file);
    answer_str_if(*out, "log_tail", buf_str(&tail));
    return 0;
}

static const struct param params[] = {
    {
        .name = "task_id",
        .type = PARAM_INTEGER,
        .offset = offsetof(struct args, task_id),
        .max = INT64_MAX,
        .help = "as the sync told it; left out: the latest transfers",
    },
    {
        .name = "last_n_lines",
        .type = PARAM_INTEGER,
        .offset = offsetof(struct args, last_n_lines),
        .max = 1000,
        .fallback = 50,
        .help = "of its log",
    },
};

const struct tool tool_check_file_transfer_task = {
    .name = "check_file_transfer_task",
    .title = "Check a background sync",
    .help =
        "Tell how far a sync in the background is: its status, files and bytes so far, rate, time "
        "left, and the end of its log. A stale one has died: make the same sync again.",
    .params = params,
    .n_params = COUNTOF(params),
    .args_size = sizeof(struct args),
    .toolsets = TOOLSET_DEFAULT | TOOLSET_REMOTE | TOOLSET_ALL,
    .hints = HINT_READ_ONLY | HINT_IDEMPOTENT,
    .run = run,
};
