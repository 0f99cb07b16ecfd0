/*
 * check.h - what the modern era demands of every request, step by step: a transport with
 * headers has checks of its own between these. mcp_take() makes all of them again.
 */
#ifndef MCP_CHECK_H
#define MCP_CHECK_H

#include <stdbool.h>

#include "base/buf.h"
#include "mcp/rpc.h"

struct rpc_problem {
    int code; /* enum rpc_code */
    char message[512];
    struct buf data; /* JSON text, or empty */
};
#define own_problem CLEANUP(rpc_problem_fini)
void rpc_problem_fini(struct rpc_problem *p);

/* Each is true when all is well. The problem starts zeroed. */
bool check_meta(const struct rpc_msg *msg, struct rpc_problem *out);    /* what must be there */
bool check_version(const struct rpc_msg *msg, struct rpc_problem *out); /* that we speak it */
/* Is there a method of this name, in this era? */
bool check_method(struct str name, bool modern);

/* Is a request modern: by its claim, or by a method that only that era has. */
bool check_is_modern(const struct rpc_msg *msg);

#endif
