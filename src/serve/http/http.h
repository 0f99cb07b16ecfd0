/*
 * http.h - the HTTP server: one port for MCP, REST and documentation.
 *
 * Threads: libmicrohttpd's one (epoll; all connections, quick handlers), a watch of ours
 * (clocks, and clients that go away while we work; watch.h), the main thread, which waits for
 * signals, and services->calls for everything that takes time.
 */
#ifndef SERVE_HTTP_HTTP_H
#define SERVE_HTTP_HTTP_H

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"
#include "core/services.h"

struct http_options {
    struct str host;   /* an address or a name; names mean their first address */
    unsigned port;     /* 0: any that is free */
    bool no_auth;      /* refused by the caller unless host is a loopback address */
    unsigned toolsets; /* shown to clients of /mcp */
    /* Called once the port is open; `url` ends with "/mcp". `key` is the secret that was made
     * just now, empty when it was there before or keys are off. */
    void (*ready)(void *arg, struct str url, struct str key);
    void *arg;
};

/* Serves until SIGTERM, SIGINT or SIGHUP, then ends what runs within a few seconds; a second
 * signal ends the program at once. ERR_UNSUPPORTED without libmicrohttpd, with the package to
 * install; ERR_EXISTS when the port is taken. */
int http_serve(const struct services *services, const struct http_options *options, struct err *e)
    MUST_CHECK;

#endif
