/* The small texts that the local provider reads: its own info files, /proc, /etc/subuid,
 * the output of nvidia-smi. */
#include <stdlib.h>
#include <string.h>

#include "provider/local/local.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What was understood is written and understood again in the same way. */
static void round_trip(struct str text)
{
    struct meta m;
    struct meta again;
    struct err e;
    if (meta_parse(text, &m, &e) < 0) {
        return;
    }
    struct buf written own_buf = {0};
    buf_init(&written, 1u << 20);
    meta_write(&m, &written);
    if (meta_parse(buf_str(&written), &again, &e) < 0 || again.pid != m.pid ||
        again.limits.memory_bytes != m.limits.memory_bytes || !str_eq(again.name, m.name) ||
        again.n_cgroups != m.n_cgroups) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 64u << 10) {
        return 0;
    }
    struct arena a own_arena = {0};
    arena_init(&a, 64u << 20);
    struct str text = arena_str(&a, (struct str){(const char *)data, size});
    struct str rest = STR_EMPTY;
    struct str first = str_cut(text, '\f', &rest);

    round_trip(text);
    struct cgroup_host host;
    cgroup_parse_host(&a, first, rest, &host);
    uint32_t from = 0;
    uint32_t count = 0;
    if (uids_parse_sub(text, S("user"), 1000, &from, &count) &&
        (count < UID_RANGE || from + (uint64_t)count > UINT32_MAX)) {
        abort();
    }
    (void)uids_parse_map(text, UID_FIRST, UID_RANGE);
    (void)uids_parse_caps(text);
    struct usage u = {.memory_used = -1, .memory_total = -1};
    usage_parse_load(text, &u);
    usage_parse_memory(text, &u);
    usage_parse_gpus(text, &u);
    if (u.memory_used > u.memory_total || u.n_gpus > USAGE_GPUS) {
        abort();
    }
    return 0;
}
