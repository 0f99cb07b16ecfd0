/* The call's side of a channel. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/thread.h"
#include "provider/ssh/machine.h"
#include "provider/ssh/pool.h"
#include "provider/ssh/relay.h"

void event_add(int fd)
{
    const uint64_t one = 1;

    while (write(fd, &one, sizeof(one)) < 0 && errno == EINTR) {
    }
}

void event_clear(int fd)
{
    uint64_t count;

    while (read(fd, &count, sizeof(count)) < 0 && errno == EINTR) {
    }
}

static struct chan *make(struct machine *m, enum chan_kind kind, struct str what, int port,
                         struct err *e)
{
    int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

    if (event < 0) {
        (void)err_sys(e, errno, "make an event descriptor");
        return NULL;
    }
    struct chan *c = xcalloc(1, sizeof(*c));
    c->machine = m;
    c->kind = kind;
    c->what = xmemdup(what.p ? what.p : "", what.len);
    c->port = port;
    c->event = event;
    c->refs = 1;
    list_init(&c->link);
    (void)pthread_mutex_init(&c->lock, NULL);
    c->out_max = kind == CHAN_EXEC ? CHAN_OUT_MAX : CHAN_BULK_MAX;
    c->since_grown = SIZE_MAX / 2; /* at once */
    for (int i = 0; i < 2; i++) {
        buf_init(&c->out[i], c->out_max);
        buf_init(&c->came[i], c->out_max);
    }
    buf_init(&c->in, CHAN_IN_MAX);
    return c;
}

static void destroy(struct chan *c)
{
    for (int i = 0; i < 2; i++) {
        buf_fini(&c->out[i]);
        buf_fini(&c->came[i]);
    }
    buf_fini(&c->in);
    relay_free(c->relay);
    (void)close(c->event);
    (void)pthread_mutex_destroy(&c->lock);
    free(c->what);
    free(c);
}

void chan_unref(struct chan *c)
{
    lock(&c->lock);
    int left = --c->refs;
    unlock(&c->lock);
    if (left == 0) {
        destroy(c);
    }
}

static struct chan *queue(struct machine *m, struct chan *c, struct err *e)
{
    if (pool_add(m, c, e) < 0) {
        destroy(c);
        return NULL;
    }
    return c;
}

struct chan *chan_open(struct machine *m, enum chan_kind kind, struct str what, int port,
                       struct err *e)
{
    struct chan *c = make(m, kind, what, port, e);

    return c != NULL ? queue(m, c, e) : NULL;
}

struct chan *chan_open_relay(struct machine *m, struct str command, struct relay *r, struct err *e)
{
    struct chan *c = make(m, CHAN_RELAY, command, 0, e);

    if (c == NULL) {
        relay_free(r);
        return NULL;
    }
    c->relay = r;
    return queue(m, c, e);
}

struct chan *chan_ref(struct chan *c)
{
    LOCKED(&c->lock);

    c->refs++;
    return c;
}

void chan_close(struct chan *c)
{
    if (c == NULL) {
        return;
    }
    pool_withdraw(c->machine, c);
    lock(&c->lock);
    c->is_abandoned = true;
    if (c->session != NULL) {
        event_add(c->session->wake);
    }
    unlock(&c->lock);
    chan_unref(c);
}

void chan_tell(struct chan *c)
{
    event_add(c->event);
}

void chan_end(struct chan *c, const struct err *why)
{
    c->state = CHAN_ENDED;
    if (why != NULL) {
        c->why = *why;
    }
    chan_tell(c);
}

void chan_take(struct chan *c, struct buf *out, struct chan_news *news)
{
    LOCKED(&c->lock);
    bool was_full = false;

    for (int i = 0; out != NULL && i < 2; i++) {
        if (c->out[i].len > 0 && out[i].len == 0) {
            struct buf came = c->out[i];

            was_full = was_full || came.len >= c->out_max / 4;
            c->out[i] = out[i];
            c->out[i].max = c->out_max;
            out[i] = came;
        }
    }
    if (was_full && c->session != NULL) {
        event_add(c->session->wake);
    }
    *news = (struct chan_news){
        .state = c->state,
        .has_started = c->has_started,
        .has_exit = c->has_exit,
        .is_in_empty = c->in.len == 0,
        .is_eof = c->is_eof && c->out[0].len == 0,
        .exit_code = c->exit_code,
        .why = c->why,
    };
    memcpy(news->exit_signal, c->exit_signal, sizeof(news->exit_signal));
    /* What does not fit yet (the caller's buffer was not empty) is told again. */
    if (out != NULL && c->state == CHAN_ENDED && (c->out[0].len > 0 || c->out[1].len > 0)) {
        news->state = CHAN_OPEN;
        chan_tell(c);
    }
}

size_t chan_put(struct chan *c, struct str bytes)
{
    LOCKED(&c->lock);
    struct str head = str_head(bytes, CHAN_IN_MAX - c->in.len);

    if (head.len > 0 && c->state != CHAN_ENDED) {
        buf_add(&c->in, head);
        if (c->session != NULL) {
            event_add(c->session->wake);
        }
    }
    return head.len;
}

void chan_put_end(struct chan *c)
{
    LOCKED(&c->lock);

    c->is_in_ended = true;
    if (c->session != NULL) {
        event_add(c->session->wake);
    }
}

int chan_wait(struct chan *c, const struct ctx *ctx, struct pollfd *extra, int64_t until_ms,
              struct err *e)
{
    struct pollfd fds[2] = {{.fd = c->event, .events = POLLIN}};
    nfds_t n = 1;

    if (extra != NULL) {
        fds[n++] = *extra;
    }
    int ready = ctx_wait(ctx, fds, n, until_ms, e);

    if (ready > 0 && fds[0].revents != 0) {
        event_clear(c->event);
    }
    if (extra != NULL) {
        extra->revents = fds[1].revents;
    }
    return ready;
}
