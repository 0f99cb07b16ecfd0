/* write_remote_file.c - a whole file into a box: the old one or the new one, never half. */
#include <string.h>

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
    size_t at;
    mode_t mode;
    enum write_flags flags;
    int64_t size;
};

static ssize_t read_content(void *arg, char *to, size_t cap, struct err *e)
{
    struct writing *w = arg;
    struct str left = str_head(str_skip(w->bytes, w->at), cap);

    (void)e;
    if (left.len > 0) {
        memcpy(to, left.p, left.len);
    }
    w->at += left.len;
    return (ssize_t)left.len;
}

static int write_file(void *arg, struct call *c, struct box *b, struct str id, struct err *e)
{
    struct writing *w = arg;
    struct source source = {.read = read_content, .arg = w, .fd = -1};
    struct file_info info = {0};

    (void)id;
    w->at = 0;
    if (box_file_write(b, c->ctx, w->path, w->mode, w->flags, &source, &info, e) < 0) {
        if (e->kind == ERR_NOT_FOUND && !(w->flags & FILE_PARENTS)) {
            return err_set(e, ERR_NOT_FOUND,
                           "the folder of \"%.*s\" does not exist in the sandbox; leave "
                           "create_parents out to have it made",
                           STR_ARG(str_head(w->path, 256)));
        }
        return files_explain(c, b, w->path, FILE_REGULAR, e);
    }
    w->size = info.size;
    return 0;
}

/* "755", "0755" and "0o755". */
static int parse_mode(struct str text, mode_t *out, struct err *e)
{
    struct str digits = str_trim(text);
    mode_t mode = 0;

    if (digits.len == 0) {
        *out = 0;
        return 0;
    }
    if (str_starts(digits, S("0o"))) {
        digits = str_skip(digits, 2);
    }
    for (size_t i = 0; i < digits.len; i++) {
        if (digits.len > 5 || digits.p[i] < '0' || digits.p[i] > '7') {
            return err_set(e, ERR_INVALID,
                           "mode must be permissions in octal such as \"644\" or \"755\", not "
                           "\"%.*s\"",
                           STR_ARG(str_head(text, 20)));
        }
        mode = mode << 3 | (mode_t)(digits.p[i] - '0');
    }
    if (digits.len == 0 || mode == 0 || mode > 07777) {
        return err_set(e, ERR_INVALID, "mode must be from \"1\" to \"7777\" in octal, not \"%.*s\"",
                       STR_ARG(str_head(text, 20)));
    }
    *out = mode;
    return 0;
}

static int prepare(struct call *c, const struct args *args, struct writing *w, struct err *e)
{
    struct str typed = str_trim(args->remote_path);

    if (typed.len == 0 || str_ends(typed, S("/"))) {
        return err_set(e, ERR_INVALID,
                       "remote_path must name a file, not \"%.*s\"; give the folder and the file's "
                       "name",
                       STR_ARG(str_head(typed, 256)));
    }
    if (str_starts(typed, S("output:"))) {
        return err_set(e, ERR_INVALID,
                       "kept outputs can only be read; use \"./%.*s\" for a file "
                       "of that name",
                       STR_ARG(str_head(typed, 256)));
    }
    w->path = files_path(c->ctx->arena, typed);
    w->bytes = args->content;
    w->flags = (enum write_flags)((args->create_parents ? FILE_PARENTS : 0) |
                                  (args->append ? FILE_APPEND : 0));
    if (parse_mode(args->mode, &w->mode, e) < 0) {
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
