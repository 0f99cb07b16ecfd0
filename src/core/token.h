/*
 * token.h - signed texts: what we hand to a client and want back unchanged.
 *
 * A text carries its payload in the open (signed, not hidden), the time of its end and a
 * code (HMAC-SHA256, 128 bits of it) over both and over the kind, so that a file link can
 * not be passed for a session. Every process of the same state folder reads every other's
 * texts, also after a restart: the key is the file `token_key` there, made on first use.
 */
#ifndef CORE_TOKEN_H
#define CORE_TOKEN_H

#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/sha256.h"
#include "base/str.h"

enum token_kind {                    /* the numbers are signed: new kinds go at the end */
                  TOKEN_SESSION = 1, /* Mcp-Session-Id */
                  TOKEN_FILE,        /* a link to a file of a box */
                  TOKEN_REQUEST,     /* requestState of a call that asks the client something */
};

#define TOKEN_PAYLOAD_MAX 2048
#define TOKEN_TEXT_MAX    ((TOKEN_PAYLOAD_MAX + 22) * 4 / 3 + 2) /* of token_make() */

struct tokens;

/* Remembers the folder; touches nothing before the first text. Any thread may use it. */
struct tokens *tokens_new(struct str state_dir);
void tokens_free(struct tokens *t);

/* Reads the key, or makes it, so that nothing below fails for want of it. */
int tokens_ready(struct tokens *t, struct err *e) MUST_CHECK;
/* Appends a text of letters, digits, '-' and '_', good until the wall clock says expires_ms
 * (whole seconds, rounded up). */
int token_make(struct tokens *t, enum token_kind kind, struct str payload, int64_t expires_ms,
               struct buf *out, struct err *e) MUST_CHECK;
/* The payload, in the arena. ERR_DENIED: not one of ours, of another kind, or changed.
 * ERR_GONE: it was good, and has expired. */
int token_read(struct tokens *t, enum token_kind kind, struct str text, struct arena *a,
               struct str *payload, struct err *e) MUST_CHECK;

/* Begins a digest for logs, to hmac256_add() and hmac256_end(): who does not have the key
 * learns nothing from it, not even about bytes that can be guessed. */
int token_digest(struct tokens *t, struct hmac256 *m, struct err *e) MUST_CHECK;

#endif
