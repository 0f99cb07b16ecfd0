/*
 * str.h - a borrowed view of bytes. Passed by value, never owns, may contain NUL.
 *
 * Everything we read is a struct str; everything we build is a struct buf. A
 * view is valid as long as what it points into.
 */
#ifndef BASE_STR_H
#define BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct str {
    const char *p; /* may be NULL when len is 0; not terminated */
    size_t len;
};

#define S(literal) ((struct str){"" literal, sizeof(literal) - 1})
#define STR_ARG(s) (int)(s).len, (s).p ? (s).p : "" /* for "%.*s" */
#define STR_EMPTY  ((struct str){NULL, 0})

struct str str_from(const char *cstr); /* NULL gives the empty view */
bool str_eq(struct str a, struct str b);
bool str_eq_nocase(struct str a, struct str b); /* ASCII */
int str_cmp(struct str a, struct str b);        /* byte order, for sorting */
bool str_starts(struct str s, struct str prefix);
bool str_ends(struct str s, struct str suffix);
bool str_has(struct str s, char c);
struct str str_skip(struct str s, size_t n); /* without the first n bytes */
struct str str_head(struct str s, size_t n); /* at most n bytes */
struct str str_trim(struct str s);           /* ASCII white space at both ends */

/* Cuts `s` at the first `sep`: the part before it is returned and *rest gets the
 * part after it. No `sep`: returns all of `s`, *rest is empty with p == NULL. */
struct str str_cut(struct str s, char sep, struct str *rest);

/* Whole-string conversions: surrounding white space is allowed, nothing else
 * beside the value is. ERR_INVALID says what was read and what is accepted. */
int str_to_i64(struct str s, int64_t min, int64_t max, int64_t *out, struct err *e) MUST_CHECK;
int str_to_f64(struct str s, double *out, struct err *e) MUST_CHECK; /* finite only */
/* 1, true, yes, on and 0, false, no, off, in any case. */
int str_to_bool(struct str s, bool *out, struct err *e) MUST_CHECK;
/* A size in bytes: "1048576", "512m", "512MiB", "1.5g", "2GB" (all powers of 1024). */
int str_to_size(struct str s, int64_t *out, struct err *e) MUST_CHECK;

/* How alike two words are (Levenshtein distance), for "did you mean". Words longer
 * than 64 bytes are alike to nothing. */
size_t str_distance(struct str a, struct str b);

#endif
