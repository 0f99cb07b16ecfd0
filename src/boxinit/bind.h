/* bind.h - show a piece of one tree at another place. */
#ifndef BOXINIT_BIND_H
#define BOXINIT_BIND_H

#include <stdbool.h>
#include <sys/stat.h>

#include "base/err.h"

enum bind_flags {
    BIND_RDONLY = 1 << 0,
    BIND_NODEV = 1 << 1,
    BIND_NOEXEC = 1 << 2,
}; /* always without set-uid */

/* Shows what `from` (O_PATH) stands for, with all mounts below it, at `to`, which is
 * there already and of the same kind. The flags hold for the mounts below as well. */
int bind_tree(int from, const char *to, unsigned flags, struct err *e) MUST_CHECK;
/* Sets the flags on the mount at `path` and all mounts below it. */
int bind_protect(const char *path, unsigned flags, struct err *e) MUST_CHECK;
/* The same for kernels before 5.12, which cannot set flags on a whole tree at once. */
int bind_tree_old(int from, const char *to, unsigned flags, struct err *e) MUST_CHECK;
/* A folder to mount something at; it may be there already. */
int bind_make_dir(const char *path, mode_t mode, struct err *e) MUST_CHECK;

#endif
