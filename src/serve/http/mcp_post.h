/*
 * mcp_post.h - one POST of /mcp that is owed an answer: a peer of its own for the protocol
 * layer, and how its messages become an HTTP answer.
 *
 * The answer is JSON when it is there soon, or when the client takes nothing else. It becomes a
 * stream of events when something else has to be told first, when the client asked for
 * progress, and after a second in any case, so that nobody in between takes the silence for
 * the end. For 2026-07-28 a client that goes away takes its request back; before, it does not.
 */
#ifndef SERVE_HTTP_MCP_POST_H
#define SERVE_HTTP_MCP_POST_H

#include <pthread.h>
#include <stdbool.h>

#include "mcp/mcp.h"
#include "serve/http/request.h"
#include "serve/http/session.h"
#include "serve/http/stream.h"
#include "serve/http/watch.h"

enum post_state {
    POST_WAITS,   /* nothing was answered */
    POST_STREAMS, /* events */
    POST_DONE,
};

struct post {
    struct peer peer;
    struct request *r;
    struct session *session; /* NULL: none; held */
    struct list link;        /* session.posts */
    struct alarm alarm;
    int64_t started_ms;
    struct str raw_id; /* of a single request */
    bool modern;
    bool initialize;   /* its answer carries a new session's id */
    bool takes_events; /* the client does */
    bool wants_events; /* and wants them at once */
    pthread_mutex_t lock;
    enum post_state state; /* guarded by lock, like those below */
    unsigned calls;        /* of the caller that this is counted as */
    struct event_stream *stream;
    unsigned busy; /* who may still answer */
};

/* Belongs to the request from now on. The session is taken over. */
struct post *post_new(struct request *r, struct session *session, bool modern, bool takes_events);
/* Serves the message and sees to the answer. */
void post_take(struct post *p, struct mcp_message *m);

#endif
