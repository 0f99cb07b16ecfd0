/*
 * download_files.c - whole files in the answer, as far as an answer can hold them.
 *
 * What does not fit is cut, says so, and is gone on with by offset; one file that fails does not
 * keep the others.
 */
#include "provider/sink.h"
#include "tools/base64.h"
#include "tools/files.h"
#include "tools/rows.h"

#define RAW_MAX 600000 /* bytes of all; as base64 they fit into an answer */

struct args {
    struct box_args box;
    struct str_list paths;
    int64_t max_bytes, offset, length;
};

struct downloading {
    const struct args *args;
    json_t *files;
    int64_t left;
    size_t fetched;
};

static int download(struct downloading *d, struct call *c, struct box *b, struct str path,
                    struct str id, json_t *o, struct err *e)
{
    struct buf bytes own_buf = {0};
    const struct sink sink = sink_stdout(&bytes);
    struct file_info info = {0};
    int64_t most = d->args->length > 0 && d->args->length < d->left ? d->args->length : d->left;
    int64_t end;

    if (d->left == 0) {
        return err_set(e, ERR_LIMIT, "the answer is full; ask for this file in a call of its own");
    }
    buf_init(&bytes, (size_t)most);
    if (box_file_read(b, c->ctx, path, d->args->offset, most, &sink, &info, e) < 0) {
        return files_explain(c, b, path, FILE_REGULAR, e);
    }
    d->left -= (int64_t)bytes.len;
    end = d->args->offset + (int64_t)bytes.len;
    answer_str(o, "content", base64_encode(c->ctx->arena, buf_str(&bytes)));
    (void)json_object_set_new(o, "encoding", json_string("base64"));
    (void)json_object_set_new(o, "size", json_integer(info.size));
    (void)json_object_set_new(o, "truncated", json_boolean(end < info.size));
    if (end < info.size) {
        (void)json_object_set_new(o, "next_offset", json_integer(end));
        answer_str_if(o, "file_link", answer_link(c, id, path));
    }
    return 0;
}

static int download_all(void *arg, struct call *c, struct box *b, struct str id, struct err *e)
{
    struct downloading *d = arg;

    (void)json_array_clear(d->files);
    d->left = d->args->max_bytes;
    d->fetched = 0;
    for (size_t i = 0; i < d->args->paths.n; i++) {
        struct str path = files_path(c->ctx->arena, d->args->paths.items[i]);
        json_t *o = json_object();

        answer_str(o, "path", path);
        (void)json_array_append_new(d->files, o);
        if (download(d, c, b, path, id, o, e) == 0) {
            d->fetched++;
            continue;
        }
        if (e->kind == ERR_GONE || e->kind == ERR_UNREACHABLE || e->kind == ERR_CANCELLED) {
            return -1;
        }
        answer_str(o, "error", str_from(e->msg));
        (void)json_object_set_new(o, "code", json_string(err_kind_name(e->kind)));
    }
    return 0;
}

static int run(struct call *c, const void *given, json_t **out, struct err *e)
{
    const struct args *args = given;
    own_json json_t *files = json_array();
    struct downloading d = {.args = args, .files = files};

    if (args->paths.n == 0) {
        return err_set(e, ERR_INVALID, "paths is empty; give the files to fetch");
    }
    if (answer_with_box(c, &args->box, false, download_all, &d, NULL, e) < 0) {
        return -1;
    }
    c->is_error = d.fetched == 0;
    *out = json_object();
    (void)json_object_set(*out, "files", files);
    return 0;
}

static const struct param params[] = {
    {
        .name = "paths",
        .type = PARAM_STRINGS,
        .offset = offsetof(struct args, paths),
        .required = true,
        .max = FILES_PATH_MAX,
        .help = "files to fetch",
    },
    {
        .name = "max_bytes",
        .type = PARAM_INTEGER,
        .offset = offsetof(struct args, max_bytes),
        .min = 1,
        .max = RAW_MAX,
        .fallback = RAW_MAX,
        .help = "bytes of all files, at most",
    },
    {
        .name = "length",
        .type = PARAM_INTEGER,
        .offset = offsetof(struct args, length),
        .min = 1,
        .max = INT64_MAX,
        .hidden = true,
        .help = "bytes of each file, at most",
    },
    {
        .name = "offset",
        .type = PARAM_INTEGER,
        .offset = offsetof(struct args, offset),
        .min = 0,
        .max = INT64_MAX,
        .help = "first byte; next_offset continues",
    },
    PARAM_BOX(struct args),
};

const struct tool tool_download_files = {
    .name = "download_files",
    .title = "Download files",
    .help = "Fetch files of a sandbox with their contents as base64. sync_remote_to_local takes "
            "folders and large files.",
    .params = params,
    .n_params = COUNTOF(params),
    .args_size = sizeof(struct args),
    .toolsets = TOOLSET_OPEN | TOOLSET_ALL,
    .hints = HINT_READ_ONLY | HINT_IDEMPOTENT,
    .run = run,
};
