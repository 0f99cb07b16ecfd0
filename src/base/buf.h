/*
 * buf.h - an owned, growing, bounded byte buffer.
 *
 * Every buffer is born with its maximum. What would go beyond it is left out and
 * `cut` becomes true and stays true: check it once, at the end. Nothing is added
 * after a cut, so that the bytes are always a prefix of what was meant. `p` is
 * terminated (and never NULL) after every add. A zeroed buf is empty with maximum 0;
 * buf_fini() accepts it.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"
#include "base/str.h"

struct buf {
    char *p;
    size_t len, cap, max;
    bool cut;
};

void buf_init(struct buf *b, size_t max);
void buf_fini(struct buf *b);              /* empty, with the same maximum */
void buf_clear(struct buf *b);             /* empty, not cut; memory is kept */
void buf_add(struct buf *b, struct str s); /* all of it or as much as fits */
void buf_addc(struct buf *b, char c);
void buf_addf(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
void buf_add_quoted(struct buf *b, struct str word); /* so that sh reads it as one word */
/* Room for n more bytes at b->p + b->len, or NULL when that is beyond max; the
 * caller writes there and adds to b->len (and need not terminate: the next add,
 * buf_str() and buf_take() do). */
char *buf_room(struct buf *b, size_t n);
void buf_drop(struct buf *b, size_t n); /* the first n bytes are gone */
struct str buf_str(const struct buf *b);
char *buf_take(struct buf *b); /* the terminated bytes, now the caller's to free(); b is empty */

#define own_buf CLEANUP(buf_fini)

#endif
