/*
 * roots.h - which local folders a sync may touch.
 *
 * A path is allowed when, after every link in it is resolved, it is one of the roots or lies
 * below one; of a path that does not exist yet its nearest existing folder is resolved. The
 * roots are resolved too. Never allowed, whatever the roots say: our own state folder.
 */
#ifndef SYNC_ROOTS_H
#define SYNC_ROOTS_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

struct roots {
    const struct str *paths; /* absolute, as they were given */
    size_t n;
    struct str state_dir;   /* ours: closed */
    struct str config_file; /* where allowed_roots would be added; for the message */
    bool over_http;         /* only sync.allowed_roots count; for the message */
};

/* The absolute path with links resolved, in the arena. `path` may start with "~" (home) and may be
 * relative (to base). ERR_DENIED names the roots there are, and the key and the line to add. */
int roots_resolve(const struct roots *r, struct arena *a, struct str base, struct str home,
                  struct str path, struct str *out, struct err *e) MUST_CHECK;

#endif
