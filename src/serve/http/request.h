/*
 * request.h - one HTTP request, as a handler sees it, and the ways to answer it.
 *
 * A handler (route.h) runs on a thread of services->calls, or, when its route says
 * ROUTE_QUICK, on the server's own thread, where it must neither block nor take long.
 * It answers exactly once, by one of:
 *
 *   request_reply(), request_json(), request_fail()   a whole answer
 *   request_begin(), request_write()..., request_end() a body that is made while it is sent
 *   stream_open() of stream.h                         server-sent events
 *
 * Who returns without an answer must have called request_hold(), and answers later from
 * any thread; else the client gets a 500. All functions here may be called when the client
 * is gone already: they do nothing then, or say ERR_CANCELLED.
 *
 * Everything here that a request holds (path, headers, body, arena) lives until the last
 * request_unref(), but headers can be asked for only until the answer is given.
 */
#ifndef SERVE_HTTP_REQUEST_H
#define SERVE_HTTP_REQUEST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/arena.h"
#include "base/attr.h"
#include "base/ctx.h"
#include "base/err.h"
#include "base/str.h"
#include "core/boxes.h"
#include "core/services.h"

enum http_method { /* bits, so that a route can take several */
                   HTTP_GET = 1 << 0,
                   HTTP_HEAD = 1 << 1,
                   HTTP_POST = 1 << 2,
                   HTTP_PUT = 1 << 3,
                   HTTP_DELETE = 1 << 4,
                   HTTP_OPTIONS = 1 << 5,
                   HTTP_OTHER = 1 << 6,
};

/* Who asks: one per key, for as long as the server runs. */
struct caller {
    struct str name;         /* of the key, for logs; "" when keys are off */
    struct scope scope;      /* .owner says whose boxes are meant */
    atomic_int n_calls;      /* under way; see caller_enter() */
    atomic_int n_files;      /* see request_enter_file() */
    atomic_llong body_bytes; /* in memory, of all its requests */
};

struct http;
struct route;

struct request {
    struct http *http;
    const struct services *services;
    const struct route *route;
    enum http_method method;
    struct str path;       /* percent-decoded, begins with '/' */
    struct str tail;       /* what the '*' of the route's path stands for; not empty then */
    struct str query;      /* behind the '?', as it came */
    struct str body;       /* all of it, terminated; empty with ROUTE_UPLOAD */
    struct caller *caller; /* never NULL in a handler; of nobody with ROUTE_OPEN */
    struct arena *arena;   /* of the handler's thread while it runs */
    /* With the arena. Handlers off the server's thread have a cancel in it, which fires when
     * the client goes away before it has its answer, and when the server leaves. */
    struct ctx ctx;
};

/* A header of the request, trimmed; empty when it is not there. When it is there more than
 * once, the first. */
struct str request_header(struct request *r, const char *name);
/* How often the header is there: some may not be repeated. */
unsigned request_header_count(struct request *r, const char *name);
/* A member of the query, decoded, in the arena; .p is NULL when it is not there. ERR_INVALID when
 * it is there twice or is not well escaped. */
int request_query(struct request *r, struct str name, struct str *out, struct err *e) MUST_CHECK;
/* "http://host:port", as this client reaches us, or the configured public_url; no '/' at its
 * end. In the arena. */
struct str request_base_url(struct request *r);

/* ---- a whole answer ------------------------------------------------------------ */

/* Adds a header to the answer that is still to come; both are copied. Bytes that have no
 * place in a header are replaced. */
void request_set_header(struct request *r, const char *name, struct str value);
/* The body is copied. `type` is the Content-Type; NULL: none (and then no body). A HEAD gets
 * the same headers without the body. */
void request_reply(struct request *r, unsigned status, const char *type, struct str body);
void request_json(struct request *r, unsigned status, const json_t *v);
/* {"error": sentence, "code": word} */
void request_fail(struct request *r, unsigned status, const char *code, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
/* The same of an error: its kind is the code and chooses the status (404 for not_found...). */
void request_fail_err(struct request *r, const struct err *e);
unsigned http_status_of(enum err_kind kind);

/* ---- a body that is made while it is sent -------------------------------------- */

/* `size` is the length, or -1 when it is not known yet. ERR_CANCELLED: nobody waits. */
int request_begin(struct request *r, unsigned status, const char *type, int64_t size, struct err *e)
    MUST_CHECK;
/* Sleeps while a quarter of a MiB is unsent, so that memory stays constant. ERR_CANCELLED when
 * the client is gone, does not read, or the server leaves. Not on the server's thread. */
int request_write(struct request *r, struct str bytes, struct err *e) MUST_CHECK;
/* That was all. False: what was promised is not there; the connection is cut so that the
 * client notices. Must be called once request_begin() was, whatever happened. */
void request_end(struct request *r, bool whole);

/* ---- a body that is taken as it arrives (ROUTE_UPLOAD) ------------------------- */

/* The most that a body may have: the route's body_max, or http.max_upload. */
size_t request_body_max(const struct request *r);
/* Content-Length, or -1 with a chunked body. */
int64_t request_length(struct request *r);
/* Sleeps until there are bytes. *got is 0 at the end. ERR_LIMIT beyond request_body_max(),
 * ERR_CANCELLED when the client went away before the end. What is not read is thrown away. */
int request_read(struct request *r, void *to, size_t cap, size_t *got, struct err *e) MUST_CHECK;

/* ---- lifetime ------------------------------------------------------------------ */

void request_hold(struct request *r);
void request_unref(struct request *r);
/* Frees the body early, for who keeps the request for long. */
void request_drop_body(struct request *r);
/* The client is there and waits, as far as we know. */
bool request_waits(struct request *r);

/* So many more calls of this caller, for tool calls and the like; false beyond http.max_calls. */
bool caller_enter(struct http *http, struct caller *c, unsigned n);
void caller_leave(struct caller *c, unsigned n);
/* One more file on its way, up or down: a slow client of it holds a thread. The limits are
 * apart from those of calls, and leave threads to them. False: it was refused. */
bool request_enter_file(struct request *r);
void request_leave_file(struct request *r);

#endif
