/*
 * apply.h - writes a sequence of entries below a folder, whoever sent it.
 *
 * Nothing is written outside the root: each folder on the way is opened by its name in the one
 * above it and never through a link (tree/dirs.h), and a link or a file in the way of a folder is
 * replaced. A file comes into being whole: its bytes go to a temporary name in the same
 * folder (TREE_TEMP_PREFIX and a random part), then mode, mtime, rename. What a broken run
 * leaves are such temporary files only; a later run removes those that it meets in the folders it
 * writes to (nobody holds their lock any more). Zeros become holes. Folders get their mode and
 * mtime when we leave them, so that a read-only one can be filled; a folder that is not itself in
 * the sequence keeps both. Devices, fifos and sockets are refused. Setuid, setgid and
 * sticky bits are never set; on a folder that has them they stay.
 *
 * apply_open(), then as a struct tree_sink, then apply_close(). Sequences in order are written
 * fastest; any order is safe.
 */
#ifndef TREE_APPLY_H
#define TREE_APPLY_H

#include "tree/entry.h"

#define TREE_TEMP_PREFIX ".anybox-sync-"

struct apply;

struct apply_stats {
    uint64_t dirs, files, links; /* made or replaced; folders: made */
    uint64_t bytes;
    uint64_t skipped; /* done(ok=false) and what could not be written for itself alone */
};

struct apply_req {
    int root_fd;
    /* Optional: an entry that could not be written for a reason of its own (EACCES, EISDIR
     * with a folder full of things in the way, a name too long...). NULL: such a reason ends
     * it all. ENOSPC, EDQUOT, EROFS, EIO and want of memory or descriptors always do. */
    int (*failed)(void *arg, struct str path, struct str why, struct err *e);
    /* Optional: others write the contents of this file, of the size that its entry says, into
     * its temporary file of this name (tree_part_open()) before done(). Without a name: the
     * file has failed. NULL: there are no parts. */
    int (*parts)(void *arg, struct str temp, struct err *e);
    void *arg;
};

struct apply *apply_open(const struct apply_req *req);
/* Its entry() takes no root that is a file. */
const struct tree_sink *apply_sink(struct apply *a);
/* May be read at any time until apply_close(). */
const struct apply_stats *apply_stats(const struct apply *a);
/* Finishes the folders, and frees *a. Also after an error, then with `whole` false: the temporary
 * file of an entry under way is removed. */
int apply_close(struct apply *a, bool whole, struct err *e) MUST_CHECK;

/* The temporary file of a file that another one writes (apply_req.parts), for writing: beside
 * where that goes, and reached through no link. -1 with errno. */
int tree_part_open(int root_fd, struct str path, struct str temp);

/* Removes entries below the root; links are removed and not followed; missing is success. A
 * folder is removed only when it is empty then: what the caller did not name stays. Folders that
 * something was removed from keep their mtime. Goes on after a failure and returns the first one
 * at the end. Counts what it removed. */
struct prune_stats {
    uint64_t files, dirs, kept_dirs;
};
struct pruner;
struct pruner *pruner_open(int root_fd);
void pruner_remove(struct pruner *p, struct str path); /* contents before their folder */
/* Frees it. *out is written in any case. */
int pruner_close(struct pruner *p, struct prune_stats *out, struct err *e) MUST_CHECK;

/* All of a sorted list, from its end on. */
int tree_prune(int root_fd, const struct str *paths, size_t n, struct prune_stats *out,
               struct err *e) MUST_CHECK;

#endif
