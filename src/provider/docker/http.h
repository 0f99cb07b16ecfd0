/*
 * http.h - HTTP/1.1 to a container engine: one request on one connection.
 *
 * The engine is reached through a unix socket, plain TCP, or TLS. The first is a socket of our
 * own; the others are libcurl's (CONNECT_ONLY), which is opened when it is first needed, and give a
 * stream of bytes as well. What is said over it is the same: requests with a length or in chunks,
 * answers with a length, in chunks or up to the end, and the upgrade to a raw stream that an
 * exec with attached streams is. A connection is used once: on the same machine a new one
 * costs a quarter of a millisecond, and nothing has to be known about the state of an old one.
 *
 * Every wait obeys the ctx. What the other side sends is bounded: 64 KiB of headers, and of a
 * body what the caller takes.
 */
#ifndef PROVIDER_DOCKER_HTTP_H
#define PROVIDER_DOCKER_HTTP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/ctx.h"

enum where_kind {
    WHERE_UNIX,
    WHERE_TCP,
    WHERE_TLS,
};

/* Where an engine listens; strings live as long as who asks needs them. */
struct where {
    enum where_kind kind;
    struct str shown;            /* for messages: "unix:///var/run/docker.sock" */
    const char *path;            /* WHERE_UNIX */
    const char *host;            /* else; an IPv6 address without brackets */
    uint16_t port;               /* else */
    const char *ca, *cert, *key; /* WHERE_TLS: files; NULL: the system's, and none */
    bool insecure;               /* WHERE_TLS: whoever answers is believed */
};

/* A connection. A zeroed one with fd -1 is none. */
struct wire {
    int fd;
    void *curl;    /* NULL: a socket of our own; else it owns fd */
    bool has_more; /* of TLS: bytes may be there that poll() does not tell of */
};

#define WIRE_NONE ((struct wire){.fd = -1})

/* ERR_UNREACHABLE, or ERR_DENIED where the socket is not ours to use, each with the fix. */
int wire_open(struct wire *w, const struct where *to, const struct ctx *ctx, struct err *e)
    MUST_CHECK;
void wire_close(struct wire *w);
#define own_wire CLEANUP(wire_close)

/* What can be done at once: the number of bytes, 0: nothing for now, -1. At the end of the
 * stream wire_recv() fails with ERR_UNREACHABLE and e->sys 0. */
ssize_t wire_send(struct wire *w, struct str bytes, struct err *e) MUST_CHECK;
ssize_t wire_recv(struct wire *w, char *to, size_t cap, struct err *e) MUST_CHECK;

/* Told of a piece of the body; what it returns but 0 ends the request with its error. */
typedef int http_piece_fn(void *arg, struct str piece, struct err *e);

struct http_req {
    const char *method;
    struct str path;  /* with its query, encoded */
    struct str auth;  /* for a registry: X-Registry-Auth; or empty */
    const char *type; /* of the body; NULL: there is none */
    struct str body;
    int body_fd;          /* > 0: the body is what can be read from it instead; not blocking */
    http_piece_fn *piece; /* of an answer of 2xx; NULL: the body is kept */
    void *arg;
    size_t max;        /* bytes of the body that are kept; 0: 4 MiB */
    int64_t silent_ms; /* how long the other side may say nothing; 0: 60 s */
};

struct http_answer {
    int status;
    struct str
        body; /* in the ctx's arena: all of it, or of another status than 2xx its beginning */
};

/* Any status is success. */
int http_call(const struct where *to, const struct ctx *ctx, const struct http_req *req,
              struct http_answer *out, struct err *e) MUST_CHECK;

/* A POST whose answer is a raw stream in both directions: *w, and in *rest what came of it
 * already (in the arena). Where it is refused, *out is the answer and w->fd is -1. */
int http_upgrade(const struct where *to, const struct ctx *ctx, const struct http_req *req,
                 struct wire *w, struct str *rest, struct http_answer *out, struct err *e)
    MUST_CHECK;

/* Sends a request and leaves all of the answer, its head too, to who reads *w. */
int http_begin(const struct where *to, const struct ctx *ctx, const struct http_req *req,
               struct wire *w, struct err *e) MUST_CHECK;

#endif
