/*
 * checkpoint.h - how far a task is, by its own word: a file of the box, or what a command says.
 */
#ifndef WATCH_CHECKPOINT_H
#define WATCH_CHECKPOINT_H

#include "base/ctx.h"
#include "core/task.h"
#include "provider/provider.h"
#include "store/watches.h"

#define CHECKPOINT_MAX TASK_CHECK_MAX
#define CHECKPOINT_MS  15000

/* Asks for it in a look at the task, which many watches share. One that is too long for that is asked for
 * alone by checkpoint_take(). The command runs in the task's working folder. */
void checkpoint_want(const struct watch_order *o, struct task_want *out);
/* What the look found, into w->words.checkpoint_text, in ctx->arena, harmless; a failure is told
 * there in brackets, as remote-sandbox-mcp does. */
void checkpoint_take(struct box *b, const struct ctx *ctx, struct watch_row *w,
                     const struct task_seen *seen);

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
