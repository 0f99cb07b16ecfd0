#include "base/capture.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define CAP_MIN ((size_t)1024)

void capture_init(struct capture *c, size_t head_max, size_t tail_max)
{
    *c = (struct capture){.head_max = head_max, .tail_max = tail_max};
}

void capture_fini(struct capture *c)
{
    free(c->head);
    free(c->tail);
    *c = (struct capture){.head_max = c->head_max, .tail_max = c->tail_max};
}

/* Appends to an array that doubles up to max; the caller has checked that it fits. */
static void append(char **p, size_t *len, size_t *cap, size_t max, struct str bytes)
{
    size_t need = *len + bytes.len;

    if (bytes.len == 0) {
        return;
    }
    if (need > *cap) {
        size_t want = *cap < CAP_MIN / 2 ? CAP_MIN : *cap * 2;

        want = want < need ? need : want;
        *cap = want > max ? max : want;
        *p = xrealloc(*p, *cap, 1);
    }
    memcpy(*p + *len, bytes.p, bytes.len);
    *len = need;
}

/* The tail is full: the bytes take the place of the oldest ones. */
static void overwrite(struct capture *c, struct str bytes)
{
    size_t first;

    if (bytes.len > c->tail_max) {
        bytes = str_skip(bytes, bytes.len - c->tail_max);
    }
    first = c->tail_max - c->tail_start;
    if (first > bytes.len) {
        first = bytes.len;
    }
    memcpy(c->tail + c->tail_start, bytes.p, first);
    memcpy(c->tail, bytes.p + first, bytes.len - first);
    c->tail_start = (c->tail_start + bytes.len) % c->tail_max;
}

void capture_add(struct capture *c, struct str bytes)
{
    struct str part = str_head(bytes, c->head_max - c->head_len);

    c->total += bytes.len;
    append(&c->head, &c->head_len, &c->head_cap, c->head_max, part);
    bytes = str_skip(bytes, part.len);
    part = str_head(bytes, c->tail_max - c->tail_len);
    append(&c->tail, &c->tail_len, &c->tail_cap, c->tail_max, part);
    bytes = str_skip(bytes, part.len);
    if (bytes.len > 0 && c->tail_max > 0) {
        overwrite(c, bytes);
    }
}

struct str capture_at(const struct capture *c, uint64_t *from)
{
    uint64_t tail_from = c->total - c->tail_len;
    size_t skip, at;

    if (*from < c->head_len) {
        return (struct str){c->head + *from, c->head_len - (size_t)*from};
    }
    if (*from < tail_from) {
        *from = tail_from;
    }
    if (*from >= c->total) {
        return STR_EMPTY;
    }
    skip = (size_t)(*from - tail_from);
    if (skip < c->tail_len - c->tail_start) { /* in the older part, behind tail_start */
        at = c->tail_start + skip;
        return (struct str){c->tail + at, c->tail_len - at};
    }
    at = skip - (c->tail_len - c->tail_start);
    return (struct str){c->tail + at, c->tail_len - skip};
}

uint64_t capture_lost(const struct capture *c)
{
    return c->total - c->head_len - c->tail_len;
}
