/*
 * forward.h - a port of this machine's loopback that leads to a port of a box.
 *
 * A forward has a thread that accepts, and each connection a worker of a common pool: it dials
 * the box and moves bytes. Both sleep in ctx_wait() with the forward's cancel, so closing it
 * ends all of them at once. A forward ends by itself when its box has: the provider says so,
 * when a connection is dialled or when it is looked after, which costs the box nothing and is
 * no use of it; or boxes.h tells that it was deleted. It stays until it is closed, to tell why.
 *
 * Only this machine can connect, and whoever can on it may: a port is not asked who comes.
 */
#ifndef CORE_FORWARD_H
#define CORE_FORWARD_H

#include <stdint.h>

#include "base/ctx.h"
#include "base/err.h"
#include "base/str.h"

struct box;
struct forward;
struct forwards; /* all of a process */

#define FORWARD_CONNS 64  /* at once, of one forward; more are closed */
#define FORWARDS_MAX  64  /* of a process */
#define FORWARDED_MAX 256 /* connections of all of them */

struct forwards *forwards_new(void);
/* Closes those that are still there. NULL is fine. */
void forwards_free(struct forwards *all);
/* A box has ended or was deleted: its forwards end. As boxes_on_end() wants it. */
void forwards_box_ended(void *arg, struct str id, struct str why);

/* A connection that could not be made: nothing listens there, for one. Called on any thread. */
typedef void forward_problem_fn(void *arg, const struct err *why);

struct forward_req {
    struct box *box;             /* a reference is taken */
    struct str id;               /* what boxes.h knows it by */
    uint16_t port;               /* in the box */
    uint16_t local;              /* here; 0: any that is free */
    forward_problem_fn *problem; /* or NULL */
    void *arg;
};

/* ERR_EXISTS when the local port is taken, ERR_DENIED when we may not have it, ERR_UNSUPPORTED
 * when the provider has no way to ports, ERR_LIMIT. */
struct forward *forward_open(struct forwards *all, const struct forward_req *req, struct err *e)
    MUST_CHECK;
/* Ends its connections, too. */
void forward_close(struct forward *f);
uint16_t forward_local(const struct forward *f);
/* Sleeps until it ends by itself: always -1, with the reason, or as ctx_wait(). */
int forward_wait(struct forward *f, const struct ctx *ctx, struct err *e) MUST_CHECK;

#endif
