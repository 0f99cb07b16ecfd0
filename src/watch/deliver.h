/*
 * deliver.h - tells others what happened: a file, a notification, a webhook, a command.
 *
 * Theory of operation. Each event owes deliveries, which are rows in the database until they
 * are done or given up (store/watches.h), so a daemon that is killed owes them still: every
 * event arrives at least once, under the same number. deliver_turn() takes those that are due:
 * files and notifications at once, webhooks and commands on threads of their own, at most
 * DELIVER_THREADS, so that a slow one holds up nobody but its own kind of its own watch: of one
 * watch one webhook and one command are under way at a time, in the order of events as long as
 * none fails. What failed is tried again later and later, for about two days, and holds up none
 * that came after it.
 */
#ifndef WATCH_DELIVER_H
#define WATCH_DELIVER_H

#include "base/ctx.h"
#include "base/err.h"
#include "store/store.h"
#include "watch/state.h"

#define DELIVER_THREADS    8
#define DELIVER_TRIES      60
#define COMMAND_TIMEOUT_MS 300000

struct deliverer;

/* `wake` is called on any thread when one has ended: a turn may have more to do. */
struct deliverer *deliverer_new(struct store *store, struct str state_dir, void (*wake)(void *),
                                void *arg, struct err *e);
/* Ends what is under way: it stays owed. NULL is fine. */
void deliverer_free(struct deliverer *d);

/* What an event of this kind owes, by the wishes of its watch. */
void deliver_owes(const struct watch_order *order, enum watch_event type, struct new_event *out);

/* Starts what is due now. */
int deliver_turn(struct deliverer *d, int64_t now_s, struct err *e) MUST_CHECK;
/* When to try again for the n-th time. */
int64_t deliver_next_s(int64_t tries, int64_t now_s); /* 0: give up */

/* The file of an event: <state>/events/event-<id>.json, 0600. */
struct str deliver_file(struct arena *a, struct str state_dir, int64_t id);

#endif
