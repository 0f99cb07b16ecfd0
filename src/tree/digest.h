/*
 * digest.h - one hash for a whole sequence, to ask "is yours the same?" in a few bytes.
 *
 * Two sequences with the same digest have the same paths, types, modes (but for links), sizes, link
 * targets, sums, and mtimes in whole seconds. The root itself does not count: only what is in
 * it is compared by a sync.
 */
#ifndef TREE_DIGEST_H
#define TREE_DIGEST_H

#include "base/sha256.h"
#include "tree/entry.h"

struct tree_digest {
    struct sha256 hash;
};

void tree_digest_init(struct tree_digest *d);
void tree_digest_add(struct tree_digest *d, const struct tree_entry *entry);
void tree_digest_end(struct tree_digest *d, uint8_t out[TREE_SUM]);

#endif
