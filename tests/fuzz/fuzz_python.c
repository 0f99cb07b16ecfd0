/* A keeper that lies. The first byte says in which pieces the rest comes. */
#include <stdlib.h>

#include "core/python.h"

static int keep(void *arg, enum stream from, struct str bytes, struct err *e)
{
    (void)arg, (void)e;
    if ((from != STREAM_OUT && from != STREAM_ERR) || bytes.len > PYTHON_FRAME_MAX) {
        abort();
    }
    return 0;
}

static void check(const struct python_result *out)
{
    if (out->n_images > PYTHON_IMAGES_MAX || out->n_files > PYTHON_FILES_MAX || out->code < 0 ||
        out->code > 255 || out->signal < 0 || out->signal > 127 || out->wall_ms < 0 ||
        out->all_files < (int64_t)out->n_files) {
        abort();
    }
    for (size_t i = 0; i < out->n_files; i++) {
        if (out->files[i].len == 0 || out->files[i].p[0] != '/') {
            abort();
        }
    }
}

typedef int feed_fn(struct python_reader *r, struct str bytes, struct err *e);

static void read_by(feed_fn *feed, const uint8_t *bytes, size_t n)
{
    static struct python_result out;
    struct arena arena own_arena = {0};
    struct python_ear ear = {.output = {.write = keep}};
    struct python_reader reader;
    struct err e = {0};
    size_t step = n > 0 && bytes[0] > 0 ? bytes[0] : 4096;

    arena_init(&arena, 64u << 20);
    out = (struct python_result){0};
    python_reader_init(&reader, &arena, &ear, &out);
    for (size_t at = 1; at < n; at += step) {
        struct str part = {(const char *)bytes + at, n - at < step ? n - at : step};

        if (feed(&reader, part, &e) < 0) {
            break;
        }
    }
    check(&out);
    python_reader_fini(&reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    read_by(python_reader_feed, bytes, n);
    read_by(python_reader_feed_text, bytes, n);
    return 0;
}
