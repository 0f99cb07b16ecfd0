#include "base/duplex.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/alloc.h"

#define PIECE    (64u << 10)
#define GRACE_MS 10000

void duplex_init(struct duplex *d, int a, int b)
{
    *d = (struct duplex){
        .flows = {{.from = a, .to = b, .bytes = xmalloc(PIECE)},
                  {.from = b, .to = a, .bytes = xmalloc(PIECE)}},
    };
}

void duplex_fini(struct duplex *d)
{
    free(d->flows[0].bytes);
    free(d->flows[1].bytes);
    *d = (struct duplex){0};
}

static bool is_full(const struct duplex_flow *f)
{
    return f->start < f->end;
}

bool duplex_wants(const struct duplex *d, struct pollfd fds[2])
{
    for (int i = 0; i < 2; i++) {
        const struct duplex_flow *in = &d->flows[i];
        const struct duplex_flow *out = &d->flows[1 - i];

        fds[i] = (struct pollfd){.fd = in->from};
        fds[i].events |= !in->done && !in->at_end && !is_full(in) ? POLLIN : 0;
        fds[i].events |= !out->done && is_full(out) ? POLLOUT : 0;
        /* A closed one is ready for ever. */
        if (d->closed[i] && fds[i].events == 0) {
            fds[i].fd = -1;
        }
    }
    return !d->flows[0].done || !d->flows[1].done;
}

int duplex_wait_ms(const struct duplex *d)
{
    return d->closed[0] || d->closed[1] ? GRACE_MS : -1;
}

static bool read_some(struct duplex_flow *f)
{
    ssize_t n;

    if (is_full(f) || f->at_end || f->done) {
        return false;
    }
    n = recv(f->from, f->bytes, PIECE, MSG_DONTWAIT);
    f->at_end = n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
    f->start = 0;
    f->end = n > 0 ? (size_t)n : 0;
    return n > 0;
}

static bool move(struct duplex_flow *f)
{
    bool moved = read_some(f);

    if (is_full(f) && !f->done) {
        ssize_t n =
            send(f->to, f->bytes + f->start, f->end - f->start, MSG_DONTWAIT | MSG_NOSIGNAL);

        f->start += n > 0 ? (size_t)n : 0;
        f->done = n < 0 && errno != EAGAIN && errno != EINTR;
    }
    if (!is_full(f) && f->at_end && !f->done) {
        f->done = true;
        (void)shutdown(f->to, SHUT_WR);
    }
    return moved;
}

bool duplex_move(struct duplex *d, const struct pollfd fds[2])
{
    bool moved;

    for (int i = 0; i < 2; i++) {
        if (fds[i].fd >= 0 && (fds[i].revents & (POLLHUP | POLLERR)) != 0) {
            d->closed[i] = true;
            d->flows[1 - i].done = true; /* nobody takes it */
        }
    }
    moved = move(&d->flows[0]);
    moved |= move(&d->flows[1]);
    return moved;
}
