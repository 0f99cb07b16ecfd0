/*
 * base64url.h - base64 for machines (RFC 4648), strict both ways: one text for any bytes,
 * one meaning for any text. (tools/base64.h is the lenient reader of what people and
 * models write.)
 */
#ifndef BASE_BASE64URL_H
#define BASE_BASE64URL_H

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

/* The alphabet for URLs and file names, without padding. */
void base64url_add(struct buf *out, struct str bytes);
/* Appends the bytes. ERR_INVALID: another character, padding, an impossible length, or
 * bits behind the end that are not zero. */
int base64url_read(struct str text, struct buf *out, struct err *e) MUST_CHECK;
/* The same for the standard alphabet with its padding in full. */
int base64_read_strict(struct str text, struct buf *out, struct err *e) MUST_CHECK;

#endif
