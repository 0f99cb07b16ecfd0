/*
 * peer.h - one client, as the protocol layer sees it: somewhere to send to, and the
 * state that legacy revisions keep per connection.
 */
#ifndef MCP_PEER_H
#define MCP_PEER_H

#include <pthread.h>
#include <stdbool.h>

#include "base/list.h"
#include "base/str.h"
#include "core/boxes.h"

struct mcp;
struct peer;

enum send_kind {
    SEND_ANSWER, /* must arrive: results and errors */
    SEND_NOTICE, /* progress: may be dropped when the client does not read */
};

struct peer_ops {
    /* One JSON text, without the newline. Any thread. */
    void (*send)(struct peer *p, struct str message, enum send_kind kind);
};

struct peer {
    const struct peer_ops *ops;
    struct mcp *mcp;
    struct scope *scope;
    pthread_mutex_t lock;
    int legacy;        /* enum revision that initialize agreed on, 0 before; guarded by lock */
    struct list calls; /* struct running.link: calls under way; guarded by lock */
};

void peer_init(struct peer *p, const struct peer_ops *ops, struct mcp *mcp, struct scope *scope);
/* Cancels what runs and waits for it, at most grace_ms; true when all has ended. */
bool peer_close(struct peer *p, int64_t grace_ms);
void peer_fini(struct peer *p);

#endif
