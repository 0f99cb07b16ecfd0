/* sync_local_to_remote.c - a folder or file of this machine into a box. */
#include "tools/rows.h"
#include "tools/sync.h"

static int run(struct call *c, const void *given, json_t **out, struct err *e)
{
    return sync_tool(c, given, SYNC_UP, out, e);
}

static const struct param params[] = {
    SYNC_PARAMS_UP(struct sync_args),
    SYNC_PARAMS(struct sync_args),
};

const struct tool tool_sync_local_to_remote = {
    .name = "sync_local_to_remote",
    .title = "Sync to a sandbox",
    .help = "Copy a local folder or file into a sandbox, as far as it differs.",
    .params = params,
    .n_params = COUNTOF(params),
    .args_size = sizeof(struct sync_args),
    .toolsets = TOOLSET_DEFAULT | TOOLSET_REMOTE | TOOLSET_ALL,
    .hints = HINT_DESTRUCTIVE | HINT_IDEMPOTENT,
    .run = run,
};
