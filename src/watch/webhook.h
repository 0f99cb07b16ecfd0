/*
 * webhook.h - POSTs an event to a URL of the user's, signed.
 *
 * Headers: X-Anybox-Event (its type), X-Anybox-Delivery (the event's number, the same at every
 * try: who has seen it drops it), X-Anybox-Timestamp (unix seconds), X-Anybox-Signature:
 * "sha256=" and the HMAC-SHA256 in hex, by the key in the file `webhook_key` of the state
 * folder, of the timestamp, a dot and the body. Redirections are not followed.
 */
#ifndef WATCH_WEBHOOK_H
#define WATCH_WEBHOOK_H

#include "base/ctx.h"
#include "base/err.h"
#include "store/watches.h"

#define WEBHOOK_TIMEOUT_MS 15000

/* The key as text, made on first use; in the arena. */
int webhook_key(struct str state_dir, struct arena *a, struct str *out, struct err *e) MUST_CHECK;
/* 0 when it was taken (a status of 200 to 299). *forever: trying again cannot help. Obeys ctx and
 * WEBHOOK_TIMEOUT_MS, whichever ends first. */
int webhook_post(const struct ctx *ctx, struct str key, struct str url,
                 const struct watch_event_row *event, bool *forever, struct err *e) MUST_CHECK;

#endif
