/*
 * mcp_head.h - what the headers of a POST to /mcp say, and refusals as JSON-RPC errors.
 */
#ifndef SERVE_HTTP_MCP_HEAD_H
#define SERVE_HTTP_MCP_HEAD_H

#include <stdbool.h>

#include "mcp/check.h"
#include "serve/http/request.h"

#define MCP_EVENTS     "text/event-stream"
#define RPC_LEGACY     (-32000) /* what the SDKs answer for the transport's own problems */
#define RPC_NO_SESSION (-32001)

/* Answers with a JSON-RPC error; raw_id is empty where the request cannot be told. */
void mcp_refuse(struct request *r, unsigned status, struct str raw_id, int code, const char *fmt,
                ...) PRINTF_LIKE(5, 6);
void mcp_refuse_with(struct request *r, unsigned status, struct str raw_id,
                     const struct rpc_problem *p);

/* Does the client take events? Only who names them: many that take anything mean JSON. */
bool mcp_takes_events(struct request *r);
/* Does MCP-Protocol-Version name 2026-07-28 or a later day? */
bool mcp_names_modern(struct request *r);

/* Each is true when all is well; else it was refused. */
bool mcp_check_header(struct request *r, const char *name, struct str wanted, struct str raw_id);
bool mcp_check_modern(struct request *r, const struct rpc_msg *msg); /* Mcp-Method, Mcp-Name */
bool mcp_check_legacy(struct request *r, struct str raw_id);         /* the version, if any */

#endif
