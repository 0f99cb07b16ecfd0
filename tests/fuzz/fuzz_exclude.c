/* Lists of patterns and paths from anywhere. The first byte is the style, then lines, a NUL, a
 * path. */
#include <stdlib.h>
#include <string.h>

#include "tree/exclude.h"
#include "tree/glob.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a;
    struct err e;
    struct str path;
    if (size < 1 || size > 8192) {
        return 0;
    }
    arena_init(&a, 64 << 20);
    struct exclude *x = exclude_new(&a, data[0] & 1 ? EXCLUDE_LEGACY : EXCLUDE_GIT);
    struct str lines = str_cut((struct str){(const char *)data + 1, size - 1}, '\0', &path);
    exclude_add_defaults(x);
    (void)!exclude_add_text(x, data[0] & 2 ? S("a") : S(""), lines, &e);
    enum exclude_answer said = exclude_ask(x, path, data[0] & 4);
    if (exclude_match(x, path, data[0] & 4) != (said == EXCLUDE_OUT)) {
        abort();
    }
    arena_fini(&a);
    return 0;
}
