/*
 * http_own.h - what the files of the HTTP server's core share: http.c (start, stop), conn.c
 * (libmicrohttpd's callbacks), request.c and flow.c (answers), stream.c, guard.c and callers.c.
 *
 * Locks, outer first: peer.lock, post.lock (mcp_post.c), live.lock, then those of the watch and
 * of libmicrohttpd. http.lock is held for a look at a list, alone or around live.lock.
 */
#ifndef SERVE_HTTP_HTTP_OWN_H
#define SERVE_HTTP_HTTP_OWN_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "base/list.h"
#include "serve/http/counts.h"
#include "serve/http/guard.h"
#include "serve/http/http.h"
#include "serve/http/mhd.h"
#include "serve/http/request.h"
#include "serve/http/watch.h"

struct callers;
struct sessions;
struct mcp;
struct keys;
struct openapi;

struct http {
    struct mhd mhd;
    const struct services *services;
    const struct http_options *options;
    struct MHD_Daemon *daemon;
    struct watch *watch;
    struct mcp *mcp;
    struct guard guard;
    struct keys *keys; /* NULL: off */
    struct callers *callers;
    struct sessions *sessions;
    atomic_bool leaving; /* no new work is taken */
    atomic_int n_files;  /* of all callers */
    pthread_mutex_t lock;
    atomic_int n_live;    /* struct live that exist: at the end there is none */
    struct list requests; /* struct live.link; guarded by lock */
    struct list conns;    /* struct conn.link; guarded by lock */
    struct alarm slow;    /* looks for clients that are too slow */
    struct http_counts counts;
    struct openapi *openapi; /* libmicrohttpd's thread only */
};

/* ---- connections (conn.c) ------------------------------------------------------------ */

enum conn_state {
    CONN_IDLE, /* nothing of a request is there, or only its beginning */
    CONN_HEAD, /* the first line is there */
    CONN_BODY,
    CONN_BUSY, /* the client waits for us */
};

/* One connection, for clients that send too slowly: libmicrohttpd only sees that they send. */
struct conn {
    struct list link; /* http.conns */
    int fd;
    enum conn_state state; /* guarded by http.lock, like those below */
    int64_t since_ms;
    uint64_t bytes; /* of the body so far */
};

int conn_start(struct http *h, int listener, bool loopback, struct err *e) MUST_CHECK;
void conn_alarm(struct alarm *a); /* http.slow */

/* ---- requests (request.c, flow.c, stream.c) ------------------------------------------ */

enum end_why {
    END_GONE,    /* the client is */
    END_LEAVING, /* we are */
};

enum live_phase {
    LIVE_FRESH,   /* the headers were not looked at yet */
    LIVE_BODY,    /* the body is read into .body */
    LIVE_DISCARD, /* the body is thrown away; the answer is there already */
    LIVE_UPLOAD,  /* the body goes to the handler */
    LIVE_RUNS,    /* the handler was started */
};

#define LIVE_HEADERS_MAX 12

/*
 * One request with all that handlers do not see. The reference of libmicrohttpd's side is
 * given back when it is done with the request; `conn` is NULL from then on. While the
 * connection is suspended it cannot go away, so with the lock held and `suspended` true it may
 * be resumed.
 */
struct live {
    struct request pub;
    struct list link; /* http.requests */
    atomic_uint refs;
    struct MHD_Connection *mhd; /* for libmicrohttpd's thread, and for who holds the lock */
    struct conn *conn;
    enum live_phase phase; /* libmicrohttpd's thread only */
    int64_t started_ms;
    int64_t length;    /* Content-Length; -1: unknown */
    uint64_t received; /* libmicrohttpd's thread only */
    /* With an upload: copies, as libmicrohttpd goes on with the connection, and may be done
     * with it, while the handler runs. */
    struct kept_header {
        struct str name, value;
    } * kept;
    size_t n_kept;
    struct buf body;
    size_t body_counted; /* of it in caller.body_bytes */
    struct str origin;   /* allowed by http.cors_origins: named in the answer */
    bool patient;        /* a client that stops to send is not gone */

    pthread_mutex_t lock; /* guards the rest */
    bool suspended, answered, gone;
    struct MHD_Response *response; /* to be queued */
    unsigned status;
    struct cancel cancel;
    bool has_cancel;
    struct gaze gaze;
    struct flow *flow;
    struct event_stream *stream;
    void (*on_end)(void *arg, enum end_why why);
    void *arg; /* of on_end; freed with the request */
    void (*free_arg)(void *arg);
    struct live_header {
        const char *name;
        struct str value;
    } * headers; /* in the arena; NULL: none so far */
    size_t n_headers;
    struct arena arena;
    char uri[]; /* as it came, with the decoded path behind it */
};

#define LIVE_OF(r) CONTAINER_OF(r, struct live, pub)

struct live *live_new(struct http *h, const char *uri);
void live_free_body(struct live *l);
/* False: its last reference was given back already. */
bool live_try_hold(struct live *l);
/* Gives the response to libmicrohttpd, now or when it asks next. Takes it over. False: nobody
 * waits, or there was an answer already. */
bool live_answer(struct live *l, unsigned status, struct MHD_Response *response);
void live_add_headers(struct live *l, struct MHD_Response *response);
/* Keeps the headers of the request; on libmicrohttpd's thread, before the handler starts. */
void live_keep_headers(struct live *l);
/* With the lock held, on libmicrohttpd's thread. */
void live_suspend_locked(struct live *l);
/* With the lock held. Nothing when it is not suspended. */
void live_resume_locked(struct live *l);
/* From now on we notice when the client goes away. No lock of this request is held. */
void live_watch(struct live *l);
/* `on_end` is called without locks, on any thread, when the client goes away before it has its
 * whole answer, and when we leave; `arg` lives as long as the request. */
void live_own(struct live *l, void *arg, void (*free_arg)(void *arg),
              void (*on_end)(void *arg, enum end_why why));
void live_end(struct live *l, enum end_why why);
/* libmicrohttpd is done with the request. */
void live_done(struct live *l, bool well);

struct flow;
void flow_free(struct flow *f);
/* With live.lock held: who sleeps in it looks again. */
void flow_wake(struct flow *f);
/* For uploads, before the handler starts. */
void flow_open_upload(struct live *l);
/* What was taken of the bytes; the connection is suspended when that is not all. */
size_t flow_push(struct live *l, const char *bytes, size_t n);
void flow_push_end(struct live *l);
/* The client sends nothing more. False when there is no upload that goes on all the same. */
bool flow_hang_up(struct live *l);

/* With live.lock held. */
void stream_wake(struct live *l);
void stream_free(struct event_stream *s);
/* Before the live is freed: no lock held. */
void stream_off(struct live *l);

/* ---- callers (callers.c) -------------------------------------------------------------- */

struct callers *callers_new(struct http *h);
void callers_free(struct callers *c);
/* For routes that need no key. */
struct caller *callers_nobody(struct callers *c);
/* The one caller when keys are off. */
struct caller *callers_local(struct callers *c);
/* The caller of a key; made when it is first seen. */
struct caller *callers_of_key(struct callers *c, struct str key_name, struct str owner);

#endif
