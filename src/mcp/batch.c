/*
 * batch.c - the array of answers to an array of messages (revisions up to 2025-03-26).
 *
 * The elements run side by side and end in any order; each that is owed an answer
 * holds the batch. The last one to let go sends one array, or nothing when there is
 * no answer in it: a batch of notifications is not answered. The whole stays within
 * MCP_MESSAGE_MAX: an answer that would not fit is replaced by an error of its id.
 */
#include <pthread.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/thread.h"
#include "mcp/exchange.h"
#include "mcp/mcp.h"

/* Room that is kept for an error in place of each answer. */
#define BATCH_RESERVE (MCP_BATCH_MAX * (RPC_ID_MAX + 256))

struct batch {
    struct peer *peer;
    pthread_mutex_t lock;
    unsigned holders;   /* guarded by lock */
    struct buf answers; /* guarded by lock */
};

struct batch *batch_new(struct peer *p)
{
    struct batch *b = xcalloc(1, sizeof(*b));

    b->peer = p;
    b->holders = 1;
    (void)pthread_mutex_init(&b->lock, NULL);
    buf_init(&b->answers, MCP_MESSAGE_MAX);
    return b;
}

void batch_hold(struct batch *b)
{
    LOCKED(&b->lock);
    b->holders++;
}

void batch_add(struct batch *b, struct str raw_id, struct str answer)
{
    LOCKED(&b->lock);
    buf_addc(&b->answers, b->answers.len == 0 ? '[' : ',');
    if (b->answers.len + answer.len > MCP_MESSAGE_MAX - BATCH_RESERVE) {
        rpc_add_error(&b->answers, raw_id, RPC_INTERNAL_ERROR,
                      S("The answers of this batch are larger than 1 MiB together; send this "
                        "request on its own."),
                      STR_EMPTY);
        return;
    }
    buf_add(&b->answers, answer);
}

void batch_release(struct batch *b)
{
    bool last;

    lock(&b->lock);
    last = --b->holders == 0;
    unlock(&b->lock);
    if (!last) {
        return;
    }
    if (b->answers.len > 0) {
        buf_addc(&b->answers, ']');
        b->peer->ops->send(b->peer, buf_str(&b->answers), SEND_ANSWER);
    }
    buf_fini(&b->answers);
    (void)pthread_mutex_destroy(&b->lock);
    free(b);
}

void answer_send(struct peer *p, struct batch *b, struct str raw_id, struct str answer)
{
    if (b != NULL) {
        batch_add(b, raw_id, answer);
        return;
    }
    p->ops->send(p, answer, SEND_ANSWER);
}
