/*
 * entry.h - a folder as a sequence of entries: what is walked, compared, sent and written.
 *
 * The same code runs on both ends of a sync: in the server for the user's own folder, in
 * boxinit's worker for a folder of a box. Libc only. Paths are relative to the tree's root,
 * bytes and not text: any byte but NUL, components between single '/', none of them empty,
 * "." or "..". The root itself has the path "" and comes first where a sequence has it.
 *
 * Sequences are sorted by tree_path_cmp(): a folder comes directly before what is in it,
 * so that two sequences are compared in one pass and written in order.
 */
#ifndef TREE_ENTRY_H
#define TREE_ENTRY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/str.h"

#define TREE_PATH_MAX 4095 /* bytes of a relative path, and of a link's target */
#define TREE_SUM      32   /* bytes of a SHA-256 */

enum tree_type {
    TREE_FILE = 0,
    TREE_DIR = 1,
    TREE_LINK = 2,
    TREE_OTHER = 3, /* device, fifo, socket: told, never sent nor written */
};

struct tree_entry {
    struct str path;
    enum tree_type type;
    uint32_t mode;     /* 0777 bits only: setuid, setgid and sticky never travel */
    uint64_t size;     /* of a file; else 0 */
    int64_t mtime_ns;  /* since the epoch */
    struct str target; /* of a link, as it stands there */
    /* Of a file that is sent: its contents are right where it goes; only mode and mtime are set. No
     * read(), data() or done() for it. One that is not there is a failure of its own. */
    bool meta_only;
    bool has_sum;
    uint8_t sum[TREE_SUM]; /* of a file's contents, where that was asked for */
};

/* Called with the entries of a sequence in order; a failure ends the walk and is returned. */
typedef int tree_entry_fn(void *arg, const struct tree_entry *entry, struct err *e);

/* What a source holds of a tree. */
enum tree_share {
    TREE_ALL,
    TREE_FOLDERS, /* the folders; the rest follows as a source of its own */
    TREE_FILES,   /* the rest, in order. The folders are there already, so those of different
                   * folders may be written at the same time */
};

/* Entries with their contents, pulled. next() gives 1 and an entry (its strings are good until
 * the next call), 0 at the end, -1. After a file read() gives its bytes: 0 at the end. A
 * file that has changed or vanished since it was listed is the source's to tell: its bytes may be
 * fewer or more than size, and read() may fail for it alone with *skip set. */
struct tree_source {
    int (*next)(void *arg, struct tree_entry *out, struct err *e);
    ssize_t (*read)(void *arg, char *to, size_t cap, bool *skip, struct err *e);
    /* Optional, asked before each read(): so many zero bytes come next (a hole in the file);
     * they are passed over by asking. 0: data, or the end. */
    uint64_t (*hole)(void *arg);
    /* Optional: goes on at this offset of the file, which is not beyond its size. */
    int (*seek)(void *arg, uint64_t offset, struct err *e);
    enum tree_share share;
    void *arg;
};

/* The same, pushed: entry(), for a file any number of data() and hole(), then done(). done() with
 * ok false: the contents could not be had whole and must not be kept. */
struct tree_sink {
    int (*entry)(void *arg, const struct tree_entry *entry, struct err *e);
    int (*data)(void *arg, struct str bytes, struct err *e);
    int (*hole)(void *arg, uint64_t n, struct err *e); /* n zero bytes */
    /* Optional: the next data() or hole() is at this offset of the file. */
    int (*at)(void *arg, uint64_t offset, struct err *e);
    /* Optional, before any contents of a file: they come by others (agent/proto.h). */
    int (*parts)(void *arg, struct err *e);
    int (*done)(void *arg, bool ok, struct str why, struct err *e);
    void *arg;
};

/* Order of sequences: as strcmp() of the paths with '/' below every other byte. */
int tree_path_cmp(struct str a, struct str b);
/* True when it may stand in an entry: see the head of this file. Empty is fine. */
bool tree_path_ok(struct str path);

/* All of an entry but path, target and sum, as the kernel told it. */
void tree_entry_from(struct tree_entry *out, const struct stat *is);
/* Times as entries have them, and back. Those that do not fit are the nearest that do. */
int64_t tree_time_ns(struct timespec t);
struct timespec tree_timespec(int64_t ns);

#endif
