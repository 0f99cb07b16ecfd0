/*
 * round.h - looks at the watches that are due, sandbox by sandbox.
 *
 * Theory of operation. rounds_turn() reads which watches are due and gives those of each sandbox
 * to a thread: all of a sandbox in one exchange (core/task.h), sandboxes side by side, so that a
 * dead host delays nobody else. A sandbox that is still being looked at is left out; `wake` is called when
 * it is done. What follows from a look (state.h) is stored in one transaction before anything
 * else happens. A resume is an attempt that is stored first, with the id of the run that it
 * will have; whether it may be made is decided on the machine where the task runs, under the
 * lock of the task's name (task_order.after): of two watchdogs one starts it, and a task that
 * runs or has ended is not started at all.
 */
#ifndef WATCH_ROUND_H
#define WATCH_ROUND_H

#include "base/err.h"
#include "core/services.h"

#define ROUND_THREADS 16
#define ROUND_MAX     1000 /* watches that one turn takes up */

struct rounds;

struct rounds *rounds_new(const struct services *services, void (*wake)(void *), void *arg,
                          struct err *e);
void rounds_free(struct rounds *r); /* cancels what is under way; NULL is fine */

/* *n: how many watches were due and could be taken up. */
int rounds_turn(struct rounds *r, int64_t now_s, int *n, struct err *e) MUST_CHECK;

#endif
