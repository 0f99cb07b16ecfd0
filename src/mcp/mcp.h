/*
 * mcp.h - the protocol, without a transport: one message in, answers through the
 * peer. Each message is classified on its own (a claim of 2026-07-28 in _meta makes
 * it modern, else it is legacy), so one connection may carry both eras.
 *
 * Quick methods (initialize, ping, lists, discover, cancel) are answered on the
 * calling thread; tools/call runs on a thread of services->calls.
 */
#ifndef MCP_MCP_H
#define MCP_MCP_H

#include "base/err.h"
#include "base/str.h"
#include "core/services.h"
#include "mcp/peer.h"

#define MCP_MESSAGE_MAX (1u << 20)  /* what we send, at most */
#define MCP_LINE_MAX    (16u << 20) /* what we accept */
#define MCP_BATCH_MAX   64u         /* messages in a batch */

struct mcp;

struct mcp *mcp_new(const struct services *services, unsigned toolsets);
void mcp_free(struct mcp *m);

/* One message (an object or, for old revisions, a batch). */
void mcp_feed(struct peer *p, const char *text, size_t len);
/* A line that was longer than MCP_LINE_MAX: answers -32600 without id. */
void mcp_feed_too_long(struct peer *p);

#endif
