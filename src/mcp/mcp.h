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
#include "mcp/rpc.h"

#define MCP_MESSAGE_MAX (1u << 20)  /* what we send, at most */
#define MCP_LINE_MAX    (16u << 20) /* what we accept */
#define MCP_BATCH_MAX   64u         /* messages in a batch */

struct mcp;
struct custom;

struct mcp *mcp_new(const struct services *services, unsigned toolsets);
void mcp_free(struct mcp *m); /* after peer_fini() of all its peers */

/* The tools of the configuration, for who lists them elsewhere; NULL: none. */
const struct custom *mcp_custom(const struct mcp *m);

/* A message that was read, for who has to know what it is before it is taken. */
struct mcp_message {
    struct str text; /* borrowed */
    json_t *json;
    bool batch;         /* an array: the rest is not filled in */
    struct rpc_msg rpc; /* .kind may be RPC_BAD */
};
/* ERR_INVALID when it is no JSON, with a sentence that lacks its full stop. */
int mcp_read(struct mcp_message *m, struct str text, struct err *e) MUST_CHECK;
void mcp_message_fini(struct mcp_message *m); /* a zeroed one is fine */
#define own_message CLEANUP(mcp_message_fini)
/* Serves it, once: a call takes its parameters out of it, to its own thread. */
void mcp_take(struct peer *p, struct mcp_message *m);

/* Both: one message (an object or, for old revisions, a batch). */
void mcp_feed(struct peer *p, const char *text, size_t len);
/* A line that was longer than MCP_LINE_MAX: answers -32600 without id. */
void mcp_feed_too_long(struct peer *p);

#endif
