/* python_wire.c - frames of a keeper, see python.h. */
#include <string.h>

#include "base/arena.h"
#include "base/base64url.h"
#include "base/buf.h"
#include "base/own.h"
#include "core/python.h"

#define HEADER 4u

void python_reader_init(struct python_reader *r, struct arena *arena, const struct python_ear *ear,
                        struct python_result *out)
{
    *r = (struct python_reader){.arena = arena, .ear = ear, .out = out};
    buf_init(&r->got, PYTHON_FRAME_MAX + HEADER + (1u << 20));
}

void python_reader_fini(struct python_reader *r)
{
    buf_fini(&r->got);
}

static int bad(struct err *e, const char *what)
{
    return err_set(e, ERR_PROTOCOL, "the sandbox's interpreter sent %s that cannot be read", what);
}

static int64_t number(struct str s)
{
    struct err ignored;
    int64_t n = 0;

    return str_to_i64(s, 0, INT64_MAX, &n, &ignored) == 0 ? n : 0;
}

/* ---- results ----------------------------------------------------------------------- */

static void take_end(struct python_reader *r, struct str lines)
{
    struct python_result *out = r->out;

    while (lines.p != NULL) {
        struct str value;
        struct str key = str_cut(str_cut(lines, '\n', &lines), '=', &value);

        if (str_eq(key, S("exit"))) {
            out->code = (int)(number(value) & 0xff);
        } else if (str_eq(key, S("signal"))) {
            out->signal = (int)(number(value) & 0x7f);
        } else if (str_eq(key, S("ms"))) {
            out->wall_ms = number(value);
        } else if (str_eq(key, S("timed_out"))) {
            out->timed_out = number(value) != 0;
        } else if (str_eq(key, S("restarted"))) {
            out->restarted = number(value) != 0;
        } else if (str_eq(key, S("more_files"))) {
            out->more_files = number(value) != 0;
        } else if (str_eq(key, S("first"))) {
            r->first = number(value) != 0;
        } else if (str_eq(key, S("left"))) {
            out->end = PYTHON_LEFT;
        } else if (str_eq(key, S("busy"))) {
            out->end = PYTHON_BUSY;
        } else if (str_eq(key, S("nothing"))) {
            out->end = PYTHON_NOTHING;
        } else if (str_eq(key, S("problem"))) {
            r->problem = arena_str(r->arena, str_head(value, 300));
        }
    }
    r->done = true;
}

static void take_files(struct python_reader *r, struct str payload)
{
    struct python_result *out = r->out;

    out->all_files = number(str_cut(payload, '\0', &payload));
    while (payload.p != NULL && out->n_files < PYTHON_FILES_MAX) {
        struct str path = str_cut(payload, '\0', &payload);

        if (str_starts(path, S("/")) && path.len < PYTHON_PATH_MAX) {
            out->files[out->n_files++] = arena_str(r->arena, path);
        }
    }
    if (out->all_files < (int64_t)out->n_files) {
        out->all_files = (int64_t)out->n_files;
    }
}

static int take_image(struct python_reader *r, struct str payload, struct err *e)
{
    struct python_result *out = r->out;
    struct str bytes;
    struct str type = str_cut(payload, '\n', &bytes);

    if (!str_eq(type, S("image/png")) || bytes.len == 0) {
        return bad(e, "an image");
    }
    if (out->n_images < PYTHON_IMAGES_MAX) {
        out->images[out->n_images++] =
            (struct python_image){.type = S("image/png"), .bytes = arena_str(r->arena, bytes)};
    }
    return 0;
}

static int take_result(struct python_reader *r, char kind, struct str payload, struct err *e)
{
    if (payload.len > PYTHON_RESULT_MAX - r->kept) {
        return err_set(e, ERR_PROTOCOL,
                       "the sandbox's interpreter sent more than %u bytes of results",
                       PYTHON_RESULT_MAX);
    }
    r->kept += payload.len;
    switch (kind) {
    case 'V': r->out->value = arena_str(r->arena, payload); return 0;
    case 'N': r->out->note = arena_str(r->arena, str_head(payload, 1000)); return 0;
    case 'I': return take_image(r, payload, e);
    case 'F': take_files(r, payload); return 0;
    case 'D': take_end(r, payload); return 0;
    case 'P':
        if (payload.len == 0 || payload.len >= PYTHON_PATH_MAX || payload.p[0] != '/') {
            return bad(e, "a path");
        }
        r->socket = arena_str(r->arena, payload);
        return 0;
    default: return bad(e, "a frame");
    }
}

/* ---- frames ------------------------------------------------------------------------ */

static int take_lost(const struct python_reader *r, struct str payload, struct err *e)
{
    enum stream from = payload.len > 0 && payload.p[0] == 'E' ? STREAM_ERR : STREAM_OUT;

    if (payload.len == 0) {
        return bad(e, "a frame");
    }
    if (r->ear->output.lost != NULL) {
        r->ear->output.lost(r->ear->output.arg, from, (uint64_t)number(str_skip(payload, 1)));
    }
    return 0;
}

static int take_frame(struct python_reader *r, char kind, struct str payload, struct err *e)
{
    const struct sink *output = &r->ear->output;

    r->heard = true;
    if (r->done) {
        return bad(e, "something behind its end");
    }
    switch (kind) {
    case 'O': return output->write(output->arg, STREAM_OUT, payload, e);
    case 'E': return output->write(output->arg, STREAM_ERR, payload, e);
    case 'L': return take_lost(r, payload, e);
    case 'W':
        if (r->ear->alive != NULL) {
            r->ear->alive(r->ear->arg);
        }
        return 0;
    default: return take_result(r, kind, payload, e);
    }
}

static size_t length(const char *p)
{
    const unsigned char *b = (const unsigned char *)p;

    return (size_t)b[0] << 24 | (size_t)b[1] << 16 | (size_t)b[2] << 8 | b[3];
}

int python_reader_feed(struct python_reader *r, struct str bytes, struct err *e)
{
    size_t at = 0;

    buf_add(&r->got, bytes);
    if (r->got.cut) {
        return bad(e, "a frame");
    }
    while (r->got.len - at >= HEADER) {
        size_t size = length(r->got.p + at);

        if (size == 0 || size > PYTHON_FRAME_MAX) {
            return bad(e, "a frame");
        }
        if (r->got.len - at - HEADER < size) {
            break;
        }
        const char *frame = r->got.p + at + HEADER;
        if (take_frame(r, frame[0], (struct str){frame + 1, size - 1}, e) < 0) {
            return -1;
        }
        at += HEADER + size;
    }
    buf_drop(&r->got, at);
    return 0;
}

int python_reader_feed_text(struct python_reader *r, struct str text, struct err *e)
{
    struct buf bytes own_buf = {0};
    struct err ignored;

    buf_init(&bytes, text.len + sizeof(r->group));
    for (size_t i = 0; i < text.len; i++) {
        if (text.p[i] == '\n') {
            continue;
        }
        r->group[r->n_group++] = text.p[i];
        if (r->n_group < sizeof(r->group)) {
            continue;
        }
        r->n_group = 0;
        if (base64_read_strict((struct str){r->group, sizeof(r->group)}, &bytes, &ignored) < 0) {
            return bad(e, "something");
        }
    }
    return python_reader_feed(r, buf_str(&bytes), e);
}
