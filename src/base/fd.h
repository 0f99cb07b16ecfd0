/* fd.h - descriptors and whole files. Everything opened here is close-on-exec. */
#ifndef BASE_FD_H
#define BASE_FD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

/* Writes everything, through EINTR, short writes and EAGAIN (waits then). */
int fd_write_all(int fd, struct str bytes, struct err *e) MUST_CHECK;
/* Up to cap bytes; 0 at the end. Retries on EINTR only. */
ssize_t fd_read(int fd, void *to, size_t cap, struct err *e) MUST_CHECK;

/* A whole file, relative to dir (AT_FDCWD: the current folder). ERR_LIMIT when it
 * is longer than max. Works on /proc files, whose size is 0. */
int fd_read_file(int dir, const char *path, size_t max, struct arena *arena, struct str *out,
                 struct err *e) MUST_CHECK;

/* Replaces a file atomically: readers see the old bytes or the new ones. */
int fd_replace_file(int dir, const char *path, struct str bytes, mode_t mode, struct err *e)
    MUST_CHECK;

/* mkdir -p with this mode for what is made. */
int fd_mkdirs(const char *path, mode_t mode, struct err *e) MUST_CHECK;

/* rm -rf below dir, without following links and without leaving the file system.
 * A missing path is success. */
int fd_remove_tree(int dir, const char *path, struct err *e) MUST_CHECK;

int fd_set_nonblock(int fd, bool on, struct err *e) MUST_CHECK;

#endif
