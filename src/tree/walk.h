/*
 * walk.h - reads a folder as a sequence of entries.
 *
 * Everything below `root_fd` by openat() without following a link, so that what is renamed
 * meanwhile can lead nowhere else; other file systems below are part of it. A folder or file
 * that cannot be read is told to unreadable() and left out; one that vanished meanwhile is not
 * there. Our own temporary files (tree/apply.h) are never part of a tree.
 *
 * Memory: the names of the folders on the way, and no more.
 */
#ifndef TREE_WALK_H
#define TREE_WALK_H

#include "tree/entry.h"
#include "tree/exclude.h"

struct walk_req {
    int root_fd;
    const struct exclude *exclude; /* NULL: nothing is left out */
    /* Reads .gitignore of each folder on the way. What `exclude` says stands above them, as
     * with git's own --exclude. */
    bool gitignore;
    bool sums;            /* SHA-256 of each file: reads them all */
    uint64_t max_entries; /* ERR_LIMIT beyond; 0: none */
    /* Optional: what could not be read; -1 ends the walk. */
    int (*unreadable)(void *arg, struct str path, int errnum, struct err *e);
    /* Optional: a folder or file that was left out. */
    void (*excluded)(void *arg, struct str path, bool is_dir);
    /* Optional: called for each name that is looked at and while a long file is summed; -1 ends
     * the walk. */
    int (*tick)(void *arg, struct err *e);
    void *arg;
};

/* Sorted; the root (path "") comes first. A file as root is one entry with path "". */
int tree_walk(const struct walk_req *req, tree_entry_fn *each, void *arg, struct err *e) MUST_CHECK;

#endif
