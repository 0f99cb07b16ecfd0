/*
 * lines.h - a stream of bytes cut into lines, for a protocol of one message a line.
 *
 * A line ends with "\n" or "\r\n"; blank ones and a byte order mark at the start of the
 * stream are skipped. A line longer than `max` is reported once and its bytes are
 * discarded as they come. Memory follows the longest line and is given back after it.
 */
#ifndef SERVE_LINES_H
#define SERVE_LINES_H

#include <stdbool.h>
#include <stddef.h>

struct lines {
    char *p;
    size_t cap, max;
    size_t start, scanned, end; /* start <= scanned <= end <= cap; no '\n' before scanned */
    bool begun;                 /* the first line is behind us */
    bool skipping;              /* within a line that is too long */
};

enum line_kind {
    LINE_NONE, /* read more */
    LINE_TEXT,
    LINE_TOO_LONG,
};

void lines_init(struct lines *l, size_t max);
void lines_fini(struct lines *l);

/* Where to read to, at least 64 KiB; then lines_added() says how much came. */
char *lines_room(struct lines *l, size_t *cap);
void lines_added(struct lines *l, size_t n);

/* The next line; *text is valid until lines_room(). At the end of the stream what is
 * left is a line, too. */
enum line_kind lines_next(struct lines *l, bool at_end, const char **text, size_t *len);

#endif
