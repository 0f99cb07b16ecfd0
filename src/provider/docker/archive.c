/* archive.c - the few archives that the engine is sent, and the first file of those it sends. */
#include <stdio.h>
#include <string.h>

#include "provider/docker/docker.h"

#define BLOCK 512u

struct header { /* ustar */
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type, link[100];
    char magic[6], version[2], user[32], group[32], major[8], minor[8], prefix[155], pad[12];
};
_Static_assert(sizeof(struct header) == BLOCK, "a header is one block");

static void add_padding(struct buf *to, size_t n)
{
    static const char zeros[BLOCK];

    buf_add(to, (struct str){zeros, (BLOCK - n % BLOCK) % BLOCK});
}

static void set_sum(struct header *h)
{
    const unsigned char *bytes = (const unsigned char *)h;
    unsigned sum = 0;

    memset(h->sum, ' ', sizeof(h->sum));
    for (size_t i = 0; i < sizeof(*h); i++) {
        sum += bytes[i];
    }
    (void)snprintf(h->sum, sizeof(h->sum), "%06o", sum & 0777777u);
}

void archive_add(struct buf *to, const struct archive_entry *entry)
{
    struct header h = {.type = entry->type, .magic = "ustar", .version = {'0', '0'}};
    struct str bytes = entry->type == '0' ? entry->bytes : STR_EMPTY;

    struct str name = str_head(entry->path, sizeof(h.name) - 1);
    memcpy(h.name, name.p, name.len);
    (void)snprintf(h.mode, sizeof(h.mode), "%07o", entry->mode & 07777u);
    (void)snprintf(h.uid, sizeof(h.uid), "%07o", entry->uid & 07777777u);
    (void)snprintf(h.gid, sizeof(h.gid), "%07o", entry->gid & 07777777u);
    (void)snprintf(h.size, sizeof(h.size), "%011llo", (unsigned long long)bytes.len);
    (void)snprintf(h.mtime, sizeof(h.mtime), "%011o", 0u);
    if (entry->type == '2') {
        struct str link = str_head(entry->bytes, sizeof(h.link) - 1);
        memcpy(h.link, link.p, link.len);
    }
    set_sum(&h);
    buf_add(to, (struct str){(const char *)&h, sizeof(h)});
    buf_add(to, bytes);
    add_padding(to, bytes.len);
}

void archive_end(struct buf *to)
{
    static const char zeros[2 * BLOCK];

    buf_add(to, (struct str){zeros, sizeof(zeros)});
}

static bool read_octal(const char *digits, size_t n, size_t *out)
{
    size_t v = 0;

    for (size_t i = 0; i < n && digits[i] != '\0' && digits[i] != ' '; i++) {
        if (digits[i] < '0' || digits[i] > '7') {
            return false;
        }
        v = v * 8 + (size_t)(digits[i] - '0');
    }
    *out = v;
    return true;
}

bool archive_first_file(struct str archive, struct str *out)
{
    while (archive.len >= BLOCK) {
        struct header h;
        size_t size = 0;

        memcpy(&h, archive.p, sizeof(h));
        archive = str_skip(archive, BLOCK);
        if (!read_octal(h.size, sizeof(h.size), &size) || size > archive.len) {
            return false;
        }
        if (h.type == '0' || h.type == '\0') {
            *out = str_head(archive, size);
            return h.name[0] != '\0';
        }
        archive = str_skip(archive, size + (BLOCK - size % BLOCK) % BLOCK);
    }
    return false;
}
