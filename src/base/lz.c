#include "base/lz.h"

#include <string.h>

#define LONG     15  /* in four bits: more follows */
#define MORE     255 /* in a length byte: more follows */
#define GIVE_UP  6   /* after 2^6 bytes without a match, look at every other one, and so on */
#define TAIL_MIN 8   /* the last bytes are always literals */
#define PACK_MIN 32  /* shorter blocks do not get shorter */

static uint32_t four(const char *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static unsigned slot_of(uint32_t v)
{
    return (v * 2654435761u) >> (32 - 13);
}

/* ---- packing ---------------------------------------------------------------------- */

struct packer {
    char *to;
    size_t n, cap;
};

static void put_long(struct packer *p, size_t rest)
{
    for (; rest >= MORE; rest -= MORE) {
        p->to[p->n++] = (char)MORE;
    }
    p->to[p->n++] = (char)rest;
}

/* One sequence; match 0: the last one. False: there is no room. */
static bool put_sequence(struct packer *p, const char *literals, size_t n, size_t match,
                         size_t distance)
{
    size_t most = 1 + n / MORE + 1 + n + 2 + match / MORE + 1;
    size_t extra = match > 0 ? match - LZ_MATCH : 0;
    if (most > p->cap - p->n) {
        return false;
    }
    p->to[p->n++] = (char)((n < LONG ? n : LONG) << 4 | (extra < LONG ? extra : LONG));
    if (n >= LONG) {
        put_long(p, n - LONG);
    }
    memcpy(p->to + p->n, literals, n);
    p->n += n;
    if (match == 0) {
        return true;
    }
    p->to[p->n++] = (char)(distance & 0xff);
    p->to[p->n++] = (char)(distance >> 8);
    if (extra >= LONG) {
        put_long(p, extra - LONG);
    }
    return true;
}

static size_t match_len(const char *a, const char *b, const char *end)
{
    const char *from = b;
    while (end - b >= 8) {
        uint64_t x;
        uint64_t y;
        memcpy(&x, a, sizeof x);
        memcpy(&y, b, sizeof y);
        if (x != y) {
            break;
        }
        a += 8;
        b += 8;
    }
    while (b < end && *a == *b) {
        a++;
        b++;
    }
    return (size_t)(b - from);
}

size_t lz_pack(struct lz *z, struct str block, char *to, size_t cap)
{
    struct packer p = {.cap = cap};
    const char *base = block.p;
    const char *at = base;
    const char *literals = base;
    p.to = to;
    if (block.len < PACK_MIN || block.len > LZ_BLOCK) {
        return 0;
    }
    const char *end = base + block.len - TAIL_MIN;
    memset(z->at, 0, sizeof z->at);
    for (at++; at < end;) {
        uint32_t v = four(at);
        unsigned slot = slot_of(v);
        const char *seen = base + z->at[slot];
        z->at[slot] = (uint16_t)(at - base);
        if (four(seen) != v) {
            at += 1 + ((at - literals) >> GIVE_UP);
            continue;
        }
        size_t len = LZ_MATCH + match_len(seen + LZ_MATCH, at + LZ_MATCH, end);
        if (!put_sequence(&p, literals, (size_t)(at - literals), len, (size_t)(at - seen))) {
            return 0;
        }
        at += len;
        literals = at;
    }
    size_t rest = (size_t)(base + block.len - literals);
    return put_sequence(&p, literals, rest, 0, 0) ? p.n : 0;
}

/* ---- unpacking --------------------------------------------------------------------- */

/* A length that began with four bits. False: the block ends, or nothing is that long. */
static bool get_long(const unsigned char **p, const unsigned char *end, size_t *len)
{
    unsigned char more = MORE;
    if (*len < LONG) {
        return true;
    }
    while (more == MORE) {
        if (*p == end || *len > LZ_BLOCK) {
            return false;
        }
        more = *(*p)++;
        *len += more;
    }
    return true;
}

/* Copies from before `n`; source and target may overlap, and then repeat. */
static void copy_match(char *to, size_t n, size_t distance, size_t len)
{
    const char *from = to + n - distance;
    char *at = to + n;
    if (distance >= len) {
        memcpy(at, from, len);
        return;
    }
    for (size_t i = 0; i < len; i++) {
        at[i] = from[i];
    }
}

ssize_t lz_unpack(struct str packed, char *to, size_t cap)
{
    const unsigned char *p = (const unsigned char *)packed.p;
    const unsigned char *end = p + packed.len;
    size_t n = 0;
    while (p < end) {
        size_t literals = *p >> 4;
        size_t match = *p++ & LONG;
        if (!get_long(&p, end, &literals) || literals > (size_t)(end - p) || literals > cap - n) {
            return -1;
        }
        memcpy(to + n, p, literals);
        n += literals;
        p += literals;
        if (p == end) {
            return match == 0 ? (ssize_t)n : -1;
        }
        if (end - p < 2) {
            return -1;
        }
        size_t distance = p[0] | (size_t)p[1] << 8;
        p += 2;
        if (!get_long(&p, end, &match)) {
            return -1;
        }
        match += LZ_MATCH;
        if (distance == 0 || distance > n || match > cap - n) {
            return -1;
        }
        copy_match(to, n, distance, match);
        n += match;
    }
    return -1;
}
