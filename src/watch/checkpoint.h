/*
 * checkpoint.h - how far a task is, by its own word: a file of the box, or what a command says.
 */
#ifndef WATCH_CHECKPOINT_H
#define WATCH_CHECKPOINT_H

#include "base/ctx.h"
#include "provider/provider.h"
#include "store/watches.h"

#define CHECKPOINT_MAX 20000 /* bytes */
#define CHECKPOINT_MS  15000

/* Into w->words.checkpoint_text, in ctx->arena, harmless; a failure is told there in brackets,
 * as remote-sandbox-mcp does. The command runs in the task's working folder. */
void checkpoint_read(struct box *b, const struct ctx *ctx, struct watch_row *w);

/* The same for a caller: at most max bytes. ERR_NOT_FOUND: the watch has neither. */
struct checkpoint {
    struct str text;
    bool from_command;
    struct exec_result result; /* of the command */
    struct str problem;        /* it could not be read; or empty */
};
int checkpoint_ask(struct box *b, const struct ctx *ctx, const struct watch_order *o, size_t max,
                   struct checkpoint *out, struct err *e) MUST_CHECK;

#endif
