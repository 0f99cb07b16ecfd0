/* sync_local_to_remote_background.c - the same as sync_local_to_remote, and always a transfer. */
#include "tools/rows.h"
#include "tools/sync.h"

static int run(struct call *c, const void *given, json_t **out, struct err *e)
{
    return sync_in_background(c, given, out, e);
}

static const struct param params[] = {
    SYNC_PARAMS_UP(struct sync_args),
    SYNC_PARAMS(struct sync_args),
};

const struct tool tool_sync_local_to_remote_background = {
    .name = "sync_local_to_remote_background",
    .title = "Sync to a sandbox in the background",
    .help = "Copy a local folder or file into a sandbox in the background; answers a task_id.",
    .params = params,
    .n_params = COUNTOF(params),
    .args_size = sizeof(struct sync_args),
    .toolsets = TOOLSET_REMOTE | TOOLSET_ALL,
    .hints = HINT_DESTRUCTIVE | HINT_IDEMPOTENT,
    .run = run,
};
