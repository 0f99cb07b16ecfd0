/* resource_files.c - sandbox://{id}/files/{path}: a file of a box, or what is in a folder. */
#include "base/mime.h"
#include "base/percent.h"
#include "base/utf8.h"
#include "provider/sink.h"
#include "tools/base64.h"
#include "tools/files.h"
#include "tools/resource_rows.h"

#define FILE_MAX   600000 /* bytes; as base64 they fit into an answer */
#define FOLDER_MAX 2000

struct wish {
    struct box_args box;
    struct str path, uri;
    json_t *contents;
};

static int read_wish(struct call *c, const struct str *values, struct wish *w, struct err *e)
{
    struct str path;
    struct box_want want;

    if (resource_box_word(c, values[0], &want, e) < 0 ||
        percent_read(c->ctx->arena, values[1], false, &path, e) < 0) {
        return -1;
    }
    w->box.id = want.id;
    w->path = files_path(c->ctx->arena, arena_printf(c->ctx->arena, "/%.*s", STR_ARG(path)));
    return 0;
}

/* ---- a folder ------------------------------------------------------------------------------ */

static const char *type_name(enum file_type type)
{
    switch (type) {
    case FILE_REGULAR: return "file";
    case FILE_DIR: return "folder";
    case FILE_SYMLINK: return "link";
    case FILE_OTHER: break;
    }
    return "other";
}

struct folder {
    struct call *call;
    struct str box_id;
    json_t *list;
};

static int add_entry(void *arg, const struct file_info *info, struct err *e)
{
    struct folder *f = arg;
    json_t *o = json_object();

    (void)e;
    answer_str(o, "path", info->path);
    (void)json_object_set_new(o, "type", json_string(type_name(info->type)));
    (void)json_object_set_new(o, "size", json_integer(info->size));
    answer_str(o, "uri", resource_file_uri(f->call->ctx->arena, f->box_id, info->path));
    (void)json_array_append_new(f->list, o);
    return 0;
}

static int read_folder(struct wish *w, struct call *c, struct box *b, struct str id, struct err *e)
{
    const struct list_req req = {.dir = w->path, .max = FOLDER_MAX};
    json_t *o own_json = json_object();
    struct folder f = {.call = c, .box_id = id, .list = json_array()};
    bool more = false;

    (void)json_object_set_new(o, "entries", f.list);
    if (box_file_list(b, c->ctx, &req, add_entry, &f, &more, e) < 0) {
        return -1;
    }
    (void)json_object_set_new(o, "truncated", json_boolean(more));
    w->contents = resource_json(w->uri, o);
    return 0;
}

/* ---- a file --------------------------------------------------------------------------------- */

/* "text/csv" of "text/csv; charset=utf-8"; what is text in fact, whatever it is called, is. */
static const char *type_of(struct call *c, struct str path, bool is_text)
{
    struct str parameters;
    struct str type = str_cut(str_from(mime_of(path).type), ';', &parameters);

    if (is_text && str_eq(type, S("application/octet-stream"))) {
        return "text/plain";
    }
    return arena_cstr(c->ctx->arena, type);
}

static int read_file(void *arg, struct call *c, struct box *b, struct str id, struct err *e)
{
    struct wish *w = arg;
    struct buf bytes own_buf = {0};
    const struct sink sink = sink_stdout(&bytes);
    struct file_info info = {0};
    bool is_text;

    if (box_file_stat(b, c->ctx, w->path, &info, e) < 0) {
        return -1;
    }
    if (info.type == FILE_DIR) {
        return read_folder(w, c, b, id, e);
    }
    buf_init(&bytes, FILE_MAX + 1);
    if (box_file_read(b, c->ctx, w->path, 0, FILE_MAX + 1, &sink, &info, e) < 0) {
        return -1;
    }
    if (bytes.len > FILE_MAX) {
        return err_set(e, ERR_LIMIT,
                       "%.*s has %lld bytes, and a resource can have %d: read_remote_file reads it "
                       "in pieces, sync_remote_to_local copies it",
                       STR_ARG(str_head(w->path, 256)), (long long)info.size, FILE_MAX);
    }
    is_text = !str_has(buf_str(&bytes), '\0') && utf8_valid(buf_str(&bytes));
    w->contents = is_text ? resource_text(w->uri, type_of(c, w->path, true), buf_str(&bytes))
                          : json_pack("[{s:o, s:s, s:o}]", "uri", js_string(w->uri), "mimeType",
                                      type_of(c, w->path, false), "blob",
                                      js_string(base64_encode(c->ctx->arena, buf_str(&bytes))));
    return 0;
}

static int read_it(struct call *c, struct str uri, const struct str *values, json_t **contents,
                   struct err *e)
{
    struct wish w = {.uri = uri};

    if (read_wish(c, values, &w, e) < 0 ||
        answer_with_box(c, &w.box, false, read_file, &w, NULL, e) < 0) {
        return -1;
    }
    *contents = w.contents;
    return 0;
}

static int stat_file(void *arg, struct call *c, struct box *b, struct str id, struct err *e)
{
    struct file_info *info = ((void **)arg)[0];
    const struct wish *w = ((void **)arg)[1];

    (void)id;
    return box_file_stat(b, c->ctx, w->path, info, e);
}

static int version(struct call *c, const struct str *values, bool quick, struct buf *out,
                   struct err *e)
{
    struct file_info info = {0};
    struct wish w = {0};
    void *arg[] = {&info, &w};

    if (quick) {
        return 0;
    }
    if (read_wish(c, values, &w, e) < 0 ||
        answer_with_box(c, &w.box, false, stat_file, arg, NULL, e) < 0) {
        return -1;
    }
    buf_addf(out, "%d %lld %lld", (int)info.type, (long long)info.size, (long long)info.mtime_s);
    return 0;
}

const struct resource resource_file = {
    .uri = "sandbox://{id}/files/{+path}",
    .name = "sandbox-file",
    .title = "A file of a sandbox",
    .help = "A file of a sandbox (by id or name) by its absolute path, or what is in a folder: "
            "sandbox://box-1/files/workspace/out.csv",
    .mime = NULL,
    .changes = true,
    .read = read_it,
    .version = version,
    .complete = resource_complete_box,
};
