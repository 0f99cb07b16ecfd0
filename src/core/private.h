/*
 * private.h - small secrets in the state folder: files that only we may read.
 *
 * Several processes share the folder. A file is made complete or not at all, and made once:
 * who comes second uses what the first one wrote. A file or folder that others can read or
 * write is refused, not repaired: whoever could read it may have done so.
 */
#ifndef CORE_PRIVATE_H
#define CORE_PRIVATE_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

/* The folder's descriptor; it is made, 0700, when it is not there. -1 is the failure. */
int private_open(struct str state_dir, struct err *e) MUST_CHECK;
/* The whole file, at most max bytes. ERR_NOT_FOUND; ERR_DENIED when it is not private. */
int private_read(int dir, const char *name, size_t max, struct arena *a, struct str *out,
                 struct err *e) MUST_CHECK;
/* ERR_EXISTS: it is there, and stays as it is. */
int private_make(int dir, const char *name, struct str bytes, struct err *e) MUST_CHECK;
/* Whoever changes a file in several steps holds this until the descriptor that it returns is
 * closed; waits for at most some seconds. -1 is the failure. */
int private_lock(int dir, struct err *e) MUST_CHECK;

/* The same for a descriptor that the caller has, until it is closed or unlocked. */
int private_lock_fd(int fd, struct err *e) MUST_CHECK;

#endif
