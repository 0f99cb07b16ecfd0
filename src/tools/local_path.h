/*
 * local_path.h - paths of this machine in arguments, and whether they may be used.
 *
 * Allowed are the folder that we were started in (unless it is / or a home), the folders that the
 * client says it works in (MCP roots; asked for only when a path is in none of the others), and
 * sync.allowed_roots; over HTTP only the latter. See sync/roots.h.
 */
#ifndef TOOLS_LOCAL_PATH_H
#define TOOLS_LOCAL_PATH_H

#include "tools/tool.h"

/* The absolute path with links resolved, in the call's arena; a '/' at its end stays there. *later
 * becomes true when the client has to be asked first (ASK_LATER): run() returns 0 at once then. */
int local_path(struct call *c, struct str typed, struct str *out, bool *later, struct err *e)
    MUST_CHECK;

/* "/a b" of "file:///a%20b"; false for anything that is no such address. In the arena. */
bool local_path_of_uri(struct arena *a, struct str uri, struct str *out);

#endif
