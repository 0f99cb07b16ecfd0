/*
 * landlock.h - a second wall around a box: no abstract unix socket and no process outside.
 *
 * Namespaces keep both away already, but for one case: a box with the host's own network
 * shares the host's abstract sockets, and those have no permissions. Nothing about files
 * is restricted: mounts do that, and a Landlock rule would cost renames and links.
 */
#ifndef BOXINIT_LANDLOCK_H
#define BOXINIT_LANDLOCK_H

#include "base/err.h"

/* The first version with scopes: Linux 6.12. */
#define LANDLOCK_SCOPES 6

/* For this process and all that it starts from now on. Needs no_new_privs.
 * ERR_UNSUPPORTED when this kernel cannot. */
int landlock_scope(struct err *e) MUST_CHECK;

#endif
