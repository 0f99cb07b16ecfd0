/*
 * peer.h - one client, as the protocol layer sees it: somewhere to send to, and the
 * state that legacy revisions keep per connection.
 *
 * A call's messages are sent with `lock` held, so that nothing of a call follows once
 * its cancellation was read. A transport's send() must therefore not come back here,
 * and its own lock is taken inside this one.
 */
#ifndef MCP_PEER_H
#define MCP_PEER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "base/list.h"
#include "base/str.h"
#include "core/boxes.h"

struct mcp;
struct peer;

enum send_kind {
    SEND_ANSWER,  /* must arrive: results and errors */
    SEND_NOTICE,  /* progress: may be dropped when the client does not read */
    SEND_MESSAGE, /* must arrive, and an answer is still to come */
};

struct peer_ops {
    /* One JSON text, without the newline. Any thread. */
    void (*send)(struct peer *p, struct str message, enum send_kind kind);
    const char *transport; /* "stdio", "http": for the log */
    bool one_stream;       /* all answers share one stream (stdio); HTTP has one per request */
    /* NULL, or: a call begins, a call has ended and sent all that it will. Without the lock;
     * a peer that is held must not be freed, and release() may free it. */
    void (*hold)(struct peer *p);
    void (*release)(struct peer *p);
};

struct peer {
    const struct peer_ops *ops;
    struct mcp *mcp;
    struct scope *scope;
    struct str link_base; /* for struct call; lives as long as the peer */
    pthread_mutex_t lock;
    int legacy;         /* enum revision that initialize agreed on, 0 before; guarded by lock */
    unsigned can;       /* enum client_can, as told by initialize; guarded by lock */
    int level;          /* enum call_level, by logging/setLevel; guarded by lock */
    struct list calls;  /* struct running.link: calls under way; guarded by lock */
    json_t *roots;      /* its answer to roots/list, until it says that they changed; or NULL ... */
    unsigned roots_era; /* ... which this counts; both guarded by lock. See ask.c */
    pthread_cond_t idle; /* calls became empty */
};

/* A transport without connections (HTTP) keeps `legacy` and `can` elsewhere between requests
 * and sets them by peer_set_legacy(); `can` is 0 when a question could not reach the client. */
void peer_init(struct peer *p, const struct peer_ops *ops, struct mcp *mcp, struct scope *scope);
/* Cancels what runs: commands are killed, their calls answer that they were cancelled. */
void peer_cancel(struct peer *p);
/* Waits until nothing runs, at most wait_ms; true when that is so. */
bool peer_wait(struct peer *p, int64_t wait_ms);
/* Cancels what runs and waits for it, at most grace_ms; true when all has ended. */
bool peer_close(struct peer *p, int64_t grace_ms);
void peer_fini(struct peer *p);
void peer_set_legacy(struct peer *p, int revision, unsigned can);

#endif
