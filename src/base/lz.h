/*
 * lz.h - a small and quick compressor for blocks that travel.
 *
 * Blocks of at most LZ_BLOCK bytes, each on its own. A compressed block is a row of sequences:
 * a byte with two lengths (literals in the upper four bits, match - LZ_MATCH in the lower; 15 means
 * that more length bytes follow, up to one below 255), the literals, and the distance of
 * the match in two bytes, little-endian. The last sequence has literals only.
 *
 * About as dense as the quickest compressors are: source code shrinks to a half. The
 * decompressor takes any bytes, and never reads or writes beyond what it was given.
 */
#ifndef BASE_LZ_H
#define BASE_LZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/str.h"

#define LZ_BLOCK (64u << 10)
#define LZ_MATCH 4 /* bytes of the shortest match */

/* Remembered from block to block only to spare the allocation; begin with zeros. */
struct lz {
    uint16_t at[1u << 13]; /* where these four bytes were seen last */
};

/* Compresses a block. Returns how many bytes of `to` it took; 0: it would not get below `cap`, send
 * it as it is. `cap` is at most the block's length. */
size_t lz_pack(struct lz *z, struct str block, char *to, size_t cap) MUST_CHECK;
/* Returns how many bytes of `to` the block is; -1 when it cannot be read or is larger than cap. */
ssize_t lz_unpack(struct str packed, char *to, size_t cap) MUST_CHECK;

#endif
