/*
 * dirs.h - where we are below a root: the folders on the way, opened one from the other.
 *
 * A folder is only ever opened by its single name in the folder above it, and never when that
 * name is a link: so whatever is renamed or put in the way meanwhile, we stay below the root. Of a
 * way deeper than DIRS_OPEN folders the upper descriptors are closed and opened again, in the
 * same manner, when we come back.
 */
#ifndef TREE_DIRS_H
#define TREE_DIRS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/str.h"

#define DIRS_OPEN 64 /* descriptors at once, besides the root's */
#define DIRS_NAME 256

struct dir_level {
    int fd; /* -1: closed for the time being */
    size_t path_len;
    bool touched; /* something in it was changed: .mode and .mtime are from before */
    bool loosened;
    bool made; /* by us: its time is nobody's */
    mode_t mode;
    struct timespec mtime;
};

struct dirs {
    int root_fd;              /* the caller's */
    struct buf path;          /* of the lowest folder; "" the root */
    struct dir_level *levels; /* [0] is the root */
    size_t n, cap;
};

void dirs_init(struct dirs *d, int root_fd);
void dirs_fini(struct dirs *d); /* leaves all of them */

struct str dirs_path(const struct dirs *d);
struct dir_level *dirs_top(struct dirs *d);
/* The lowest folder's descriptor; good until the next call. -1 with errno. */
int dirs_fd(struct dirs *d);
/* Goes into a folder of the lowest one. -1 with errno: ENOTDIR for anything but a folder. */
int dirs_enter(struct dirs *d, struct str name);
/* The same along a path from the root, as far up and down as needed. -1 with errno; we
 * are somewhere on the way then. */
int dirs_go(struct dirs *d, struct str path);
/* Back up. A folder that was touched gets back the time and the rights it had. */
void dirs_leave(struct dirs *d);
/* Leaves all that is not on the way to `path`. */
void dirs_leave_to(struct dirs *d, struct str path);
/* Before something in the lowest folder is changed: notes its time, and makes it writable for
 * us where it is our own and is not. -1 with errno. */
int dirs_touch(struct dirs *d);

/* A terminated copy of a name. NULL with errno when it is none or too long. */
const char *dirs_name(struct str name, char to[DIRS_NAME]);

/* Each name in a folder but "." and "..", in the kernel's order; 0, or -1 with errno. Stops when
 * the function returns false. */
typedef bool dirs_name_fn(void *arg, const char *name);
int dirs_each_name(int fd, dirs_name_fn *each, void *arg);

#endif
