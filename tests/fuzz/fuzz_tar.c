/* An archive from a host that lies. Sums of headers are made right: else nothing else would be
 * reached. */
#include <stdlib.h>
#include <string.h>

#include "provider/tar.h"

static int each(void *arg, const struct tree_entry *entry, struct err *e)
{
    (void)arg, (void)e;
    if (!tree_path_ok(entry->path) || entry->mode > 0777 || entry->target.len > TREE_PATH_MAX) {
        abort();
    }
    return 0;
}

static int data(void *arg, struct str bytes, struct err *e)
{
    (void)e;
    *(size_t *)arg += bytes.len;
    return 0;
}

static int done(void *arg, bool ok, struct str why, struct err *e)
{
    (void)arg, (void)ok, (void)why, (void)e;
    return 0;
}

static void mend(char *block)
{
    unsigned sum = 0;
    memset(block + 148, ' ', 8);
    for (size_t i = 0; i < TAR_BLOCK; i++) {
        sum += (unsigned char)block[i];
    }
    for (int i = 5; i >= 0; i--) {
        block[148 + i] = (char)('0' + (sum & 7));
        sum >>= 3;
    }
    block[154] = '\0';
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct tar_in in;
    size_t total = 0;
    struct tree_sink to = {.entry = each, .data = data, .done = done, .arg = &total};
    struct err e;
    char *copy = malloc(size + 1);
    memcpy(copy, bytes, size);
    for (size_t at = 0; size > 0 && (bytes[0] & 1) && at + TAR_BLOCK <= size; at += TAR_BLOCK) {
        mend(copy + at);
    }
    tar_in_init(&in);
    struct str rest = {copy, size};
    while (rest.len > 0 && tar_read(&in, str_head(rest, 700), &to, &e) == 0) {
        rest = str_skip(rest, 700);
    }
    tar_in_fini(&in);
    free(copy);
    return 0;
}
