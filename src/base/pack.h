/*
 * pack.h - several strings as one: "5:hello,0:,2:\n\n,". Any bytes may be in them. For what one
 * process of ours tells another, and for lists in the database; no text for people.
 */
#ifndef BASE_PACK_H
#define BASE_PACK_H

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

void pack_add(struct buf *to, struct str s);
void pack_add_i64(struct buf *to, int64_t v);

/* Takes the first string off *rest: 1, or 0 at the end. The result is a view. -1: this was
 * not packed by us, or it was cut. */
int pack_next(struct str *rest, struct str *out, struct err *e) MUST_CHECK;
/* The same where there must be one. */
int pack_take(struct str *rest, struct str *out, struct err *e) MUST_CHECK;
int pack_take_i64(struct str *rest, int64_t *out, struct err *e) MUST_CHECK;

#endif
