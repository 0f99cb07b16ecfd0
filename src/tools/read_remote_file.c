/*
 * read_remote_file.c - a piece of a file of a box, or of a kept output ("output:<id>").
 *
 * The content is the file's own bytes, not made harmless like output: text that is
 * valid UTF-8 as it is (what is invisible in it is escaped by JSON), anything else as
 * base64. A piece never ends inside a
 * character, and never holds more than an answer can.
 */
#include <string.h>

#include "base/utf8.h"
#include "core/output.h"
#include "provider/sink.h"
#include "tools/base64.h"
#include "tools/files.h"
#include "tools/rows.h"

#define RAW_MAX  600000                 /* bytes; as base64 they fit into an answer */
#define TEXT_MAX (TOOL_TEXT_MAX - 8192) /* bytes of JSON that the content may take */

struct args {
    struct box_args box;
    struct str remote_path, encoding;
    int64_t max_bytes, offset;
};

struct piece {
    const struct args *args;
    struct str path;
    struct buf bytes;
    int64_t file_size;
    struct str link; /* to the whole file; empty: none */
};

/* ---- fetching ------------------------------------------------------------------------ */

static int64_t wanted(const struct args *args)
{
    return args->max_bytes < RAW_MAX ? args->max_bytes : RAW_MAX;
}

static int fetch(void *arg, struct call *c, struct box *b, struct str id, struct err *e)
{
    struct piece *p = arg;
    const struct sink sink = sink_stdout(&p->bytes);
    struct file_info info = {0};

    buf_clear(&p->bytes);
    if (box_file_read(b, c->ctx, p->path, p->args->offset, wanted(p->args), &sink, &info, e) < 0) {
        return files_explain(c, b, p->path, FILE_REGULAR, e);
    }
    p->file_size = info.size;
    p->link = answer_link(c, id, p->path);
    return 0;
}

static int fetch_output(struct call *c, struct piece *p, struct str id, struct err *e)
{
    struct str state_dir = c->services->config->state_dir;
    struct str bytes = STR_EMPTY;
    struct str box_id = STR_EMPTY;

    if (output_box(state_dir, id, c->ctx->arena, &box_id, e) < 0) {
        return -1;
    }
    if (!boxes_owns(c->services->boxes, c->ctx, c->scope, box_id)) {
        return output_unknown(id, e);
    }
    if (output_read(state_dir, id, p->args->offset, wanted(p->args), c->ctx->arena, &bytes,
                    &p->file_size, e) < 0) {
        return -1;
    }
    buf_add(&p->bytes, bytes);
    return 0;
}

/* ---- text or not --------------------------------------------------------------------- */

/* What one character takes in JSON; *len is how many bytes it has. */
static size_t json_cost(struct str s, size_t *len)
{
    uint32_t code = 0;

    *len = utf8_decode(s, &code);
    if (*len == 0) {
        *len = 1;
        return 3; /* becomes U+FFFD */
    }
    if (code == '"' || code == '\\' || code == '\n' || code == '\t' || code == '\r') {
        return 2;
    }
    if (code >= 0x10000 && js_escapes(code)) {
        return 12;
    }
    return code < 0x20 || js_escapes(code) ? 6 : *len;
}

/* How many of the bytes fit into TEXT_MAX once JSON has escaped them. */
static size_t fitting(struct str s)
{
    size_t room = TEXT_MAX;
    size_t at = 0;

    while (at < s.len) {
        size_t len;
        size_t cost = json_cost(str_skip(s, at), &len);

        if (cost > room) {
            break;
        }
        room -= cost;
        at += len;
    }
    return at;
}

/* Without the character that the end of the piece cuts in two. */
static struct str whole_characters(struct str s)
{
    for (size_t back = 1; back <= 3 && back <= s.len; back++) {
        unsigned char c = (unsigned char)s.p[s.len - back];
        size_t length = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;

        if (c >= 0xc0) {
            return length > back ? str_head(s, s.len - back) : s;
        }
        if (c < 0x80) {
            return s;
        }
    }
    return s;
}

