/*
 * exchange.h - one request on its way through this layer, and where its answer goes:
 * straight to the peer, or into the array of answers that a batch is owed.
 */
#ifndef MCP_EXCHANGE_H
#define MCP_EXCHANGE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/list.h"
#include "base/str.h"
#include "core/services.h"
#include "mcp/peer.h"
#include "mcp/revision.h"
#include "mcp/rpc.h"
#include "tools/tool.h"

struct custom;
struct observer;

struct mcp {
    const struct services *services;
    unsigned toolsets;
    struct buf lists[REV_COUNT]; /* results of tools/list; written by mcp_new() only */
    atomic_llong n_calls;        /* that run and are not answered yet, of all peers */
    pthread_mutex_t questions_lock;
    struct list questions; /* struct waiting.link in ask.c; guarded by questions_lock */
    pthread_mutex_t listeners_lock;
    struct list listeners; /* struct listener.link in listen.c; guarded by listeners_lock ... */
    size_t n_listeners;    /* ... like this */
    struct observer *observer;
    struct custom *custom; /* the tools of the configuration; NULL: none */
};

struct batch;

struct exchange {
    struct peer *peer;
    struct batch *batch; /* NULL: the request came alone */
    const struct rpc_msg *msg;
    enum revision rev;
    int64_t started_ms; /* on clock_mono_ms() */
};

/* The line in the log that each request ends with; `outcome` is "ok", "cancelled" or an error
 * code. Nothing of the parameters is told. */
void request_log(const struct peer *p, struct str method, struct str raw_id, int64_t started_ms,
                 const char *outcome);

/* `body` is the result as JSON text. */
void exchange_result(const struct exchange *x, struct str body);
/* The message is formatted; what is quoted in it must be bounded. */
void exchange_error(const struct exchange *x, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Who still owes the batch an answer holds it; the last one to let go sends it. */
struct batch *batch_new(struct peer *p);
void batch_hold(struct batch *b);
void batch_add(struct batch *b, struct str raw_id, struct str answer);
void batch_release(struct batch *b);

/* Sends a finished message to the peer, or adds it to the batch. */
void answer_send(struct peer *p, struct batch *b, struct str raw_id, struct str answer);

/* methods.c */
struct method {
    const char *name;
    unsigned eras; /* enum era */
    bool alone;    /* not in a batch */
    void (*run)(const struct exchange *x);
    unsigned offer; /* enum offer that it belongs to; 0: it is always there */
};
enum era {
    ERA_LEGACY = 1 << 0,
    ERA_MODERN = 1 << 1,
};
const struct method *method_find(struct str name);

/* listing.c: the result of tools/list for each revision. */
void listing_build(struct mcp *m);

/* The end of a result that began with '{' and has members: who answered, where the
 * revision wants to know, and the '}'. */
void result_end(struct buf *out, enum revision rev);
/* The same for a result that is not "complete". */
void result_end_as(struct buf *out, enum revision rev, const char *type);

/* peer.c: what initialize agreed on, or what is assumed before it. */
enum revision peer_revision(struct peer *p);
unsigned peer_can(struct peer *p); /* enum client_can */
enum call_level peer_level(struct peer *p);
void peer_set_level(struct peer *p, enum call_level level);

#define SERVER_NAME "anybox"
/* What we list changes with our version only, so any cache may hold it for a while. */
#define CACHE_HINTS ",\"ttlMs\":300000,\"cacheScope\":\"public\""
/* What may depend on who asks is not for caches that others use, and not for long. */
#define CACHE_HINTS_PRIVATE ",\"ttlMs\":0,\"cacheScope\":\"private\""

#endif
