/* The decompressor with arbitrary bytes, and the compressor with what comes of them. */
#include <stdlib.h>
#include <string.h>

#include "base/lz.h"

static struct lz z;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str in = {(const char *)data, size < LZ_BLOCK ? size : LZ_BLOCK};
    char *out = malloc(LZ_BLOCK);
    char *again = malloc(LZ_BLOCK);
    ssize_t n = lz_unpack(in, out, LZ_BLOCK);
    if (n > (ssize_t)LZ_BLOCK) {
        abort();
    }
    size_t packed = lz_pack(&z, in, out, in.len);
    if (packed > 0 && (lz_unpack((struct str){out, packed}, again, in.len) != (ssize_t)in.len ||
                       memcmp(again, in.p, in.len) != 0)) {
        abort();
    }
    free(out);
    free(again);
    return 0;
}
