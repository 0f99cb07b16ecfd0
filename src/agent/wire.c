#include "agent/wire.h"

#include <string.h>

/* ---- writing --------------------------------------------------------------- */

static void add_number(struct buf *to, uint64_t v, size_t n_bytes)
{
    char bytes[8];

    for (size_t i = 0; i < n_bytes; i++) {
        bytes[i] = (char)(unsigned char)(v >> (8 * i));
    }
    buf_add(to, (struct str){bytes, n_bytes});
}

struct wire_out wire_begin(struct buf *to, uint8_t type)
{
    struct wire_out w = {to, to->len};

    add_number(to, 0, 4); /* the length comes in wire_end() */
    add_number(to, type, 1);
    return w;
}

void wire_u8(struct wire_out *w, uint8_t v)
{
    add_number(w->to, v, 1);
}

void wire_u32(struct wire_out *w, uint32_t v)
{
    add_number(w->to, v, 4);
}

void wire_u64(struct wire_out *w, uint64_t v)
{
    add_number(w->to, v, 8);
}

void wire_str(struct wire_out *w, struct str s)
{
    /* A length that does not fit its field must not wrap round to a small one. */
    if (s.len > FRAME_MAX) {
        w->to->cut = true;
        return;
    }
    wire_u32(w, (uint32_t)s.len);
    buf_add(w->to, s);
}

void wire_list(struct wire_out *w, const struct str *items, size_t n)
{
    if (n > FRAME_MAX) {
        w->to->cut = true;
        return;
    }
    wire_u32(w, (uint32_t)n);
    for (size_t i = 0; i < n; i++) {
        wire_str(w, items[i]);
    }
}

bool wire_end(struct wire_out *w)
{
    struct buf *to = w->to;
    size_t len = to->len - w->start;

    if (to->cut || len < FRAME_HEADER || len - 4 > FRAME_MAX) {
        to->len = w->start;
        to->cut = false;
        if (to->p != NULL) {
            to->p[to->len] = '\0';
        }
        return false;
    }
    len -= 4;
    for (size_t i = 0; i < 4; i++) {
        to->p[w->start + i] = (char)(unsigned char)(len >> (8 * i));
    }
    return true;
}

/* ---- reading --------------------------------------------------------------- */

static uint64_t number_at(const char *p, size_t n_bytes)
{
    uint64_t v = 0;

    for (size_t i = 0; i < n_bytes; i++) {
        v |= (uint64_t)(unsigned char)p[i] << (8 * i);
    }
    return v;
}

ssize_t wire_parse(struct str bytes, struct frame *out, struct err *e)
{
    uint64_t len;

    if (bytes.len < 4) {
        return 0;
    }
    len = number_at(bytes.p, 4);
    if (len == 0 || len > FRAME_MAX) {
        return err_set(e, ERR_PROTOCOL, "a frame of %llu bytes; 1 to %u are accepted",
                       (unsigned long long)len, FRAME_MAX);
    }
    if (bytes.len - 4 < len) {
        return 0;
    }
    out->type = (uint8_t)bytes.p[4];
    out->fields = (struct str){bytes.p + FRAME_HEADER, (size_t)len - 1};
    return (ssize_t)(4 + len);
}

struct wire_in wire_read(struct str fields)
{
    return (struct wire_in){fields, false};
}

/* The next n bytes, or NULL (and the reader is bad) when they are not there. */
static const char *next_bytes(struct wire_in *r, size_t n)
{
    const char *p = r->rest.p;

    if (r->bad || r->rest.len < n) {
        r->bad = true;
        return NULL;
    }
    r->rest = str_skip(r->rest, n);
    return p;
}

static uint64_t get_number(struct wire_in *r, size_t n_bytes)
{
    const char *p = next_bytes(r, n_bytes);

    return p != NULL ? number_at(p, n_bytes) : 0;
}

uint8_t wire_get_u8(struct wire_in *r)
{
    return (uint8_t)get_number(r, 1);
}

uint32_t wire_get_u32(struct wire_in *r)
{
    return (uint32_t)get_number(r, 4);
}

uint64_t wire_get_u64(struct wire_in *r)
{
    return get_number(r, 8);
}

struct str wire_get_str(struct wire_in *r)
{
    size_t len = wire_get_u32(r);
    const char *p;

    if (len == 0) {
        return STR_EMPTY;
    }
    p = next_bytes(r, len);
    return p != NULL ? (struct str){p, len} : STR_EMPTY;
}

size_t wire_get_list(struct wire_in *r, struct arena *a, size_t max, const struct str **out)
{
    size_t n = wire_get_u32(r);
    struct str *items;

    *out = NULL;
    /* Every item has at least its length: a count beyond that is a lie, and nothing
     * is allocated for it. */
    if (r->bad || n > max || n > r->rest.len / 4) {
        r->bad = true;
        return 0;
    }
    if (n == 0) {
        return 0;
    }
    items = arena_alloc(a, n, sizeof(*items));
    for (size_t i = 0; i < n; i++) {
        items[i] = wire_get_str(r);
    }
    if (r->bad) {
        return 0;
    }
    *out = items;
    return n;
}

bool wire_done(const struct wire_in *r)
{
    return !r->bad && r->rest.len == 0;
}
