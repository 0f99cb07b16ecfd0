/*
 * sha256.h - SHA-256 and HMAC-SHA256 (FIPS 180-4, RFC 2104), and the comparison that
 * goes with them. For signed texts, hashed keys and the audit log's chain: short inputs,
 * so it is plain C without the processor's own instructions.
 */
#ifndef BASE_SHA256_H
#define BASE_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

#define SHA256_SIZE     32
#define SHA256_HEX_SIZE (2 * SHA256_SIZE + 1)
#define SHA256_BLOCK    64

struct sha256 {
    uint32_t state[8];
    uint64_t n_bytes;
    unsigned char block[SHA256_BLOCK];
};

void sha256_init(struct sha256 *h);
void sha256_add(struct sha256 *h, struct str bytes);
void sha256_end(struct sha256 *h, unsigned char out[SHA256_SIZE]); /* wipes *h */

/* All at once. */
void sha256_of(struct str bytes, unsigned char out[SHA256_SIZE]);
/* 64 lower-case digits and a terminator. Returns `to`. */
const char *sha256_hex(const unsigned char hash[SHA256_SIZE], char to[SHA256_HEX_SIZE]);

struct hmac256 {
    struct sha256 inner, outer;
};

void hmac256_init(struct hmac256 *m, struct str key);
void hmac256_add(struct hmac256 *m, struct str bytes);
void hmac256_end(struct hmac256 *m, unsigned char out[SHA256_SIZE]); /* wipes *m */

/* Are the n bytes the same? It takes as long for any bytes of this length. */
bool secret_eq(const void *a, const void *b, size_t n);

#endif
