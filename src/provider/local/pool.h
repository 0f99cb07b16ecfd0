/*
 * pool.h - blanks in stock, so that a create need not wait for one to be made.
 *
 * What takes long in making a box is known before anybody asks: its namespaces, its file
 * system, and joining its cgroups, which on version 1 waits for a grace period of the
 * kernel. After a create a thread makes blanks for the next ones, twice as many as were
 * asked for so far and at most as many as configured, and ends. A blank that nobody wants
 * for ORDER_WAIT_MS ends by itself; all of them end with this process.
 */
#ifndef PROVIDER_LOCAL_POOL_H
#define PROVIDER_LOCAL_POOL_H

#include "provider/local/blank.h"

struct blank_pool;

struct blank_pool *blank_pool_new(struct local *l, unsigned most);
/* Ends the thread and the blanks. NULL is fine. */
void blank_pool_free(struct blank_pool *p);

/* One for a box without a network and with these limits; NULL: there is none. */
struct blank *blank_pool_take(struct blank_pool *p, const struct limits *limits);
/* Somebody has asked for a box: sees to it that there are blanks for the next one. */
void blank_pool_fill(struct blank_pool *p);
/* Removes those that have ended. */
void blank_pool_prune(struct blank_pool *p);

#endif
