/*
 * parse.h - what HTTP headers and URLs say. Pure functions over views: no state, no
 * allocation but in the arena that is given, any bytes may come in.
 *
 * A function that returns int says in *e, as a sentence for the client, what is wrong:
 * ERR_INVALID, for the answer 400. Results are views into the input unless an arena is
 * passed. Values are taken as they came off the wire; surrounding spaces and tabs are
 * allowed, other control characters never are.
 */
#ifndef SERVE_HTTP_PARSE_H
#define SERVE_HTTP_PARSE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

/* Without spaces and tabs at both ends. */
struct str http_trim(struct str s);

/* ---- media types ------------------------------------------------------------------ */

struct media_type {
    struct str type, subtype; /* as written; compare with media_type_is() */
    struct str params;        /* from the first ';' on, or empty; its syntax is checked */
};

/* Content-Type: "type/subtype" and parameters, each "name=token" or "name=\"quoted\"". */
int http_media_type(struct str value, struct media_type *out, struct err *e) MUST_CHECK;
/* Is its essence this one, in lower case: "application/json"? */
bool media_type_is(const struct media_type *m, struct str essence);
/* The first parameter of this name (any case), unquoted. False: there is none. */
bool media_type_param(const struct media_type *m, struct str name, struct arena *a,
                      struct str *out);

/* Accept: how welcome this type is, in thousandths: 0 not at all, 1000 most. The most
 * specific range decides, parameters other than q count for nothing, elements that are no
 * media range are passed over. No header, or none with a range in it: 1000. */
int http_accept_q(struct str accept, struct str essence);

/* ---- who asks, and whom ------------------------------------------------------------ */

enum host_kind {
    HOST_NAME,
    HOST_IPV4,
    HOST_IPV6,
};

struct http_host {
    struct str name; /* without brackets and without a dot at the end */
    enum host_kind kind;
    uint16_t port; /* 0: not given */
};

/* Host: a name, an IPv4 address or an IPv6 address in brackets, and perhaps a port.
 * Nothing else: no user, no path, no spaces inside, no zone. A name is of letters, digits,
 * '-', '_' and '.'; one whose last part is a number must be an IPv4 address in its usual
 * form, as no other is safe to compare. */
int http_host(struct str value, struct http_host *out, struct err *e) MUST_CHECK;
/* localhost, 127.0.0.0/8, ::1: names that no DNS server can point elsewhere. */
bool http_host_is_loopback(const struct http_host *h);
/* The same host; ports are not compared. Addresses by value, names in any case. */
bool http_host_same(const struct http_host *a, const struct http_host *b);

struct http_origin {
    bool opaque;       /* "null": a sandboxed page, a file; equal to nothing */
    struct str scheme; /* as written */
    struct http_host host;
    uint16_t port; /* the scheme's own when none is given; 0: unknown */
};

/* Origin: "null" or "scheme://host" or "scheme://host:port", without a path. */
int http_origin(struct str value, struct http_origin *out, struct err *e) MUST_CHECK;
/* Scheme, host and port. False when one of them is opaque. */
bool http_origin_same(const struct http_origin *a, const struct http_origin *b);

/* Authorization: a scheme (any case) and exactly one token of letters, digits and
 * "-._~+/" with perhaps '=' behind. The sentence never repeats the token. */
int http_authorization(struct str value, struct str scheme, struct str *token, struct err *e)
    MUST_CHECK;

/* ---- ranges --------------------------------------------------------------------------- */

enum range_kind {
    RANGE_WHOLE, /* no range, another unit, several, or no range at all: answer 200 */
    RANGE_PART,  /* 206, first to last */
    RANGE_NONE,  /* beyond the end: 416 */
};

struct http_range {
    uint64_t first, last; /* both included */
};

enum range_kind http_range(struct str value, uint64_t size, struct http_range *out);

/* ---- URLs --------------------------------------------------------------------------------- */

/* ---- MCP ------------------------------------------------------------------------------------ */

/* A header value of MCP: "=?base64?...?=" is decoded (strictly, ERR_INVALID otherwise),
 * everything else is itself, trimmed. */
int http_mcp_value(struct arena *a, struct str value, struct str *out, struct err *e) MUST_CHECK;
/* "2026-07-28" as 20260728; 0 when it is no date of this form. */
int32_t http_revision_date(struct str value);

/* ---- downloads ---------------------------------------------------------------------------- */

/* How a file of a box is sent. Who made it is not trusted: what a browser would run or draw
 * with scripts (base/mime.h) is never shown inline, and every answer has
 * X-Content-Type-Options: nosniff and HTTP_FILE_CSP. */
#define HTTP_FILE_CSP "default-src 'none'; style-src 'unsafe-inline'; sandbox"

/* The value of Content-Disposition: inline or attachment, and the last part of the path as
 * file name, in ASCII for all and exactly (filename*) when that is not the same. Control
 * characters, quotes and path separators never get into it. */
void http_disposition(struct buf *out, struct str path, bool shown_inline);

#endif
