/*
 * listen.h - clients that want to be told of changes. A subscription is no call: it holds
 * no thread, only its peer, until the client or we end it.
 */
#ifndef MCP_LISTEN_H
#define MCP_LISTEN_H

#include <jansson.h>

#include "mcp/exchange.h"
#include "tools/tool.h"

#define LISTENERS_MAX 4096 /* of all clients */

/* subscriptions/listen */
void listen_start(const struct exchange *x);
/* resources/subscribe and resources/unsubscribe, up to 2025-11-25 */
void listen_subscribe(const struct exchange *x);
void listen_unsubscribe(const struct exchange *x);

/* The client ends it; nothing more is sent for that id. */
void listen_cancel(struct peer *p, const json_t *id, struct str raw_id);
/* We end all of this peer's, and say so. */
void listen_close(struct peer *p);
/* The same without a word. */
void listen_forget(struct peer *p);

/* For observe.c: each address that somebody subscribed to, and whose. It must not come back
 * here. */
typedef void listen_uri_fn(void *arg, const struct scope *scope, struct str uri);
void listen_each_uri(struct mcp *m, listen_uri_fn *each, void *arg);
/* How it is now: who heard another version before is told. */
void listen_version(struct mcp *m, struct str owner, struct str uri, const char *version);

/* Any thread. */
void listen_publish(struct mcp *m, enum change what, struct str uri);

#endif