static bool is_text(struct str s, int64_t offset)
{
    /* An offset inside a character leaves the rest of it in front. */
    for (int i = 0; i < 3 && offset > 0 && s.len > 0 && ((unsigned char)s.p[0] & 0xc0) == 0x80;
         i++) {
        s = str_skip(s, 1);
    }
    return !str_has(s, '\0') && utf8_valid(s);
}

/* ---- the answer ---------------------------------------------------------------------- */

static json_t *answer(struct call *c, struct piece *p)
{
    const struct args *args = p->args;
    struct str raw = buf_str(&p->bytes);
    bool full = (int64_t)raw.len == wanted(args);
    bool more = args->offset + (int64_t)raw.len < p->file_size ||
                (full && p->file_size < args->offset + (int64_t)raw.len);
    struct str text = str_head(raw, fitting(raw));
    bool base64 = str_eq(args->encoding, S("base64"));
    json_t *o = json_object();

    if (more || text.len < raw.len) {
        text = whole_characters(text);
        text = text.len == 0 && raw.len > 0 ? raw : text;
    }
    if (str_eq(args->encoding, S("auto"))) {
        base64 = !is_text(text, args->offset);
    }
    if (base64) {
        text = raw;
    }
    more = more || text.len < raw.len;
    answer_str(o, "content", base64 ? base64_encode(c->ctx->arena, text) : text);
    (void)json_object_set_new(o, "size", json_integer((json_int_t)text.len));
    (void)json_object_set_new(o, "file_size", json_integer(p->file_size));
    (void)json_object_set_new(o, "offset", json_integer(args->offset));
    (void)json_object_set_new(o, "truncated", json_boolean(more));
    if (more) {
        (void)json_object_set_new(o, "next_offset",
                                  json_integer(args->offset + (json_int_t)text.len));
    }
    (void)json_object_set_new(o, "encoding", json_string(base64 ? "base64" : "utf-8"));
    if (more || base64) {
        answer_str_if(o, "file_link", p->link);
    }
    return o;
}

static int run(struct call *c, const void *given, json_t **out, struct err *e)
{
    const struct args *args = given;
    struct str typed = str_trim(args->remote_path);
    struct piece p = {.args = args};
    int failed;

    if (typed.len == 0) {
        return err_set(e, ERR_INVALID, "remote_path is empty; give the file to read");
    }
    buf_init(&p.bytes, RAW_MAX);
    if (str_starts(typed, S("output:"))) {
        failed = fetch_output(c, &p, str_skip(typed, 7), e);
    } else {
        p.path = files_path(c->ctx->arena, typed);
        failed = answer_with_box(c, &args->box, false, fetch, &p, NULL, e);
    }
    if (failed == 0) {
        *out = answer(c, &p);
    }
    buf_fini(&p.bytes);
    return failed;
}

static const char *const encodings[] = {"auto", "utf-8", "base64", NULL};

static const struct param params[] = {
    {
        .name = "remote_path",
        .type = PARAM_STRING,
        .offset = offsetof(struct args, remote_path),
        .required = true,
        .max = FILES_PATH_MAX,
        .help = "file to read, or output:<id>",
    },
    {
        .name = "max_bytes",
        .type = PARAM_INTEGER,
        .offset = offsetof(struct args, max_bytes),
        .min = 1,
        .max = INT64_MAX,
        .fallback = 200000,
        .help = "bytes at most (600000)",
    },
    {
        .name = "offset",
        .type = PARAM_INTEGER,
        .offset = offsetof(struct args, offset),
        .min = 0,
        .max = INT64_MAX,
        .help = "first byte; next_offset continues",
    },
    {
        .name = "encoding",
        .type = PARAM_STRING,
        .offset = offsetof(struct args, encoding),
        .fallback_text = "auto",
        .choices = encodings,
        .help = "auto: base64 for what is not text",
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

const struct tool tool_read_remote_file = {
    .name = "read_remote_file",
    .title = "Read a file",
    .help = "Read a file of a sandbox, or the whole output of an earlier command (output:<id>).",
    .params = params,
    .n_params = COUNTOF(params),
    .args_size = sizeof(struct args),
    .toolsets = TOOLSET_DEFAULT | TOOLSET_REMOTE | TOOLSET_ALL,
    .hints = HINT_READ_ONLY | HINT_IDEMPOTENT,
    .run = run,
};
