#include "base/sha256.h"

#include <string.h>

static const uint32_t k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate(uint32_t v, unsigned n)
{
    return (v >> n) | (v << (32 - n));
}

static uint32_t load(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | (uint32_t)p[3];
}

static void store(unsigned char *to, uint32_t v)
{
    for (unsigned i = 0; i < 4; i++) {
        to[i] = (unsigned char)(v >> (24 - 8 * i));
    }
}

static void expand(uint32_t w[64], const unsigned char *block)
{
    for (size_t i = 0; i < 16; i++) {
        w[i] = load(block + 4 * i);
    }
    for (size_t i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        uint32_t s0 = rotate(a, 7) ^ rotate(a, 18) ^ (a >> 3);
        uint32_t s1 = rotate(b, 17) ^ rotate(b, 19) ^ (b >> 10);

        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
}

static void mix(uint32_t state[8], const unsigned char *block)
{
    uint32_t w[64], v[8];

    expand(w, block);
    memcpy(v, state, sizeof(v));
    for (size_t i = 0; i < 64; i++) {
        uint32_t s1 = rotate(v[4], 6) ^ rotate(v[4], 11) ^ rotate(v[4], 25);
        uint32_t choice = (v[4] & v[5]) ^ (~v[4] & v[6]);
        uint32_t t1 = v[7] + s1 + choice + k[i] + w[i];
        uint32_t s0 = rotate(v[0], 2) ^ rotate(v[0], 13) ^ rotate(v[0], 22);
        uint32_t majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);

        memmove(v + 1, v, 7 * sizeof(v[0]));
        v[4] += t1;
        v[0] = t1 + s0 + majority;
    }
    for (size_t i = 0; i < 8; i++) {
        state[i] += v[i];
    }
}

void sha256_init(struct sha256 *h)
{
    static const uint32_t start[8] = {
        0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
    };

    *h = (struct sha256){0};
    memcpy(h->state, start, sizeof(start));
}

void sha256_add(struct sha256 *h, struct str bytes)
{
    size_t used = (size_t)(h->n_bytes % SHA256_BLOCK);

    h->n_bytes += bytes.len;
    while (bytes.len > 0) {
        size_t n = SHA256_BLOCK - used < bytes.len ? SHA256_BLOCK - used : bytes.len;

        memcpy(h->block + used, bytes.p, n);
        bytes = str_skip(bytes, n);
        used += n;
        if (used == SHA256_BLOCK) {
            mix(h->state, h->block);
            used = 0;
        }
    }
}

void sha256_end(struct sha256 *h, unsigned char out[SHA256_SIZE])
{
    static const char pad[SHA256_BLOCK] = {(char)0x80};
    uint64_t bits = h->n_bytes * 8;
    size_t used = (size_t)(h->n_bytes % SHA256_BLOCK);
    unsigned char length[8];

    store(length, (uint32_t)(bits >> 32));
    store(length + 4, (uint32_t)bits);
    sha256_add(h, (struct str){pad, used < 56 ? 56 - used : 120 - used});
    sha256_add(h, (struct str){(const char *)length, sizeof(length)});
    for (size_t i = 0; i < 8; i++) {
        store(out + 4 * i, h->state[i]);
    }
    explicit_bzero(h, sizeof(*h));
}

void sha256_of(struct str bytes, unsigned char out[SHA256_SIZE])
{
    struct sha256 h;

    sha256_init(&h);
    sha256_add(&h, bytes);
    sha256_end(&h, out);
}

const char *sha256_hex(const unsigned char hash[SHA256_SIZE], char to[SHA256_HEX_SIZE])
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < SHA256_SIZE; i++) {
        to[2 * i] = digits[hash[i] >> 4];
        to[2 * i + 1] = digits[hash[i] & 15];
    }
    to[SHA256_HEX_SIZE - 1] = '\0';
    return to;
}

static void start_padded(struct sha256 *h, const unsigned char key[SHA256_BLOCK], unsigned char pad)
{
    unsigned char block[SHA256_BLOCK];

    for (size_t i = 0; i < sizeof(block); i++) {
        block[i] = key[i] ^ pad;
    }
    sha256_init(h);
    sha256_add(h, (struct str){(const char *)block, sizeof(block)});
    explicit_bzero(block, sizeof(block));
}

void hmac256_init(struct hmac256 *m, struct str key)
{
    unsigned char block[SHA256_BLOCK] = {0};

    if (key.len > SHA256_BLOCK) {
        sha256_of(key, block);
    } else if (key.len > 0) {
        memcpy(block, key.p, key.len);
    }
    start_padded(&m->inner, block, 0x36);
    start_padded(&m->outer, block, 0x5c);
    explicit_bzero(block, sizeof(block));
}

void hmac256_add(struct hmac256 *m, struct str bytes)
{
    sha256_add(&m->inner, bytes);
}

void hmac256_end(struct hmac256 *m, unsigned char out[SHA256_SIZE])
{
    unsigned char inner[SHA256_SIZE];

    sha256_end(&m->inner, inner);
    sha256_add(&m->outer, (struct str){(const char *)inner, sizeof(inner)});
    sha256_end(&m->outer, out);
}

bool secret_eq(const void *a, const void *b, size_t n)
{
    const volatile unsigned char *x = a, *y = b;
    unsigned char differs = 0;

    for (size_t i = 0; i < n; i++) {
        differs |= (unsigned char)(x[i] ^ y[i]);
    }
    return differs == 0;
}
