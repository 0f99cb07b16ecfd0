/*
 * ctx.h - what every blocking operation is given: when to stop, and memory.
 *
 * A call that can block takes `const struct ctx *`. It ends early with
 * ERR_CANCELLED when the call's cancel was fired and with ERR_TIMEOUT when the
 * deadline passed. ctx_wait() is where threads sleep below tools/; nothing else
 * polls.
 */
#ifndef BASE_CTX_H
#define BASE_CTX_H

#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"

/* A one-way switch that any thread may fire; it wakes whoever sleeps on it. */
struct cancel {
    int fd; /* eventfd, readable once fired */
    atomic_bool fired;
};

int cancel_init(struct cancel *c, struct err *e) MUST_CHECK;
void cancel_fini(struct cancel *c);
void cancel_fire(struct cancel *c); /* idempotent */

struct ctx {
    struct arena *arena;
    struct cancel *cancel; /* NULL: cannot be cancelled */
    int64_t deadline_ms;   /* on clock_mono_ms(); 0: none */
};

/*
 * Sleeps until one of the descriptors is ready, like poll(). Returns how many
 * are; 0 when clock_mono_ms() reached until_ms first (0: no such limit); -1 with
 * ERR_CANCELLED or ERR_TIMEOUT (checked before anything else). n may be 0.
 */
int ctx_wait(const struct ctx *ctx, struct pollfd *fds, nfds_t n, int64_t until_ms, struct err *e)
    MUST_CHECK;

/* Only the check: -1 when cancelled or past the deadline. */
int ctx_check(const struct ctx *ctx, struct err *e) MUST_CHECK;

#endif
