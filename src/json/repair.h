/*
 * repair.h - what careless clients write, made acceptable to jansson.
 *
 * Private to json/.
 */
#ifndef JSON_REPAIR_H
#define JSON_REPAIR_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/str.h"

/*
 * Writes `text` to `out` (which is initialized here) with these changes:
 *  - in strings, bytes that are not UTF-8 become U+FFFD;
 *  - in strings, escapes of lone surrogates become \uFFFD;
 *  - integers beyond 64 bits get ".0" and so become reals.
 * False when there was nothing to change. Any bytes are fine.
 */
bool repair_text(struct str text, struct buf *out);

/* The code unit of a "\uXXXX" at the start of `s`, or -1. */
long repair_code_unit(struct str s);

#define IS_HIGH(unit) ((unit) >= 0xD800 && (unit) <= 0xDBFF)
#define IS_LOW(unit)  ((unit) >= 0xDC00 && (unit) <= 0xDFFF)

#endif
