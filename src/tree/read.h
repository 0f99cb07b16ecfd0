/*
 * read.h - reads files of a tree, one after another, with their holes.
 *
 * No link is followed on the way to a file (tree/dirs.h). Paths may come in any order; in that of
 * a sequence each folder is opened once.
 */
#ifndef TREE_READ_H
#define TREE_READ_H

#include "tree/entry.h"

struct tree_reader;

struct tree_reader *tree_reader_new(int root_fd); /* borrowed */
void tree_reader_free(struct tree_reader *r);     /* NULL is fine */

/* Looks at an entry and opens it when it is a file. The path in *out is the given one, a link's
 * target is good until the next open. A root that is a file has the path "". ERR_NOT_FOUND when
 * it is gone (also when something on the way is no folder any more). */
int tree_reader_open(struct tree_reader *r, struct str path, struct tree_entry *out, struct err *e)
    MUST_CHECK;
/* Of the file that was opened last: as in struct tree_source. */
ssize_t tree_reader_read(struct tree_reader *r, char *to, size_t cap, struct err *e) MUST_CHECK;
uint64_t tree_reader_hole(struct tree_reader *r);
void tree_reader_seek(struct tree_reader *r, uint64_t offset);

#endif
