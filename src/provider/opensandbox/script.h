/*
 * script.h - the texts that execd's shell is given. Pure, but for what is read of a source.
 *
 * Around a command stands a script that prints a mark at the end of each stream, so that it is
 * known whether the last line was ended (stream.h), and that keeps what the command printed when
 * it is left (exec_req.keep). The command itself runs in that same shell, by eval: nothing of it
 * costs a process. A command that replaces its shell (exec) or sets traps would take the script's
 * end with it: it runs as kept.h has it, below a shell of its own. So does each where the sandbox
 * has no bash.
 */
#ifndef PROVIDER_OPENSANDBOX_SCRIPT_H
#define PROVIDER_OPENSANDBOX_SCRIPT_H

#include "base/buf.h"
#include "base/ctx.h"
#include "provider/feed.h"
#include "provider/provider.h"
#include "provider/shell.h"

#define SCRIPT_MAX  SHELL_TEXT_MAX
#define INLINE_MAX  FEED_MAX     /* bytes that travel in a script */
#define SCRIPT_MARK 33           /* with its terminator */
#define SCRIPT_RUN  "ANYBOX_RUN" /* the variable that has the mark */

struct script_req {
    const struct exec_req *req;
    const char *mark; /* hex digits */
    struct str cwd;   /* absolute */
    struct str input; /* a file that stdin is read from, and that is removed; or empty */
    struct str small; /* bytes of stdin, with has_small; at most INLINE_MAX */
    bool has_small;
    bool has_bash;
};

/* ERR_LIMIT: too long; ERR_INVALID: a NUL. */
int script_build(const struct script_req *s, struct buf *out, struct err *e) MUST_CHECK;
/* Leaves the command with this mark to itself: status 0 when it goes on and is kept. */
void script_leave(const struct exec_req *req, const char *mark, struct str cwd, struct buf *out);
/* Removes what was kept. */
void script_tidy(struct str id, struct buf *out);
/* Gives the files that the command with this mark prints to a second name each, beside the first,
 * and prints these: status 0, or it does not run any more. */
void script_hold(const char *mark, struct buf *out);
/* Ends all that carries this mark in its environment, in whatever group. */
void script_kill(const char *mark, struct buf *out);

/* Bytes as base64 of the common alphabet. */
void script_add_base64(struct buf *out, struct str bytes);
/* Adds "base64 -d" of them, a command with its text. */
void script_add_bytes(struct buf *out, struct str bytes);

#endif
