/* fuzz_frames.c - any bytes as a client's stream: cut into frames, each decoded as
 * PID 1 and the file worker decode it. */
#include <stdlib.h>
#include <string.h>

#include "agent/proto.h"
#include "agent/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Touches every byte that a view claims to hold. */
static size_t sum(struct str s)
{
    size_t total = 0;

    for (size_t i = 0; i < s.len; i++) {
        total += (unsigned char)s.p[i];
    }
    return total;
}

static size_t use(const struct request *r)
{
    size_t total = sum(r->id) + sum(r->path) + sum(r->bytes) + sum(r->cwd) + sum(r->digest);

    for (size_t i = 0; i < r->n_argv; i++) {
        total += sum(r->argv[i]);
    }
    for (size_t i = 0; i < r->n_env; i++) {
        total += sum(r->env[i]);
    }
    for (size_t i = 0; i < r->n_excludes; i++) {
        total += sum(r->excludes[i]);
    }
    return total;
}

static void check(const struct request *r)
{
    if (use(r) == SIZE_MAX || r->id.len > ID_MAX || r->bytes.len > DATA_MAX ||
        r->path.len >= PATH_MAX_BYTES || (r->type == FRAME_EXEC && r->n_argv == 0) ||
        (request_is_file(r->type) && r->path.len == 0)) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str rest = {(const char *)data, size};

    while (rest.len > 0) {
        struct arena a own_arena = {0};
        struct frame f;
        struct request r;
        struct err e;
        ssize_t used = wire_parse(rest, &f, &e);

        if (used <= 0) {
            break;
        }
        if ((size_t)used > rest.len || (size_t)used != f.fields.len + FRAME_HEADER) {
            abort();
        }
        arena_init(&a, 16u << 20);
        if (request_parse(f, &a, &r, &e) == 0) {
            check(&r);
        }
        rest = str_skip(rest, (size_t)used);
    }
    return 0;
}
