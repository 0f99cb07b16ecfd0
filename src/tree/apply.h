/*
 * apply.h - writes a sequence of entries below a folder, whoever sent it.
 *
 * Nothing is written outside the root: each folder on the way is opened beneath it without
 * following links (openat2 where the kernel has it), a link in the way of a folder or a file is
 * replaced and never followed. A file comes into being whole: its bytes go to a temporary name
 * in the same folder (TREE_TEMP_PREFIX + random), then mode, mtime, rename. What a broken run
 * leaves are such temporary files only; apply_open() removes stale ones it meets. Folders get
 * their mode and mtime at the end, so that a read-only one can be filled. Devices, fifos and
 * sockets are refused. Setuid, setgid and sticky bits are never set.
 *
 * apply_open(), then as a struct tree_sink, then apply_close().
 */
#ifndef TREE_APPLY_H
#define TREE_APPLY_H

#include "tree/entry.h"

#define TREE_TEMP_PREFIX ".anybox-sync-"

struct apply;

struct apply_stats {
    uint64_t dirs, files, links; /* made or replaced */
    uint64_t bytes;
    uint64_t skipped; /* done(ok=false) and what could not be written for itself alone */
};

struct apply_req {
    int root_fd;
    /* Optional: an entry that could not be written for a reason of its own (EACCES, EISDIR
     * with a folder full of things in the way, a name too long...). NULL: such a reason ends
     * it all. ENOSPC, EDQUOT, EROFS and EIO always do. */
    int (*failed)(void *arg, struct str path, struct str why, struct err *e);
    void *arg;
};

/* NULL with an error. The stats may be read at any time until apply_close(). */
struct apply *apply_open(const struct apply_req *req, struct err *e);
const struct tree_sink *apply_sink(struct apply *a);
const struct apply_stats *apply_stats(const struct apply *a);
/* Finishes the folders. Also after an error, then with `whole` false: the temporary file of
 * an entry under way is removed. */
int apply_close(struct apply *a, bool whole, struct err *e) MUST_CHECK;

/* Removes entries below the root, deepest last in `paths` order reversed; links are removed and
 * not followed; missing is success. A folder is removed only when it is empty then: what the
 * caller did not name stays. Counts what it removed. */
struct prune_stats {
    uint64_t files, dirs, kept_dirs;
};
int tree_prune(int root_fd, const struct str *paths, size_t n, struct prune_stats *out,
               struct err *e) MUST_CHECK;

#endif
