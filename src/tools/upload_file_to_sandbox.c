/* upload_file_to_sandbox.c - one local file into a folder of a box, as MCP Sandbox has it. */
#include "base/path.h"
#include "tools/files.h"
#include "tools/rows.h"
#include "tools/sync.h"

struct args {
    struct box_args box;
    struct str local_file_path, dest_path;
};

static int run(struct call *c, const void *given, json_t **out, struct err *e)
{
    static const struct str all[] = {{"!*", 2}}; /* a file that is named is meant */
    const struct args *args = given;
    struct arena *a = c->ctx->arena;
    struct sync_args sync = {
        .box = args->box,
        .local_path = args->local_file_path,
        .remote_path = arena_printf(a, "%.*s/", STR_ARG(str_trim(args->dest_path))),
        .exclude_style = S("git"),
        .excludes = {.items = all, .n = COUNTOF(all)},
    };
    json_t *done own_json = NULL;
    struct str path;

    if (sync_file_up(c, &sync, &done, e) < 0) {
        return -1;
    }
    if (done == NULL) {
        return 0; /* the client is asked first */
    }
    path = js_str(js_get(done, "remote_path"));
    *out = json_pack("{s:b}", "success", 1);
    answer_str(*out, "message",
               arena_printf(a, "%.*s is in the sandbox as %.*s",
                            STR_ARG(path_base(args->local_file_path)), STR_ARG(path)));
    answer_str(*out, "path", path);
    (void)json_object_set(*out, "duration_s", js_get(done, "duration_s"));
    return 0;
}

static const struct param params[] = {
    {
        .name = "local_file_path",
        .type = PARAM_STRING,
        .offset = offsetof(struct args, local_file_path),
        .required = true,
        .max = FILES_PATH_MAX,
        .help = "file on this machine",
    },
    {
        .name = "dest_path",
        .type = PARAM_STRING,
        .offset = offsetof(struct args, dest_path),
        .max = FILES_PATH_MAX - 1,
        .fallback_text = ".",
        .help = "folder in the sandbox; default: the work folder",
    },
    PARAM_BOX(struct args),
};

const struct tool tool_upload_file_to_sandbox = {
    .name = "upload_file_to_sandbox",
    .title = "Upload a file",
    .help = "Copy a file of this machine into a folder of a sandbox.",
    .params = params,
    .n_params = COUNTOF(params),
    .args_size = sizeof(struct args),
    .toolsets = TOOLSET_MCP | TOOLSET_ALL,
    .hints = HINT_DESTRUCTIVE | HINT_IDEMPOTENT,
    .run = run,
};
