/*
 * upload_files.c - files whose contents come in the call.
 *
 * Each is written whole or not at all, and each fails for itself: the answer has both lists.
 */
#include "base/sha256.h"
#include "tools/base64.h"
#include "tools/files.h"
#include "tools/rows.h"

struct file_arg {
    struct str path, content, encoding, mode;
};

struct args {
    struct box_args box;
    struct object_list files;
};

struct uploading {
    const struct args *args;
    json_t *uploaded, *failed;
};

static int upload(struct call *c, struct box *b, const struct file_arg *f, json_t *to,
                  struct err *e)
{
    unsigned char hash[SHA256_SIZE];
    char hex[SHA256_HEX_SIZE];
    struct str path;
    struct str bytes = f->content;
    mode_t mode = 0;
    int64_t size = 0;
    json_t *o;

    if (files_target(c, f->path, &path, e) < 0 || files_mode(f->mode, &mode, e) < 0) {
        return -1;
    }
    if (str_eq(f->encoding, S("base64")) &&
        base64_decode(c->ctx->arena, f->content, &bytes, e) < 0) {
        return err_wrap(e, "content (give encoding \"utf-8\" for plain text)");
    }
    if (files_write(c, b, path, bytes, mode, FILE_PARENTS, &size, e) < 0) {
        return files_explain(c, b, path, FILE_REGULAR, e);
    }
    sha256_of(bytes, hash);
    o = json_object();
    answer_str(o, "path", path);
    (void)json_object_set_new(o, "size", json_integer(size));
    (void)json_object_set_new(o, "sha256", json_string(sha256_hex(hash, hex)));
    (void)json_array_append_new(to, o);
    return 0;
}

/* Will the next file fail for the same reason? */
static bool is_for_all(enum err_kind kind)
{
    return kind == ERR_GONE || kind == ERR_UNREACHABLE || kind == ERR_CANCELLED ||
           kind == ERR_TIMEOUT || kind == ERR_PROTOCOL || kind == ERR_UNSUPPORTED;
}

static int upload_all(void *arg, struct call *c, struct box *b, struct str id, struct err *e)
{
    struct uploading *u = arg;
    const struct file_arg *files = u->args->files.items;

    (void)id;
    (void)json_array_clear(u->uploaded);
    (void)json_array_clear(u->failed);
    for (size_t i = 0; i < u->args->files.n; i++) {
        json_t *o;

        if (upload(c, b, &files[i], u->uploaded, e) == 0) {
            continue;
        }
        if (is_for_all(e->kind) && json_array_size(u->uploaded) == 0) {
            return -1;
        }
        o = json_object();
        answer_str(o, "path", files[i].path);
        answer_str(o, "error", str_from(e->msg));
        (void)json_array_append_new(u->failed, o);
    }
    return 0;
}

static int run(struct call *c, const void *given, json_t **out, struct err *e)
{
    const struct args *args = given;
    own_json json_t *uploaded = json_array();
    own_json json_t *failed = json_array();
    struct uploading u = {.args = args, .uploaded = uploaded, .failed = failed};
    struct str note = STR_EMPTY;

    if (args->files.n == 0) {
        return err_set(e, ERR_INVALID, "files is empty; give at least one {path, content}");
    }
    if (answer_with_box(c, &args->box, true, upload_all, &u, &note, e) < 0) {
        return -1;
    }
    c->is_error = json_array_size(uploaded) == 0;
    *out = json_object();
    (void)json_object_set(*out, "uploaded", uploaded);
    (void)json_object_set(*out, "failed", failed);
    answer_str_if(*out, "note", note);
    return 0;
}

static const char *const encodings[] = {"base64", "utf-8", NULL};

#define CONTENT_MAX (16 << 20) /* as much as a message can have */

static const struct param fields[] = {
    {
        .name = "path",
        .type = PARAM_STRING,
        .offset = offsetof(struct file_arg, path),
        .required = true,
        .max = FILES_PATH_MAX,
        .help = "where it goes; missing folders are made",
    },
    {
        .name = "content",
        .type = PARAM_STRING,
        .offset = offsetof(struct file_arg, content),
        .required = true,
        .max = CONTENT_MAX,
        .help = "the file's content",
        .too_long = "sync_local_to_remote takes files of any size",
    },
    {
        .name = "encoding",
        .type = PARAM_STRING,
        .offset = offsetof(struct file_arg, encoding),
        .fallback_text = "base64",
        .choices = encodings,
        .help = "of content",
    },
    {
        .name = "mode",
        .type = PARAM_STRING,
        .offset = offsetof(struct file_arg, mode),
        .max = 32,
        .help = "octal, such as 755",
    },
};

static const struct param params[] = {
    {
        .name = "files",
        .type = PARAM_OBJECTS,
        .offset = offsetof(struct args, files),
        .required = true,
        .fields = fields,
        .n_fields = COUNTOF(fields),
        .fields_size = sizeof(struct file_arg),
        .help = "files to write",
    },
    PARAM_BOX(struct args),
};

const struct tool tool_upload_files = {
    .name = "upload_files",
    .title = "Upload files",
    .help = "Write files with contents of this call (base64) into a sandbox.",
    .params = params,
    .n_params = COUNTOF(params),
    .args_size = sizeof(struct args),
    .toolsets = TOOLSET_OPEN | TOOLSET_ALL,
    .hints = HINT_DESTRUCTIVE | HINT_IDEMPOTENT,
    .run = run,
};
