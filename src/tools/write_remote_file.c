/* write_remote_file.c - a whole file into a box: the old one or the new one, never half. */
#include "tools/base64.h"
#include "tools/files.h"
#include "tools/rows.h"

#define CONTENT_MAX (12 << 20) /* bytes; a message is at most 16 MiB */

struct args {
    struct box_args box;
    struct str remote_path, content, encoding, mode;
    bool append, create_parents;
};

struct writing {
    struct str path, bytes;
    mode_t mode;
    enum write_flags flags;
    int64_t size;
};

static int write_file(void *arg, struct call *c, struct box *b, struct str id, struct err *e)
{
    struct writing *w = arg;

    (void)id;
    if (files_write(c, b, w->path, w->bytes, w->mode, w->flags, &w->size, e) == 0) {
        return 0;
    }
    if (e->kind == ERR_NOT_FOUND && !(w->flags & FILE_PARENTS)) {
        return err_set(e, ERR_NOT_FOUND,
                       "the folder of \"%.*s\" does not exist in the sandbox; leave "
                       "create_parents out to have it made",
                       STR_ARG(str_head(w->path, 256)));
    }
    return files_explain(c, b, w->path, FILE_REGULAR, e);
}

static int prepare(struct call *c, const struct args *args, struct writing *w, struct err *e)
{
    if (files_target(c, args->remote_path, &w->path, e) < 0) {
        return err_wrap(e, "remote_path");
    }
    w->bytes = args->content;
    w->flags = (enum write_flags)((args->create_parents ? FILE_PARENTS : 0) |
                                  (args->append ? FILE_APPEND : 0));
    if (files_mode(args->mode, &w->mode, e) < 0) {
        return -1;
    }
    if (str_eq(args->encoding, S("base64")) &&
        base64_decode(c->ctx->arena, args->content, &w->bytes, e) < 0) {
        return err_wrap(e, "content was not written");
    }
    return 0;
}

static int run(struct call *c, const void *given, json_t **out, struct err *e)
{
    const struct args *args = given;
    struct writing w = {0};
    struct str note = STR_EMPTY;

    if (prepare(c, args, &w, e) < 0 ||
        answer_with_box(c, &args->box, true, write_file, &w, &note, e) < 0) {
        return -1;
    }
    *out = json_object();
    answer_str(*out, "path", w.path);
    (void)json_object_set_new(*out, "size", json_integer(w.size));
    (void)json_object_set_new(*out, "status", json_string("written"));
    answer_str_if(*out, "note", note);
    return 0;
}

static const char *const encodings[] = {"utf-8", "base64", NULL};

static const struct param params[] = {
    {
        .name = "remote_path",
        .type = PARAM_STRING,
        .offset = offsetof(struct args, remote_path),
        .required = true,
        .max = FILES_PATH_MAX,
        .help = "file to write",
    },
    {
        .name = "content",
        .type = PARAM_STRING,
        .offset = offsetof(struct args, content),
        .required = true,
        .max = CONTENT_MAX,
        .help = "the file's new content",
        .too_long = "write it in parts, with append for the later ones",
    },
    {
        .name = "encoding",
        .type = PARAM_STRING,
        .offset = offsetof(struct args, encoding),
        .fallback_text = "utf-8",
        .choices = encodings,
        .help = "of content; base64 for binary data",
    },
    {
        .name = "mode",
        .type = PARAM_STRING,
        .offset = offsetof(struct args, mode),
        .max = 32,
        .help = "octal, such as 755; default: as it was, or 644",
    },
    {
        .name = "append",
        .type = PARAM_BOOLEAN,
        .offset = offsetof(struct args, append),
        .help = "add to the end",
    },
    {
        .name = "create_parents",
        .type = PARAM_BOOLEAN,
        .offset = offsetof(struct args, create_parents),
        .fallback = 1,
        .help = "make missing folders",
    },
    PARAM_BOX(struct args),
    {
        .name = "path",
        .type = PARAM_STRING,
        .offset = offsetof(struct args, remote_path),
        .hidden = true,
        .max = FILES_PATH_MAX,
        .help = "the same as remote_path",
    },
};

const struct tool tool_write_remote_file = {
    .name = "write_remote_file",
    .title = "Write a file",
    .help = "Write a file in a sandbox, replacing it at once or not at all.",
    .params = params,
    .n_params = COUNTOF(params),
    .args_size = sizeof(struct args),
    .toolsets = TOOLSET_DEFAULT | TOOLSET_ALL,
    .hints = HINT_DESTRUCTIVE | HINT_IDEMPOTENT,
    .run = run,
};
