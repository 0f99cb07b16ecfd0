/*
 * agent_script.h - the words that make a shell run a command's text.
 *
 * "bash -c text" as long as the kernel takes the text as one argument (128 KiB). A
 * longer one is put into a file in the box, and the shell is told to read it; the
 * file's first line removes it, on the line where the text begins, so that line
 * numbers in messages stay right.
 */
#ifndef PROVIDER_AGENT_SCRIPT_H
#define PROVIDER_AGENT_SCRIPT_H

#include "provider/provider.h"

#define COMMAND_BYTES_MAX (2u << 20)
#define SCRIPT_PATH_SIZE  64

struct argv {
    const struct str *words;
    size_t n;
    struct str shell[3];
    char script[SCRIPT_PATH_SIZE]; /* the file in the box; "": none */
};

/* Fills in `out`, which must not be moved afterwards. */
int script_argv(struct box *b, const struct ctx *ctx, const struct exec_req *req, struct argv *out,
                struct err *e) MUST_CHECK;
/* After an exec that failed: the text may not have removed itself. */
void script_remove(struct box *b, const struct ctx *ctx, const struct argv *argv);

#endif
