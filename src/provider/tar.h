/*
 * tar.h - tar archives as a sequence of entries: just what GNU tar writes and reads.
 *
 * Written is ustar with pax records where a name, a link or a size does not fit, mtimes in whole
 * seconds. Read are ustar, pax records and GNU's long names; the bytes come from a host that is
 * not trusted, so every number is checked and nothing is taken on faith but the order.
 */
#ifndef PROVIDER_TAR_H
#define PROVIDER_TAR_H

#include "base/buf.h"
#include "tree/entry.h"

#define TAR_BLOCK    512
#define TAR_RECORD   10240       /* archives end at a multiple of this */
#define TAR_META_MAX (64u << 10) /* pax records or a long name of one entry */

/* Adds the header of an entry; contents and tar_pad() follow where it is a file. */
void tar_put(struct buf *to, const struct tree_entry *entry);
/* Zeros up to the end of a block, after contents of this size. */
void tar_pad(struct buf *to, uint64_t size);
/* The end, after so many bytes of archive. */
void tar_end(struct buf *to, uint64_t total);

enum tar_state {
    TAR_HEADER,
    TAR_META, /* of the entry that follows */
    TAR_BODY, /* contents */
    TAR_SKIP, /* contents that nobody wants */
    TAR_PAD,
    TAR_DONE,
};

struct tar_in {
    enum tar_state state;
    char block[TAR_BLOCK];
    size_t have;   /* of block */
    uint64_t left; /* of contents or meta */
    size_t pad;    /* behind them */
    char meta_type;
    struct buf meta;
    /* What was told about the entry that follows. */
    struct buf path, target;
    bool has_size, has_mtime, is_file;
    uint64_t size;
    int64_t mtime_ns;
};

void tar_in_init(struct tar_in *t);
void tar_in_fini(struct tar_in *t);
/* Gives what these bytes say to the sink. Paths are without "./" at their start and '/' at their end,
 * and checked. ERR_PROTOCOL for what can be no archive. */
int tar_read(struct tar_in *t, struct str bytes, const struct tree_sink *to, struct err *e)
    MUST_CHECK;
bool tar_is_done(const struct tar_in *t); /* the archive has ended as it should */

#endif
