/* utf8.h - text that is always valid UTF-8, whatever bytes came in. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

/* Decodes one code point at the start of `s` (s.len > 0). Returns its length in
 * bytes, or 0 when the bytes there are not valid UTF-8 (overlong forms,
 * surrogates and values above U+10FFFF are not). */
size_t utf8_decode(struct str s, uint32_t *out);
bool utf8_valid(struct str s);

/* What one U+FFFD stands for, where utf8_decode() says 0: the beginning of a code
 * point that breaks off, or one byte that cannot begin any (as browsers and Python
 * do it). At least one byte. */
struct str utf8_bad_run(struct str s);

/* Appends `s` with each bad run replaced by U+FFFD. What is appended is valid even
 * when `out` is full: no code point is cut in two. */
void utf8_scrub(struct str s, struct buf *out);

size_t utf8_count(struct str s); /* code points; an invalid byte counts as one */

/* The longest prefix (suffix) of at most n bytes that does not split a code
 * point at the cut. */
struct str utf8_head(struct str s, size_t n);
struct str utf8_tail(struct str s, size_t n);

#endif
