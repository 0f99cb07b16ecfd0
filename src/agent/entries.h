/*
 * entries.h - a sequence of entries, with or without contents, as it travels.
 *
 * A row of items, packed into blocks of at most ENTRIES_BLOCK bytes; an item never lies in two
 * blocks, contents are cut into as many items as needed. Numbers are varints (seven bits a
 * byte, lowest first); Z: zigzag, for numbers with a sign.
 *
 *      entry   tag ENTRY and bits: type, sum, meta_only, same mode as the entry before
 *              how many bytes of the path before it begin with, how many follow, these
 *              mode, unless it is the same; size of a file
 *              Z(seconds since the mtime before) * 2 + 1 when nanoseconds follow, these
 *              a link's target: length, bytes;  the sum: 32 bytes
 *      data    tag DATA, length, bytes
 *      hole    tag HOLE, length
 *      done    tag DONE
 *      failed  tag FAILED, length, why
 *      parts   tag PARTS: the contents travel elsewhere; "done" or "failed" follows. Said again it
 *              only tells that somebody is at it
 *
 * So a file of a listing costs about a dozen bytes and many small files share a block. Blocks may be compressed one by one
 * (base/lz.h), where the link is slower than that.
 *
 * The reader trusts nothing: paths, their order, lengths, what may follow what.
 */
#ifndef AGENT_ENTRIES_H
#define AGENT_ENTRIES_H

#include "base/buf.h"
#include "base/lz.h"
#include "tree/entry.h"

#define ENTRIES_BLOCK LZ_BLOCK
#define ENTRIES_WHY   300 /* bytes of why a file failed that travel */

/* ---- writing ------------------------------------------------------------------------ */

struct entries_out {
    /* Sends a block: as it is, or packed, then with the length it has unpacked (else 0). */
    int (*send)(void *arg, struct str block, uint32_t unpacked, struct err *e);
    void *arg;
    bool whole_seconds; /* mtimes without their nanoseconds */
    /* the rest is private */
    struct lz *lz;
    char *packed;
    struct buf block;
    char last[TREE_PATH_MAX];
    size_t last_len;
    uint32_t mode;
    int64_t seconds;
};

/* `compress`: blocks that get smaller by it are packed. */
void entries_out_init(struct entries_out *o, bool compress,
                      int (*send)(void *arg, struct str block, uint32_t unpacked, struct err *e),
                      void *arg);
void entries_out_fini(struct entries_out *o);
/* A sink: entries, contents. Blocks are sent when they are full. */
struct tree_sink entries_sink(struct entries_out *o);
/* Only a path: what entries_in gives back is a file without anything. */
int entries_put_path(struct entries_out *o, struct str path, struct err *e) MUST_CHECK;
/* Room for contents right in the block, which spares a copy: at least 1 byte. The caller fills in
 * some of it and says how much. */
int entries_room(struct entries_out *o, char **to, size_t *cap, struct err *e) MUST_CHECK;
void entries_filled(struct entries_out *o, size_t n);
int entries_put_parts(struct entries_out *o, struct err *e) MUST_CHECK;
int entries_flush(struct entries_out *o, struct err *e) MUST_CHECK; /* sends what is there */

/* ---- reading ------------------------------------------------------------------------- */

struct entries_in {
    bool any_order; /* paths need not increase */
    bool list_only; /* entries without contents */
    bool sized;     /* contents are as long as the entry says; a shorter file has failed */
    /* the rest is private */
    char path[TREE_PATH_MAX + 1];
    size_t path_len;
    bool any;
    uint32_t mode;
    int64_t seconds;
    bool in_file, in_parts;
    uint64_t left; /* of the file's size */
    char *unpacked;
};

void entries_in_init(struct entries_in *i);
void entries_in_fini(struct entries_in *i);
/* Gives what a block says to the sink; of a listing only entry() is called. ERR_PROTOCOL for
 * a block that cannot be right; else the sink's own error. The entry's path is terminated. */
int entries_read(struct entries_in *i, struct str block, uint32_t unpacked,
                 const struct tree_sink *to, struct err *e) MUST_CHECK;
/* The sequence ends here: ERR_PROTOCOL in the middle of a file. */
int entries_end(const struct entries_in *i, struct err *e) MUST_CHECK;

#endif
