/*
 * state.h - requestState: what we need to know when a client comes back with its answers,
 * kept by the client and signed by us, so that nothing is held for one that never does.
 *
 * The client may read it: there is nothing in it that it did not say or was not told.
 */
#ifndef MCP_STATE_H
#define MCP_STATE_H

#include <jansson.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/sha256.h"
#include "base/str.h"
#include "core/token.h"

#define STATE_LIFETIME_MS 900000

/* Whom and what a state is good for: the same owner, method and parameters, in any order
 * of their members. */
void state_bind(struct str owner, struct str method, json_t *params,
                unsigned char out[SHA256_SIZE]);

/* Appends the text. ERR_LIMIT: there is too much in it. */
int state_seal(struct tokens *tokens, const unsigned char bound[SHA256_SIZE], const json_t *state,
               struct buf *out, struct err *e) MUST_CHECK;
/* A new reference; NULL with ERR_INVALID: it is not ours, was changed, or was given for
 * another request; ERR_GONE: it was, but is too old. */
json_t *state_open(struct tokens *tokens, const unsigned char bound[SHA256_SIZE], struct str text,
                   struct arena *a, struct err *e) MUST_CHECK;

#endif
