/*
 * running.h - a request that takes time (a tool's call and the like), as the files that
 * carry it share it. It lives from its request to its answer; see calls.c.
 */
#ifndef MCP_RUNNING_H
#define MCP_RUNNING_H

#include <jansson.h>

#include "base/ctx.h"
#include "base/list.h"
#include "mcp/exchange.h"
#include "tools/tool.h"

struct running;

/* What runs, and how its answer looks. */
struct job {
    /* Writes the result, or an error by running_error(). On a call's thread. */
    void (*run)(struct running *r, struct buf *out);
    /* The same for a request that cannot run at all. */
    void (*refuse)(struct running *r, enum err_kind kind, struct str sentence, struct buf *out);
};

struct running {
    struct list link; /* peer.calls; guarded by peer->lock */
    bool taken_back;  /* by the client: send nothing; guarded by peer->lock */
    bool counted;     /* in mcp->n_calls */
    bool failed;      /* for the log */
    struct peer *peer;
    struct batch *batch; /* held; NULL: none */
    enum revision rev;
    const struct job *job;
    const void *row;   /* of the job's table: struct tool and so on */
    const char *label; /* its name, for the log */
    json_t *params;    /* of the request; owned, NULL: none */
    struct str method; /* in arena, like those below */
    struct str raw_id;
    struct str id;    /* decoded, when it is a string */
    struct str token; /* of progress; empty: not wanted */
    struct cancel cancel;
    struct arena arena;
    struct ctx ctx;
    struct call call;
    int64_t started_ms;
    int64_t progress_ms; /* no progress before this; the call's thread only */
    int64_t progress_n;
    enum call_level level; /* messages to the client's log, from this on */

    /* ask.c; the call's thread only, all owned, NULL: none. */
    json_t *asked;    /* {key: about}: what the client was asked before, as it proved */
    json_t *known;    /* {key: [about, answer]}: what it has answered */
    json_t *requests; /* {key: {method, params}}: what to ask with this answer ... */
    json_t *open;     /* ... and {key: about} for the next round */
};

/* Sends in the name of the call, unless the client took it back. */
void running_send(struct running *r, struct str message, enum send_kind kind);
/* Instead of a result: a JSON-RPC error; `data` is JSON text or empty. */
void running_error(struct running *r, struct buf *out, int code, struct str message,
                   struct str data);
/* The same of an error; one that says what the client lacks, where that was the reason. */
void running_fail(struct running *r, struct buf *out, const struct err *e);
/* A result, or the questions that came instead; `hints` where the revision has them. */
void running_result(struct running *r, struct buf *out, const json_t *result, const char *hints);
/* struct job.refuse for what has no result to be told in. */
void running_refuse(struct running *r, enum err_kind kind, struct str sentence, struct buf *out);

/* call->log */
void running_log(struct call *c, enum call_level level, struct str message);

/* ---- ask.c ------------------------------------------------------------------------- */

/* What the client can be asked, and how; call->can and call->ask. */
void ask_init(struct running *r, unsigned can);
void ask_fini(struct running *r);
/* Reads what a later call brings back: ERR_INVALID when it is not what we gave out. */
int ask_resume(struct running *r, struct err *e) MUST_CHECK;
/* The result that asks, when the call ended so. */
void ask_add_result(struct running *r, struct buf *out);
/* A client's answer, to whoever waits for it; one that nobody does is ignored. */
void ask_answered(struct peer *p, json_t *message);
/* The client's folders are others now: they are asked for again when they are needed. */
void ask_roots_changed(struct peer *p);

#endif
