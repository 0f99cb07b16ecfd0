/* percent.h - text in addresses: bytes that mean something there are "%2F". */
#ifndef BASE_PERCENT_H
#define BASE_PERCENT_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

/* %XX into bytes; '+' into a space where plus_is_space (queries). A '%' without two
 * digits, and NUL however it is written, are refused. */
int percent_read(struct arena *a, struct str s, bool plus_is_space, struct str *out, struct err *e)
    MUST_CHECK;
/* The value of `name` in a query (without its '?'). *found is false when it is not there; a
 * name that is there twice, and bad escapes anywhere, are errors. "a" alone is "a=". */
int percent_query(struct arena *a, struct str query, struct str name, struct str *out, bool *found,
                  struct err *e) MUST_CHECK;
/* Appends `s` for one value of a query or one part of a path: all but letters, digits and
 * "-._~" as %XX, and '/' too unless keep_slashes. */
void percent_add(struct buf *out, struct str s, bool keep_slashes);

#endif
