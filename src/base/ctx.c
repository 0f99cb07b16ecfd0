#include "base/ctx.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/own.h"

#define FEW_FDS 16 /* as many descriptors are waited for without allocating */

int cancel_init(struct cancel *c, struct err *e)
{
    atomic_init(&c->fired, false);
    c->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (c->fd < 0) {
        return err_sys(e, errno, "make an event descriptor");
    }
    return 0;
}

void cancel_fini(struct cancel *c)
{
    own_close_(&c->fd);
    c->fd = -1;
}

void cancel_fire(struct cancel *c)
{
    const uint64_t one = 1;

    if (atomic_exchange(&c->fired, true)) {
        return;
    }
    /* The counter is 0, so the only failure left is an interruption. */
    while (write(c->fd, &one, sizeof(one)) < 0 && errno == EINTR) {
    }
}

int ctx_check(const struct ctx *ctx, struct err *e)
{
    if (ctx->cancel != NULL && atomic_load(&ctx->cancel->fired)) {
        return err_set(e, ERR_CANCELLED, "cancelled");
    }
    if (ctx->deadline_ms != 0 && clock_mono_ms() >= ctx->deadline_ms) {
        return err_set(e, ERR_TIMEOUT, "the deadline passed");
    }
    return 0;
}

/* What poll() takes: milliseconds until the earlier of the two times, -1 for ever. */
static int poll_timeout(int64_t deadline_ms, int64_t until_ms)
{
    int64_t end_ms = deadline_ms;
    int64_t left_ms;

    if (until_ms != 0 && (end_ms == 0 || until_ms < end_ms)) {
        end_ms = until_ms;
    }
    if (end_ms == 0) {
        return -1;
    }
    left_ms = end_ms - clock_mono_ms();
    if (left_ms <= 0) {
        return 0;
    }
    return left_ms > INT_MAX ? INT_MAX : (int)left_ms;
}

/* `all` is the caller's descriptors and behind them the cancel's. */
static int wait_all(const struct ctx *ctx, struct pollfd *all, nfds_t n, int64_t until_ms,
                    struct err *e)
{
    for (;;) {
        int ready;

        if (ctx_check(ctx, e) < 0) {
            return -1;
        }
        ready = poll(all, n + 1, poll_timeout(ctx->deadline_ms, until_ms));
        if (ready < 0 && errno != EINTR) {
            return err_sys(e, errno, "wait for descriptors");
        }
        if (ready > 0 && all[n].revents == 0) {
            return ready;
        }
        /* Nothing is ready, or the cancel fired, which the next check reports. */
        if (ready == 0 && until_ms != 0 && clock_mono_ms() >= until_ms) {
            return ctx_check(ctx, e);
        }
    }
}

int ctx_wait(const struct ctx *ctx, struct pollfd *fds, nfds_t n, int64_t until_ms, struct err *e)
{
    struct pollfd few[FEW_FDS + 1];
    struct pollfd *many own_mem = NULL;
    struct pollfd *all = few;
    int ready;

    if (n > FEW_FDS) {
        many = xcalloc(n + 1, sizeof(*many));
        all = many;
    }
    for (nfds_t i = 0; i < n; i++) {
        all[i] = (struct pollfd){.fd = fds[i].fd, .events = fds[i].events};
    }
    all[n] = (struct pollfd){.fd = ctx->cancel ? ctx->cancel->fd : -1, .events = POLLIN};
    ready = wait_all(ctx, all, n, until_ms, e);
    for (nfds_t i = 0; i < n; i++) {
        fds[i].revents = 0;
        if (ready > 0) {
            fds[i].revents = all[i].revents;
        }
    }
    return ready;
}
