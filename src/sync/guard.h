/*
 * guard.h - folders in which nothing is deleted for being too much: what is in them belongs
 * to a person or to a system, not to a copy of something.
 */
#ifndef SYNC_GUARD_H
#define SYNC_GUARD_H

#include "base/err.h"
#include "base/str.h"

struct guard {
    struct str home;      /* of the user on that side; absolute, or empty: not known */
    struct str state_dir; /* ours; empty: not on that side */
};

/* ERR_INVALID with a sentence when delete_extras must not work on this folder: absolute and with
 * links resolved. */
int guard_check(const struct guard *g, struct str folder, struct err *e) MUST_CHECK;
/* The same for a folder of this machine that exists: also the root of a file system. */
int guard_check_here(const struct guard *g, struct str folder, int fd, struct err *e) MUST_CHECK;

#endif
