/* cancel_file_transfer_task.c - ends a background sync. */
#include "tools/rows.h"
#include "tools/transfer.h"

#define KILL_AFTER_MAX_S 300

struct args {
    int64_t task_id;
    double force_kill_after_s;
};

static int run(struct call *c, const void *given, json_t **out, struct err *e)
{
    const struct args *args = given;
    struct transfer_cancelled done;

    double wait_s = args->force_kill_after_s > 0 ? args->force_kill_after_s : 0;

    if (transfer_cancel(c->services, c->ctx, c->scope, args->task_id, (int64_t)(wait_s * 1000),
                        &done, e) < 0) {
        return -1;
    }
    *out = json_object();
    (void)json_object_set_new(*out, "task_id", json_integer(args->task_id));
    (void)json_object_set_new(*out, "status", json_string(transfer_status(done.state)));
    if (done.already && !done.terminated && !done.lives) {
        (void)json_object_set_new(*out, "already_finished", json_true());
    }
    if (done.terminated) {
        (void)json_object_set_new(*out, "terminated", json_true());
    }
    if (done.killed) {
        (void)json_object_set_new(*out, "force_killed", json_true());
    }
    if (done.lives) {
        (void)json_object_set_new(*out, "error",
                                  json_string("Worker still running after cancellation attempt"));
    }
    return 0;
}

static const struct param params[] = {
    {
        .name = "task_id",
        .type = PARAM_INTEGER,
        .offset = offsetof(struct args, task_id),
        .required = true,
        .min = 1,
        .max = INT64_MAX,
        .help = "as the sync told it",
    },
    {
        .name = "force_kill_after_s",
        .type = PARAM_NUMBER,
        .offset = offsetof(struct args, force_kill_after_s),
        .min = -1, /* itself is refused: 0 means at once */
        .max = KILL_AFTER_MAX_S,
        .fallback_text = "5",
        .help = "seconds until its worker is killed that has not ended by itself",
    },
};

const struct tool tool_cancel_file_transfer_task = {
    .name = "cancel_file_transfer_task",
    .title = "Cancel a background sync",
    .help =
        "End a sync that runs in the background. Files that have arrived stay, each is whole; the "
        "same sync made again goes on from there.",
    .params = params,
    .n_params = COUNTOF(params),
    .args_size = sizeof(struct args),
    .toolsets = TOOLSET_DEFAULT | TOOLSET_REMOTE | TOOLSET_ALL,
    .hints = HINT_DESTRUCTIVE | HINT_IDEMPOTENT,
    .run = run,
};
