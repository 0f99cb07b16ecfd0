/*
 * demo_client.h - a small MCP client: starts a server on pipes and asks it things, one
 * after another, with a deadline for each. `anybox demo` is its user.
 */
#ifndef DEMO_CLIENT_H
#define DEMO_CLIENT_H

#include <sys/types.h>

#include <jansson.h>

#include "base/buf.h"
#include "base/ctx.h"
#include "base/err.h"
#include "base/str.h"

struct demo_client {
    struct cancel *cancel; /* ends a wait early; or NULL */
    pid_t pid;             /* 0: none */
    int to, from;          /* its stdin and stdout */
    struct buf in;         /* bytes of its stdout that were not used yet */
    int64_t next_id;
};

/* Starts this very executable as a stdio server with `home` as its state folder, in a
 * session of its own. It sees no configuration file. */
int demo_client_start(struct demo_client *c, struct str home, struct err *e) MUST_CHECK;
/* Closes its stdin, waits for it to go, kills it if it does not. Zeroed is fine. */
void demo_client_stop(struct demo_client *c);

/* Deletes every box of a state folder that no server uses any more, also those of calls
 * that were under way when it left. */
void demo_client_clear(struct str home);

/* The "result" of a request (a new reference). An error answer is ERR_PROTOCOL with its
 * message. Takes over `params`. */
json_t *demo_client_ask(struct demo_client *c, const char *method, json_t *params, int64_t limit_ms,
                        struct err *e) MUST_CHECK;
int demo_client_notify(struct demo_client *c, const char *method, struct err *e) MUST_CHECK;
/* tools/call: the JSON in the answer's text block (a new reference), and whether it was
 * marked isError. Takes over `arguments`. */
json_t *demo_client_call(struct demo_client *c, const char *tool, json_t *arguments,
                         int64_t limit_ms, bool *is_error, struct err *e) MUST_CHECK;

#endif
