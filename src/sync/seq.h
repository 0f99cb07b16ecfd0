/*
 * seq.h - a sequence of entries in little memory, written once and read from its beginning.
 *
 * A path is kept as what differs from the path before it, numbers as long as they are: about
 * 30 bytes for a file, whatever its path's length. So two whole trees can be held while
 * they are compared.
 */
#ifndef SYNC_SEQ_H
#define SYNC_SEQ_H

#include "base/buf.h"
#include "tree/entry.h"

#define SEQ_BYTES_MAX ((size_t)1 << 30)

struct seq {
    struct buf bytes;
    uint64_t n;
    size_t last_len;
    char last[TREE_PATH_MAX]; /* path of the newest entry */
};

void seq_init(struct seq *s);
void seq_fini(struct seq *s);
/* Adds an entry with a small number of the caller's (0 to 15). ERR_PROTOCOL when its path cannot
 * be one or does not come after the one before; ERR_LIMIT when there are too many. */
int seq_add(struct seq *s, const struct tree_entry *entry, unsigned tag, struct err *e) MUST_CHECK;

struct seq_reader {
    const struct seq *seq;
    size_t at;
    char path[TREE_PATH_MAX + 1]; /* terminated */
    size_t path_len;
};

void seq_read(struct seq_reader *r, const struct seq *s);
/* False at the end. The entry's strings are good until the next call; its path is terminated.
 * `tag` may be NULL. */
bool seq_next(struct seq_reader *r, struct tree_entry *out, unsigned *tag);

#endif
