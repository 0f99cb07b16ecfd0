#include "tree/digest.h"

#include <string.h>

void tree_digest_init(struct tree_digest *d)
{
    sha256_init(&d->hash);
}

static size_t put_number(unsigned char *to, uint64_t v)
{
    for (int i = 0; i < 8; i++) {
        to[i] = (unsigned char)(v >> (8 * i));
    }
    return 8;
}

void tree_digest_add(struct tree_digest *d, const struct tree_entry *entry)
{
    unsigned char head[6 * 8];
    size_t n = 0;
    if (entry->path.len == 0) {
        return;
    }
    n += put_number(head + n, entry->path.len);
    n += put_number(head + n, entry->target.len);
    n += put_number(head + n, (uint64_t)entry->type | (entry->has_sum ? 16 : 0));
    n += put_number(head + n, entry->type == TREE_LINK ? 0 : entry->mode);
    n += put_number(head + n, entry->size);
    n += put_number(head + n, (uint64_t)tree_timespec(entry->mtime_ns).tv_sec);
    sha256_add(&d->hash, (struct str){(const char *)head, n});
    sha256_add(&d->hash, entry->path);
    sha256_add(&d->hash, entry->target);
    if (entry->has_sum) {
        sha256_add(&d->hash, (struct str){(const char *)entry->sum, TREE_SUM});
    }
}

void tree_digest_end(struct tree_digest *d, uint8_t out[TREE_SUM])
{
    sha256_end(&d->hash, out);
}
