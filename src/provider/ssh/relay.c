#include "provider/ssh/relay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/mux.h"
#include "base/alloc.h"
#include "base/own.h"
#include "base/plain.h"
#include "base/thread.h"

#define NOISE_MAX    (64u << 10) /* of a login shell, before the marked line */
#define COMPLAINT    200         /* bytes of stderr that are told */
#define PIECES       32          /* that are sent in one turn, before other channels have theirs */
#define LEFT_FOR_ALL 16          /* conversations that are never given: kills need some */

struct relay {
    char mark[MARK_SIZE];
    /* guarded by chan.lock: */
    bool has_said;
    char said[RELAY_LINE_MAX];
    char complaint[RELAY_LINE_MAX];
    int *fresh; /* sockets that the owner has not seen yet */
    size_t n_fresh, cap_fresh;
    unsigned n_open; /* conversations, as of the owner's last turn */
    uint64_t sent;   /* bytes, as of then */
    /* of the owner thread alone: */
    struct mux *mux;
    bool has_event; /* the mux's descriptor is watched */
    bool is_ready;  /* it has something to move */
    uint64_t given; /* bytes that libssh took */
};

/* ---- for calls ------------------------------------------------------------------- */

struct chan *relay_open(struct machine *m, struct str text, const char mark[MARK_SIZE],
                        struct err *e)
{
    struct relay *r = xcalloc(1, sizeof(*r));

    memcpy(r->mark, mark, MARK_SIZE);
    return chan_open_relay(m, text, r, e);
}

void relay_free(struct relay *r)
{
    if (r == NULL) {
        return;
    }
    for (size_t i = 0; i < r->n_fresh; i++) {
        (void)close(r->fresh[i]);
    }
    free(r->fresh);
    free(r);
}

bool relay_said(struct chan *c, char to[RELAY_LINE_MAX])
{
    LOCKED(&c->lock);

    memcpy(to, c->relay->said, RELAY_LINE_MAX);
    return c->relay->has_said;
}

void relay_complained(struct chan *c, char to[RELAY_LINE_MAX])
{
    LOCKED(&c->lock);

    memcpy(to, c->relay->complaint, RELAY_LINE_MAX);
}

uint64_t relay_sent(struct chan *c)
{
    LOCKED(&c->lock);

    return c->relay->sent;
}

/* The lock is held. */
static void add_fresh(struct relay *r, int fd)
{
    if (r->n_fresh == r->cap_fresh) {
        r->cap_fresh = r->cap_fresh > 0 ? 2 * r->cap_fresh : 8;
        r->fresh = xrealloc(r->fresh, r->cap_fresh, sizeof(*r->fresh));
    }
    r->fresh[r->n_fresh++] = fd;
}

int relay_connect(struct chan *c, struct err *e)
{
    struct relay *r = c->relay;
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0) {
        return err_sys(e, errno, "cannot make a socket pair");
    }
    int ours own_fd = ends[0];
    int theirs own_fd = ends[1];
    LOCKED(&c->lock);

    if (c->state != CHAN_OPEN || c->session == NULL) {
        return err_set(e, ERR_UNREACHABLE, "the connection to the host's agent was lost");
    }
    if (r->n_open + r->n_fresh + LEFT_FOR_ALL >= MUX_STREAMS) {
        return err_set(e, ERR_LIMIT, "too many requests to the host's agent are under way");
    }
    add_fresh(r, take_fd(&theirs));
    event_add(c->session->wake);
    return take_fd(&ours);
}

/* ---- the first line -------------------------------------------------------------- */

static int on_mux(socket_t fd, int revents, void *arg)
{
    struct relay *r = arg;

    (void)fd;
    (void)revents;
    r->is_ready = true;
    return 0;
}

static int start_mux(struct session *s, struct relay *r, struct err *e)
{
    r->mux = mux_new(NULL, NULL, e);
    if (r->mux == NULL) {
        return -1;
    }
    if (s->lib->event_add_fd(s->event, mux_fd(r->mux), POLLIN, on_mux, r) != SSH_OK) {
        return err_set(e, ERR_SYSTEM, "libssh cannot watch the conversations with the agent");
    }
    r->has_event = true;
    return 0;
}

