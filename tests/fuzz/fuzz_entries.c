/* Blocks of entries from a box that lies. The first byte says how they are read, the next two how
 * long the block is that the rest unpacks to. */
#include <stdlib.h>

#include "agent/entries.h"

static int each(void *arg, const struct tree_entry *entry, struct err *e)
{
    (void)e;
    if (!tree_path_ok(entry->path) || entry->mode > 0777 ||
        entry->path.p[entry->path.len] != '\0') {
        abort();
    }
    *(uint64_t *)arg = entry->size;
    return 0;
}

static int data(void *arg, struct str bytes, struct err *e)
{
    (void)arg, (void)e;
    uint32_t sum = 0;
    for (size_t i = 0; i < bytes.len; i++) {
        sum += (unsigned char)bytes.p[i];
    }
    return sum == UINT32_MAX ? -1 : 0;
}

static int hole(void *arg, uint64_t n, struct err *e)
{
    (void)arg, (void)n, (void)e;
    return 0;
}

static int done(void *arg, bool ok, struct str why, struct err *e)
{
    (void)ok;
    return data(arg, why, e);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    uint64_t last = 0;
    struct entries_in in;
    struct err e;
    struct tree_sink to = {.entry = each, .data = data, .hole = hole, .done = done, .arg = &last};
    if (size < 3) {
        return 0;
    }
    entries_in_init(&in);
    in.any_order = bytes[0] & 1;
    in.list_only = bytes[0] & 2;
    in.sized = bytes[0] & 4;
    uint32_t unpacked = bytes[0] & 8 ? bytes[1] | (uint32_t)bytes[2] << 8 : 0;
    struct str block = {(const char *)bytes + 3, size - 3};
    if (entries_read(&in, block, unpacked, &to, &e) == 0 &&
        entries_read(&in, block, unpacked, &to, &e) == 0) {
        (void)!entries_end(&in, &e);
    }
    entries_in_fini(&in);
    return 0;
}
