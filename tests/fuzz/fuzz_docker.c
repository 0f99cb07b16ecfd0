/* What an engine answers: JSON, what it says of a container, and archives. */
#include "provider/docker/docker.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str bytes = {(const char *)data, size};
    struct arena a own_arena = {0};
    struct container c;
    struct str file;
    struct err e;

    arena_init(&a, 512u << 20);
    const struct value *v = value_parse(&a, bytes, &e);
    if (v != NULL && container_read(v, &c)) {
        enum box_end kind;

        (void)container_reason(&c, &a, &kind);
    }
    if (archive_first_file(bytes, &file) && file.len > size) {
        __builtin_trap();
    }
    return 0;
}
