/* Any bytes as a configuration file: a tree or a sentence with a place, nothing else. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "config/toml.h"

static size_t count(const struct toml_value *v)
{
    size_t n = 1;

    for (const struct toml_value *item = v->first; item != NULL; item = item->next) {
        if (item->at.line < 1 || item->at.column < 1) {
            abort();
        }
        n += count(item);
    }
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a own_arena = {0};
    struct err e = {0};
    const struct toml_value *root;

    arena_init(&a, 64u << 20);
    root = toml_parse(&a, S("fuzz.toml"), (struct str){(const char *)data, size}, &e);
    if (root != NULL) {
        if (count(root) > TOML_MAX_VALUES + 1) {
            abort();
        }
    } else if (strncmp(e.msg, "fuzz.toml:", 10) != 0 ||
               (e.kind != ERR_INVALID && e.kind != ERR_LIMIT)) {
        abort();
    }
    return 0;
}
