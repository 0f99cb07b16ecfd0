/* sync_remote_to_local.c - a folder or file of a box onto this machine. */
#include "tools/rows.h"
#include "tools/sync.h"

static int run(struct call *c, const void *given, json_t **out, struct err *e)
{
    return sync_tool(c, given, SYNC_DOWN, out, e);
}

static const struct param params[] = {
    {
        .name = "remote_path",
        .type = PARAM_STRING,
        .offset = offsetof(struct sync_args, remote_path),
        .max = FILES_PATH_MAX,
        .fallback_text = ".",
        .help = "folder or file",
    },
    {
        .name = "local_path",
        .type = PARAM_STRING,
        .offset = offsetof(struct sync_args, local_path),
        .max = FILES_PATH_MAX,
        .fallback_text = "./remote_mirror",
        .help = "where it goes",
    },
    SYNC_PARAMS(struct sync_args),
};

const struct tool tool_sync_remote_to_local = {
    .name = "sync_remote_to_local",
    .title = "Sync from a sandbox",
    .help = "Copy a folder or file of a sandbox to this machine, as far as it differs.",
    .params = params,
    .n_params = COUNTOF(params),
    .args_size = sizeof(struct sync_args),
    .toolsets = TOOLSET_DEFAULT | TOOLSET_REMOTE | TOOLSET_ALL,
    .hints = HINT_DESTRUCTIVE | HINT_IDEMPOTENT,
    .run = run,
};
