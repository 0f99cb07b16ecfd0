/*
 * kept.h - the text of a command that is kept (exec_req.keep), for a shell without an agent.
 *
 * The command runs below a shell that stays to tell how it ended. What it prints goes through
 * `tee` into files of a folder as core/task.h describes it, and to whoever is there.
 */
#ifndef PROVIDER_KEPT_H
#define PROVIDER_KEPT_H

#include "base/buf.h"
#include "provider/provider.h"

/* Where the shell that runs this is bash, so is the command's. */
#define KEPT_BASH "bash --norc"

bool kept_is_id(struct str id);           /* of digits that may be in a path */
struct str kept_head(struct str command); /* at most 120 bytes of it on one line */
/* Adds the whole command to a script in sh; nothing can follow. */
void kept_add(struct buf *script, const struct exec_req *req);

#endif
