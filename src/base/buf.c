#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/own.h"

#define CAP_MIN 64

void buf_init(struct buf *b, size_t max)
{
    *b = (struct buf){.max = max};
}

void buf_fini(struct buf *b)
{
    free(b->p);
    *b = (struct buf){.max = b->max};
}

void buf_clear(struct buf *b)
{
    b->len = 0;
    b->cut = false;
    if (b->p != NULL) {
        b->p[0] = '\0';
    }
}

static size_t room_left(const struct buf *b)
{
    return b->max - b->len;
}

/* Makes room for n more bytes and the terminator; n is within the maximum. */
static void grow(struct buf *b, size_t n)
{
    size_t need = b->len + n + 1;
    size_t cap = b->cap < CAP_MIN ? CAP_MIN : b->cap;

    if (need <= b->cap) {
        return;
    }
    while (cap < need) {
        cap = cap > SIZE_MAX / 2 ? need : cap * 2;
    }
    if (cap > b->max && b->max < SIZE_MAX) {
        cap = b->max + 1;
    }
    b->p = xrealloc(b->p, cap, 1);
    b->cap = cap;
}

void buf_add(struct buf *b, struct str s)
{
    size_t n = s.len;

    if (b->cut) {
        return;
    }
    if (n > room_left(b)) {
        n = room_left(b);
        b->cut = true;
    }
    grow(b, n);
    if (n > 0) {
        memcpy(b->p + b->len, s.p, n);
    }
    b->len += n;
    b->p[b->len] = '\0';
}

void buf_addc(struct buf *b, char c)
{
    buf_add(b, (struct str){&c, 1});
}

/* The text is longer than the buffer may become: keep the part that fits. */
PRINTF_LIKE(3, 0)
static void add_cut(struct buf *b, size_t len, const char *fmt, va_list args)
{
    char *text own_mem = xmalloc(len + 1);

    if (vsnprintf(text, len + 1, fmt, args) >= 0) {
        buf_add(b, (struct str){text, len});
    }
}

PRINTF_LIKE(3, 0)
static void add_formatted(struct buf *b, size_t len, const char *fmt, va_list args)
{
    if (len > room_left(b)) {
        add_cut(b, len, fmt, args);
        return;
    }
    grow(b, len);
    if (vsnprintf(b->p + b->len, len + 1, fmt, args) >= 0) {
        b->len += len;
    }
    b->p[b->len] = '\0';
}

void buf_addf(struct buf *b, const char *fmt, ...)
{
    va_list args, again;
    int len;

    if (b->cut) {
        return;
    }
    va_start(args, fmt);
    va_copy(again, args);
    len = vsnprintf(NULL, 0, fmt, args);
    if (len >= 0) {
        add_formatted(b, (size_t)len, fmt, again);
    }
    va_end(again);
    va_end(args);
}

char *buf_room(struct buf *b, size_t n)
{
    if (n > room_left(b)) {
        return NULL;
    }
    grow(b, n);
    return b->p + b->len;
}

void buf_drop(struct buf *b, size_t n)
{
    if (n >= b->len) {
        n = b->len;
    }
    if (n == 0) {
        return;
    }
    memmove(b->p, b->p + n, b->len - n);
    b->len -= n;
    b->p[b->len] = '\0';
}

struct str buf_str(const struct buf *b)
{
    if (b->p != NULL) {
        b->p[b->len] = '\0'; /* buf_room() may have left it open */
    }
    return (struct str){b->p, b->len};
}

char *buf_take(struct buf *b)
{
    char *taken;

    grow(b, 0);
    b->p[b->len] = '\0';
    taken = take(b->p);
    *b = (struct buf){.max = b->max};
    return taken;
}

void buf_add_quoted(struct buf *b, struct str word)
{
    buf_addc(b, '\'');
    for (size_t i = 0; i < word.len; i++) {
        if (word.p[i] == '\'') {
            buf_add(b, S("'\\''"));
        } else {
            buf_addc(b, word.p[i]);
        }
    }
    buf_addc(b, '\'');
}
