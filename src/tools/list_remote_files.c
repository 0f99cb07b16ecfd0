/* list_remote_files.c - what is in a folder of a box. */
#include "tools/files.h"
#include "tools/rows.h"

struct args {
    struct box_args box;
    struct str remote_path;
    bool recursive;
    int64_t max_entries;
};

struct listing {
    const struct args *args;
    json_t *entries;
    bool more;
};

static const char *type_word(enum file_type type)
{
    switch (type) {
    case FILE_SYMLINK: return "symlink";
    case FILE_OTHER: return "other";
    case FILE_REGULAR:
    case FILE_DIR: return NULL;
    }
    return NULL;
}

static int add_entry(void *arg, const struct file_info *info, struct err *e)
{
    struct listing *l = arg;
    json_t *o = json_object();
    const char *type = type_word(info->type);

    (void)e;
    answer_str(o, "path", info->path);
    (void)json_object_set_new(o, "is_dir", json_boolean(info->type == FILE_DIR));
    (void)json_object_set_new(o, "size", json_integer(info->size));
    (void)json_object_set_new(o, "mtime", json_integer(info->mtime_s));
    if (type != NULL) {
        (void)json_object_set_new(o, "type", json_string(type));
    }
    (void)json_array_append_new(l->entries, o);
    return 0;
}

static int list(void *arg, struct call *c, struct box *b, struct str id, struct err *e)
{
    struct listing *l = arg;
    struct str path = files_path(c->ctx->arena, l->args->remote_path);

    (void)id;
    (void)json_array_clear(l->entries);
    struct list_req req = {
        .dir = path,
        .recursive = l->args->recursive,
        .max = (uint32_t)l->args->max_entries,
    };

    if (box_file_list(b, c->ctx, &req, add_entry, l, &l->more, e) < 0) {
        return files_explain(c, b, path, FILE_DIR, e);
    }
    return 0;
}

static int run(struct call *c, const void *given, json_t **out, struct err *e)
{
    const struct args *args = given;
    own_json json_t *entries = json_array();
    struct listing l = {.args = args, .entries = entries};

    if (answer_with_box(c, &args->box, false, list, &l, NULL, e) < 0) {
        return -1;
    }
    *out = json_object();
    (void)json_object_set(*out, "entries", entries);
    (void)json_object_set_new(*out, "truncated", json_boolean(l.more));
    return 0;
}

static const struct param params[] = {
    {
        .name = "remote_path",
        .type = PARAM_STRING,
        .offset = offsetof(struct args, remote_path),
        .max = FILES_PATH_MAX,
        .fallback_text = ".",
        .help = "folder; relative to the work folder, or ~",
    },
    {
        .name = "recursive",
        .type = PARAM_BOOLEAN,
        .offset = offsetof(struct args, recursive),
        .help = "also what is below",
    },
    {
        .name = "max_entries",
        .type = PARAM_INTEGER,
        .offset = offsetof(struct args, max_entries),
        .min = 1,
        .max = 100000,
        .fallback = 200,
        .help = "entries at most",
    },
    PARAM_BOX(struct args),
    {
        .name = "path",
        .type = PARAM_STRING,
        .offset = offsetof(struct args, remote_path),
        .hidden = true,
        .max = FILES_PATH_MAX,
        .fallback_text = ".",
        .help = "the same as remote_path",
    },
};

const struct tool tool_list_remote_files = {
    .name = "list_remote_files",
    .title = "List files",
    .help = "List a folder of a sandbox: path, is_dir, size and mtime of each entry.",
    .params = params,
    .n_params = COUNTOF(params),
    .args_size = sizeof(struct args),
    .toolsets = TOOLSET_DEFAULT | TOOLSET_REMOTE | TOOLSET_ALL,
    .hints = HINT_READ_ONLY | HINT_IDEMPOTENT,
    .run = run,
};
