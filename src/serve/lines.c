#include "serve/lines.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"

#define LINES_CHUNK ((size_t)64 << 10)

void lines_init(struct lines *l, size_t max)
{
    *l = (struct lines){.max = max};
}

void lines_fini(struct lines *l)
{
    free(l->p);
    *l = (struct lines){0};
}

static void drop_all(struct lines *l)
{
    l->start = l->scanned = l->end = 0;
}

static void move_to_front(struct lines *l)
{
    if (l->start == 0) {
        return;
    }
    memmove(l->p, l->p + l->start, l->end - l->start);
    l->scanned -= l->start;
    l->end -= l->start;
    l->start = 0;
}

static void set_cap(struct lines *l, size_t cap)
{
    l->p = xrealloc(l->p, cap, 1);
    l->cap = cap;
}

char *lines_room(struct lines *l, size_t *cap)
{
    if (l->start == l->end) {
        drop_all(l);
        if (l->cap > 4 * LINES_CHUNK) { /* a big line has gone through */
            free(l->p);
            l->p = NULL;
            l->cap = 0;
        }
    }
    if (l->cap - l->end < LINES_CHUNK) {
        move_to_front(l);
    }
    if (l->cap - l->end < LINES_CHUNK) {
        set_cap(l, l->cap == 0 ? 2 * LINES_CHUNK : 2 * l->cap);
    }
    *cap = l->cap - l->end;
    return l->p + l->end;
}

void lines_added(struct lines *l, size_t n)
{
    l->end += n;
}

static bool is_blank(const char *p, size_t len)
{
    return str_trim((struct str){p, len}).len == 0;
}

/* Cuts off what ends at `stop`, where the next line begins `gap` bytes later. */
static enum line_kind cut_line(struct lines *l, size_t stop, size_t gap, const char **text,
                               size_t *len)
{
    const char *p = l->p + l->start;
    size_t n = stop - l->start;
    bool first = !l->begun;

    l->start = l->scanned = stop + gap;
    if (l->skipping) {
        l->skipping = false;
        return LINE_NONE;
    }
    l->begun = true;
    if (n > l->max) {
        return LINE_TOO_LONG;
    }
    if (first && n >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0) {
        p += 3;
        n -= 3;
    }
    if (n > 0 && p[n - 1] == '\r') {
        n--;
    }
    *text = p;
    *len = n;
    return is_blank(p, n) ? LINE_NONE : LINE_TEXT;
}

/* No newline is in sight: what there is may be too long already, or the last line. */
static enum line_kind without_newline(struct lines *l, bool at_end, const char **text, size_t *len)
{
    bool too_long = l->end - l->start > l->max;

    if (l->skipping || too_long) {
        bool told = l->skipping;

        l->skipping = l->begun = true;
        drop_all(l);
        return told ? LINE_NONE : LINE_TOO_LONG;
    }
    return at_end && l->end > l->start ? cut_line(l, l->end, 0, text, len) : LINE_NONE;
}

enum line_kind lines_next(struct lines *l, bool at_end, const char **text, size_t *len)
{
    while (l->scanned < l->end) {
        const char *from = l->p + l->scanned;
        const char *newline = memchr(from, '\n', l->end - l->scanned);
        enum line_kind kind;

        if (newline == NULL) {
            l->scanned = l->end;
            break;
        }
        kind = cut_line(l, (size_t)(newline - l->p), 1, text, len);
        if (kind != LINE_NONE) {
            return kind;
        }
    }
    return without_newline(l, at_end, text, len);
}
