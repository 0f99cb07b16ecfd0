/*
 * route.h - what is served where: a route is one row.
 *
 * Before a handler runs, the core has checked in this order: Host and Origin, the key, the
 * path (404), the method (405 with Allow), the type and length of the body (415, 413); and
 * unless the route takes its body itself, it has read the body. CORS preflights are answered
 * by the core for routes with ROUTE_CORS.
 */
#ifndef SERVE_HTTP_ROUTE_H
#define SERVE_HTTP_ROUTE_H

#include "serve/http/request.h"

enum route_flag {
    ROUTE_OPEN = 1 << 0,   /* needs no key */
    ROUTE_QUICK = 1 << 1,  /* runs at once on the server's thread: no waiting, no long work */
    ROUTE_UPLOAD = 1 << 2, /* the handler takes the body as it arrives, by request_read() */
    ROUTE_CORS = 1 << 3,   /* pages of http.cors_origins may use it */
    ROUTE_WRITES = 1 << 4, /* changes something: refused in read-only mode */
    ROUTE_RPC = 1 << 5,    /* what the core refuses is told as a JSON-RPC error */
};

struct route {
    const char *path; /* "/check"; "/mcp/tools/" followed by '*' takes any rest that is not empty */
    unsigned methods; /* enum http_method */
    unsigned flags;
    size_t body_max;  /* bytes; 0: no body wanted, what comes is thrown away (an upload has
                       * http.max_upload instead) */
    const char *type; /* NULL, or the Content-Type that a body must have: else 415 */
    void (*run)(struct request *r);
    /* NULL, or: who asks when no key was given, such as by a signed link; NULL: nobody. Runs on
     * the server's thread. When it returns NULL the answer is 401. */
    struct caller *(*admit)(struct request *r);
};

/* Sets of rows, each ended by a row without a path; the table of sets is in routes.c. */
extern const struct route mcp_routes[];
extern const struct route rest_routes[];
extern const struct route file_routes[];
extern const struct route metrics_routes[];
extern const struct route openapi_routes[];

/* The row for a path and a method. NULL: *allowed is 0 when there is no such path, else the
 * methods that it has. r->tail is set for rows with '*' (*tail here). HEAD finds GET's. */
const struct route *route_find(struct str path, enum http_method method, unsigned *allowed,
                               struct str *tail);
/* "GET, HEAD, POST" for Allow and Access-Control-Allow-Methods. */
struct str route_methods(unsigned methods, char *to, size_t size);

#endif