/* Looks for the marked line in what came, and keeps the rest. */
static int greet(struct session *s, struct chan *c, struct err *e)
{
    struct relay *r = c->relay;
    struct buf *came = &c->came[0];
    const char *at = came->len > 0 ? memmem(came->p, came->len, r->mark, MARK_SIZE - 1) : NULL;
    const char *end = NULL;

    if (at == NULL) {
        if (came->len > NOISE_MAX) {
            buf_drop(came, came->len - MARK_SIZE);
        }
        return 0;
    }
    at += MARK_SIZE - 1;
    end = memchr(at, '\n', came->len - (size_t)(at - came->p));
    if (end == NULL) {
        return came->len > NOISE_MAX
                   ? err_set(e, ERR_PROTOCOL, "the host's agent greets without an end")
                   : 0;
    }
    struct str line = str_trim((struct str){at, (size_t)(end - at)});
    line = str_head(line, RELAY_LINE_MAX - 1);
    if (line.len == 0 && start_mux(s, r, e) < 0) {
        return -1;
    }
    lock(&c->lock);
    r->has_said = true;
    memcpy(r->said, line.p, line.len);
    chan_tell(c);
    unlock(&c->lock);
    buf_drop(came, (size_t)(end + 1 - came->p));
    return 0;
}

/* The last words of stderr, as one harmless line. */
static void keep_complaint(struct chan *c)
{
    struct buf text own_buf = {0};
    struct str all = buf_str(&c->came[1]);

    if (all.len == 0) {
        return;
    }
    buf_init(&text, RELAY_LINE_MAX - 1);
    plain_text(str_skip(all, all.len > COMPLAINT ? all.len - COMPLAINT : 0), &text);
    struct str line = str_trim(buf_str(&text));
    lock(&c->lock);
    memset(c->relay->complaint, 0, RELAY_LINE_MAX);
    for (size_t i = 0; i < line.len; i++) {
        bool is_blank = line.p[i] == '\n' || line.p[i] == '\t';

        c->relay->complaint[i] = line.p[i];
        if (is_blank) {
            c->relay->complaint[i] = ' ';
        }
    }
    unlock(&c->lock);
    buf_clear(&c->came[1]);
}

/* ---- the owner's turn ------------------------------------------------------------ */

bool relay_take(struct session *s, struct chan *c, struct err *e)
{
    struct relay *r = c->relay;
    bool came = c->came[0].len > 0;

    keep_complaint(c);
    if (r->mux == NULL && came && !r->has_said && greet(s, c, e) < 0) {
        return true;
    }
    if (r->mux == NULL || c->came[0].len == 0) {
        return false;
    }
    (void)!mux_feed(r->mux, buf_str(&c->came[0]), e);
    buf_clear(&c->came[0]);
    return came;
}

bool relay_waits(const struct chan *c)
{
    return c->relay->mux != NULL && c->came[0].len > 0;
}

bool relay_is_used(const struct chan *c)
{
    return c->relay->mux == NULL || mux_count(c->relay->mux) > 0;
}

/* Sockets of new conversations; those that cannot be taken are closed by the mux. */
static void take_fresh(struct chan *c)
{
    struct relay *r = c->relay;
    struct err ignored = {0};

    lock(&c->lock);
    for (size_t i = 0; i < r->n_fresh; i++) {
        (void)!mux_open(r->mux, r->fresh[i], &ignored);
    }
    r->n_fresh = 0;
    r->n_open = mux_count(r->mux);
    r->sent = r->given;
    unlock(&c->lock);
}

bool relay_give(struct session *s, struct chan *c)
{
    struct relay *r = c->relay;
    bool moved = false;

    if (r->mux == NULL) {
        return false;
    }
    take_fresh(c);
    if (r->is_ready) {
        r->is_ready = false;
        mux_turn(r->mux);
    }
    for (int i = 0; i < PIECES; i++) {
        /* What libssh could not send yet is enough: the rest waits where it can be sorted. */
        if (s->lib->get_poll_flags(s->ssh) & SSH_WRITE_PENDING) {
            break;
        }
        struct str out = str_head(mux_out(r->mux), s->lib->channel_window_size(c->channel));
        int n = out.len > 0 ? s->lib->channel_write(c->channel, out.p, (uint32_t)out.len) : 0;
        if (n <= 0) {
            break;
        }
        mux_sent(r->mux, (size_t)n);
        r->given += (uint64_t)n;
        moved = true;
    }
    return moved;
}

void relay_end(struct session *s, struct chan *c)
{
    struct relay *r = c->relay;

    if (r->has_event) {
        (void)s->lib->event_remove_fd(s->event, mux_fd(r->mux));
        r->has_event = false;
    }
    mux_free(r->mux);
    r->mux = NULL;
    lock(&c->lock);
    for (size_t i = 0; i < r->n_fresh; i++) {
        (void)close(r->fresh[i]);
    }
    r->n_fresh = 0;
    unlock(&c->lock);
}
