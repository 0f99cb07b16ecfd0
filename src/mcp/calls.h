/*
 * calls.h - calls under way: started here, found again by their id, ended by a result or
 * by the client's notifications/cancelled.
 */
#ifndef MCP_CALLS_H
#define MCP_CALLS_H

#include <jansson.h>

#include "mcp/exchange.h"
#include "mcp/running.h"

/* Runs the job on a thread of services->calls with the request's parameters, which are
 * taken out of the message; it answers by itself. `label` is for the log. */
void calls_start(const struct exchange *x, const struct job *job, const void *row,
                 const char *label);

/* The client takes a request back: its command is killed and nothing more is sent for
 * that id. Ids are unique among requests in flight; a client that used one twice takes
 * both back. An id that nothing runs under is ignored. */
void calls_cancel(struct peer *p, const json_t *id, struct str raw_id);
/* All of them, because we are leaving: they still answer. */
void calls_cancel_all(struct peer *p);

/* tool_job.c: tools/call; the row is a struct tool. */
extern const struct job tool_job;

#endif
