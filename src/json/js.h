/*
 * js.h - jansson, with our limits and our text rules.
 *
 * The prefix is js_ because json_ belongs to jansson.
 */
#ifndef JSON_JS_H
#define JSON_JS_H

#include <stdbool.h>

#include <jansson.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

/*
 * Parses one JSON text. Lenient where clients are careless and strict elsewhere:
 * invalid UTF-8 and lone surrogate escapes become U+FFFD, integers beyond 64 bits
 * become reals, "\u0000" is kept in values, of repeated keys the last one counts.
 * Anything else that is not JSON is ERR_INVALID with line and column, and so are more than
 * 100,000 values. `text` stays as it is: such repairs are made in a copy, and only when they are needed.
 */
json_t *js_parse(const char *text, size_t len, struct err *e) MUST_CHECK;

/* Compact; appended. Escapes nothing that JSON does not demand, except what js_escapes()
 * names. Reals have the fewest digits that mean the same number. NULL, and what refers
 * to itself, is "null". */
void js_dump(const json_t *v, struct buf *out);
/* DEL, C1 controls, U+2028, U+2029 and what is invisible or changes the direction: names
 * of files and the like are kept as they are, but whoever reads the text sees them. */
bool js_escapes(uint32_t c);

/* A string value from any bytes: invalid UTF-8 is scrubbed, so it never fails. */
json_t *js_string(struct str s);
struct str js_str(const json_t *v); /* a view of a string value; empty for others */

/* Member of an object, NULL when v is no object or has none. */
json_t *js_get(const json_t *v, const char *key);
/* v[a][b]... ; the list ends with NULL. */
json_t *js_path(const json_t *v, ...) __attribute__((sentinel));

/*
 * The raw bytes of a member's value in a JSON text that js_parse() accepted:
 * js_raw(text, "params", "_meta", "progressToken", NULL). Used to echo ids exactly
 * as they came: not valid UTF-8 where the text was not, so utf8_scrub() what leaves
 * the program. Empty when it is not there. Where a key is repeated the last one
 * counts, as in jansson. Any text is fine: garbage gives something inside it, or
 * the empty view.
 */
struct str js_raw(struct str text, ...) __attribute__((sentinel));
/* The raw bytes of element i of an array text; empty behind the last one. */
struct str js_raw_item(struct str text, size_t i);

static inline void js_decref_(json_t **v)
{
    json_decref(*v);
}
#define own_json CLEANUP(js_decref_)

#endif
