#include "provider/feed.h"

#include <string.h>

void feed_init(struct feed *f, const struct source *from)
{
    *f = (struct feed){.from = from};
    buf_init(&f->some, FEED_MAX + 1);
}

void feed_fini(struct feed *f)
{
    buf_fini(&f->some);
}

int feed_fill(struct feed *f, const struct ctx *ctx, struct err *e)
{
    while (f->some.len <= FEED_MAX) {
        struct pollfd fd = {.fd = f->from->fd, .events = POLLIN};
        char *to = buf_room(&f->some, FEED_MAX + 1 - f->some.len);

        if (f->from->fd >= 0 && ctx_wait(ctx, &fd, 1, 0, e) < 0) {
            return -1;
        }
        ssize_t n = f->from->read(f->from->arg, to, FEED_MAX + 1 - f->some.len, e);
        if (n < 0) {
            return -1;
        }
        if (n == 0) {
            f->is_whole = true;
            return 0;
        }
        f->some.len += (size_t)n;
    }
    return 0;
}

static ssize_t read_rest(void *arg, char *to, size_t cap, struct err *e)
{
    struct feed *f = arg;
    size_t n = f->some.len < cap ? f->some.len : cap;

    if (n > 0) {
        memcpy(to, f->some.p, n);
        buf_drop(&f->some, n);
        return (ssize_t)n;
    }
    return f->is_whole ? 0 : f->from->read(f->from->arg, to, cap, e);
}

struct source feed_rest(struct feed *f)
{
    return (struct source){.read = read_rest,
                           .arg = f,
                           .fd = f->is_whole ? -1 : f->from->fd,
                           .size = f->is_whole ? (int64_t)f->some.len : f->from->size};
}
