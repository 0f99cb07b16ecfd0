/* sync_local_to_remote_background.c - the same as sync_local_to_remote, and always a transfer; or
 * one that has ended early once more, whatever its direction. */
#include "tools/rows.h"
#include "tools/sync.h"
#include "tools/transfer.h"

struct args {
    struct sync_args sync;
    int64_t task_id;
};

static int resume(struct call *c, int64_t task_id, json_t **out, struct err *e)
{
    struct transfer_started started;

    if (transfer_resume(c->services, c->ctx, c->scope, task_id, &started, e) < 0) {
        return -1;
    }
    *out = transfer_answer(&started, false);
    return 0;
}

static int run(struct call *c, const void *given, json_t **out, struct err *e)
{
    const struct args *args = given;

    if (args->task_id > 0) {
        return resume(c, args->task_id, out, e);
    }
    return sync_in_background(c, &args->sync, out, e);
}

static const struct param params[] = {
    SYNC_PARAMS_UP(struct sync_args),
    SYNC_PARAMS(struct sync_args),
    {
        .name = "task_id",
        .type = PARAM_INTEGER,
        .offset = offsetof(struct args, task_id),
        .min = 1,
        .max = INT64_MAX,
        .help = "instead of all others: go on with this one, which has ended early",
        .hidden = true,
    },
};

const struct tool tool_sync_local_to_remote_background = {
    .name = "sync_local_to_remote_background",
    .title = "Sync to a sandbox in the background",
    .help = "Copy a local folder or file into a sandbox in the background; answers a task_id.",
    .params = params,
    .n_params = COUNTOF(params),
    .args_size = sizeof(struct args),
    .toolsets = TOOLSET_REMOTE | TOOLSET_ALL,
    .hints = HINT_DESTRUCTIVE | HINT_IDEMPOTENT,
    .run = run,
};
