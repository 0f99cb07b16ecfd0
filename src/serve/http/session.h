/*
 * session.h - clients of the revisions before 2026-07-28, which are known by Mcp-Session-Id.
 *
 * The id carries all that initialize agreed on, signed: any process of the same state folder
 * knows it again, also after a restart. What is kept here beside it can be lost: which box is
 * selected, and which requests are under way.
 */
#ifndef SERVE_HTTP_SESSION_H
#define SERVE_HTTP_SESSION_H

#include <pthread.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/list.h"
#include "mcp/mcp.h"
#include "mcp/revision.h"
#include "serve/http/request.h"
#include "serve/http/stream.h"

#define SESSION_NONCE_SIZE 33

struct session {
    struct list link;   /* in the table */
    struct list by_use; /* in the table: those that were ended are apart */
    unsigned refs;      /* guarded by the table's lock, like ended */
    bool ended;
    char nonce[SESSION_NONCE_SIZE];
    enum revision rev;
    unsigned can; /* what the client can do, as peers keep it */
    struct caller *caller;
    struct scope scope; /* the caller's boxes, a selection of its own */
    pthread_mutex_t lock;
    struct list posts;           /* struct post.link; guarded by lock */
    struct event_stream *stream; /* of GET; guarded by lock */
    int level;                   /* as peers keep it; -1: not set; guarded by lock */
};

struct sessions;

struct sessions *sessions_new(struct http *h);
void sessions_free(struct sessions *ss);
/* We leave: the streams of GET end. */
void sessions_close(struct sessions *ss);

/* Appends a new id. */
int session_make(struct sessions *ss, const struct caller *caller, enum revision rev, unsigned can,
                 struct buf *id, struct err *e) MUST_CHECK;
/* The session of an id, for session_unref(). ERR_NOT_FOUND when it is not this caller's, has
 * ended, or was never ours. */
struct session *session_find(struct sessions *ss, struct caller *caller, struct str id,
                             struct err *e) MUST_CHECK;
void session_unref(struct sessions *ss, struct session *s);
/* The client ends it: its calls are cancelled, its stream closed, its id is no longer good. */
void session_end(struct sessions *ss, struct session *s);

/* A notification of the client is about any of its requests under way. */
void session_notify(struct session *s, struct mcp_message *m);
/* The stream of GET; one that was there is closed. Takes over the reference. */
void session_set_stream(struct session *s, struct event_stream *stream);
/* The client of that stream went away. Nothing when it is not the session's (any more). */
void session_drop_stream(struct session *s, const struct request *r);

#endif
