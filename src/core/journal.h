/*
 * journal.h - what was run in each box through this process, for who wants to look back.
 *
 * In memory only, so that a command costs nothing on disk: the last JOURNAL_BYTES of each box,
 * of the JOURNAL_BOXES that were used last. Texts are plain already (base/plain.h).
 */
#ifndef CORE_JOURNAL_H
#define CORE_JOURNAL_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

#define JOURNAL_BYTES (256u << 10)
#define JOURNAL_BOXES 64

struct journal;

struct journal *journal_new(void);
void journal_free(struct journal *j); /* NULL is fine */

/* `key` is boxes_output_id() of the box. Any thread. */
void journal_add(struct journal *j, struct str key, struct str text);
/* The same in place of all that was there. */
void journal_put(struct journal *j, struct str key, struct str text);
/* At most the last `lines`, appended; nothing of a box that is not known. */
void journal_tail(struct journal *j, struct str key, size_t lines, struct buf *to);
/* Grows with every journal_add() of the box; 0: none so far. */
uint64_t journal_count(struct journal *j, struct str key);

#endif
