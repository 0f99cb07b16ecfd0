/*
 * observe.h - looks at the resources that clients subscribed to, and tells those clients when
 * one is not as it was (struct resource.version). One thread, which sleeps while nobody has
 * subscribed to any.
 */
#ifndef MCP_OBSERVE_H
#define MCP_OBSERVE_H

#include "base/str.h"
#include "core/boxes.h"

#define OBSERVE_MS 1000 /* between two looks */

struct mcp;
struct observer;

struct observer *observer_new(struct mcp *m);
/* Ends a look that is under way. NULL is fine. */
void observer_free(struct observer *o);
/* Somebody subscribed. */
void observer_wake(struct observer *o);

/* How it is now, as far as that is known at once, to free(); NULL: it is not known. */
char *observe_now(struct mcp *m, const struct scope *scope, struct str uri);

#endif
