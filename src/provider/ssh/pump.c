#include "provider/ssh/pump.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/own.h"
#include "base/thread.h"

#define PUMP_BYTES (256u << 10)
#define PUMPS_MAX  256

/* ---- moving ---------------------------------------------------------------------------- */

struct flow {
    struct pump *pump;
    struct buf out[2]; /* bytes of the channel that did not fit into the socket yet */
    struct buf in;     /* and the other way */
    struct chan_news news;
    bool is_in_ended, is_out_ended;
};

/* From the channel to the socket. */
static int move_out(struct flow *f)
{
    for (;;) {
        if (f->out[0].len == 0) {
            chan_take(f->pump->chan, f->out, &f->news);
            buf_clear(&f->out[1]);
        }
        if (f->out[0].len == 0) {
            break;
        }
        ssize_t n = send(f->pump->fd, f->out[0].p, f->out[0].len, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0) {
            return errno == EAGAIN ? 0 : -1;
        }
        buf_drop(&f->out[0], (size_t)n);
    }
    if (f->news.state == CHAN_ENDED) {
        return -1;
    }
    if (f->news.is_eof && !f->is_out_ended) {
        f->is_out_ended = true;
        (void)shutdown(f->pump->fd, SHUT_WR);
    }
    return 0;
}

/* From the socket to the channel. */
static int move_in(struct flow *f)
{
    if (f->in.len == 0 && !f->is_in_ended) {
        char *at = buf_room(&f->in, PUMP_BYTES);
        ssize_t n = recv(f->pump->fd, at, PUMP_BYTES, MSG_DONTWAIT);

        if (n < 0 && errno != EAGAIN) {
            return -1;
        }
        f->in.len = n > 0 ? (size_t)n : 0;
        if (n == 0) {
            f->is_in_ended = true;
            chan_put_end(f->pump->chan);
        }
    }
    buf_drop(&f->in, chan_put(f->pump->chan, buf_str(&f->in)));
    return 0;
}

static void *run(void *arg)
{
    struct pump *p = arg;
    struct flow f = {.pump = p};
    struct ctx ctx = {.cancel = &p->stop};
    struct err e = {0};

    buf_init(&f.in, PUMP_BYTES);
    buf_init(&f.out[0], CHAN_BULK_MAX);
    buf_init(&f.out[1], CHAN_BULK_MAX);
    while (move_out(&f) == 0 && move_in(&f) == 0 && !(f.is_in_ended && f.is_out_ended)) {
        bool reads = f.in.len == 0 && !f.is_in_ended;
        struct pollfd fd = {.fd = p->fd,
                            .events =
                                (short)((reads ? POLLIN : 0) | (f.out[0].len > 0 ? POLLOUT : 0))};

        if (chan_wait(p->chan, &ctx, &fd, 0, &e) < 0 || (fd.revents & (POLLHUP | POLLERR))) {
            break;
        }
    }
    (void)shutdown(p->fd, SHUT_RDWR);
    buf_fini(&f.in);
    buf_fini(&f.out[0]);
    buf_fini(&f.out[1]);
    atomic_store(&p->is_done, true);
    return NULL;
}

/* ---- its life -------------------------------------------------------------------------- */

struct pump *pump_start(struct chan *c, int fd, struct err *e)
{
    struct pump *p = xcalloc(1, sizeof(*p));

    p->chan = c;
    p->fd = fd;
    list_init(&p->link);
    atomic_init(&p->is_done, false);
    if (cancel_init(&p->stop, e) < 0) {
        free(p);
        return NULL;
    }
    if (thread_start(&p->thread, "ssh-pump", run, p, e) < 0) {
        cancel_fini(&p->stop);
        free(p);
        return NULL;
    }
    return p;
}

void pump_stop(struct pump *p)
{
    if (p == NULL) {
        return;
    }
    cancel_fire(&p->stop);
    (void)pthread_join(p->thread, NULL);
    cancel_fini(&p->stop);
    chan_close(p->chan);
    (void)close(p->fd);
    free(p);
}

/* ---- to a port ------------------------------------------------------------------------- */

static struct pump *take_one(struct machine *m, bool all)
{
    LOCKED(&m->lock);
    struct list *pos;

    list_each (pos, &m->pumps) {
        struct pump *p = list_entry(pos, struct pump, link);

        if (all || atomic_load(&p->is_done)) {
            list_del(&p->link);
            m->n_pumps--;
            return p;
        }
    }
    return NULL;
}

void pump_sweep(struct machine *m, bool all)
{
    for (struct pump *p = take_one(m, all); p != NULL; p = take_one(m, all)) {
        pump_stop(p);
    }
}

static int await_open(struct chan *c, const struct ctx *ctx, int port, struct err *e)
{
    for (;;) {
        struct chan_news news;

        chan_take(c, NULL, &news);
        if (news.state == CHAN_OPEN) {
            return 0;
        }
        if (news.state == CHAN_ENDED) {
            if (news.why.sys == ECONNREFUSED) {
                return err_set(e, ERR_NOT_FOUND, "nothing listens on port %d of the host", port);
            }
            *e = news.why;
            return -1;
        }
        if (chan_wait(c, ctx, NULL, 0, e) < 0) {
            return -1;
        }
    }
}

/* A number in the machine's list is taken before the pump is there, so that there are never
 * too many. */
static int reserve(struct machine *m, struct err *e)
{
    LOCKED(&m->lock);

    if (m->n_pumps >= PUMPS_MAX) {
        return err_set(e, ERR_LIMIT, "%d connections to ports of this host are open already",
                       PUMPS_MAX);
    }
    m->n_pumps++;
    return 0;
}

static void release(struct machine *m)
{
    LOCKED(&m->lock);

    m->n_pumps--;
}

static int start_dialled(struct machine *m, struct chan *c, struct err *e)
{
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0) {
        return err_sys(e, errno, "cannot make a socket pair");
    }
    int ours own_fd = ends[0];
    int theirs own_fd = ends[1];
    struct pump *p = pump_start(c, theirs, e);
    if (p == NULL) {
        return -1;
    }
    (void)take_fd(&theirs); /* the pump's now */
    lock(&m->lock);
    list_add_tail(&m->pumps, &p->link);
    unlock(&m->lock);
    return take_fd(&ours);
}

int pump_dial(struct machine *m, const struct ctx *ctx, struct str host, int port, struct err *e)
{
    pump_sweep(m, false);
    if (reserve(m, e) < 0) {
        return -1;
    }
    struct chan *c = chan_open(m, CHAN_TCP, host, port, e);
    int fd = c != NULL && await_open(c, ctx, port, e) == 0 ? start_dialled(m, c, e) : -1;
    if (fd < 0) {
        chan_close(c);
        release(m);
    }
    return fd;
}
