/*
 * One channel, as its connection's owner thread serves it: opened, asked for a command or a
 * subsystem, then bytes both ways until it ends.
 *
 * libssh hands over what came by a callback, wherever it reads the socket. The callback may
 * run while the channel's lock is held, so it only keeps the bytes (chan.came), which are
 * given to the call afterwards; what does not fit stays in libssh, whose window then closes.
 *
 * The window. libssh lets a host send 1.28 MB ahead, and more only when that much is asked for
 * in one read. Channels that carry files ask for WINDOW_BYTES, again whenever half of it has
 * come: on a link with a delay of 50 ms that is the difference between 12 and 40 MB/s.
 *
 * The spare. To open a channel and to ask for a command are two round trips. So after each
 * command a channel is opened in advance, and the next one saves the first of the two.
 */
#include "provider/ssh/serve.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/thread.h"
#include "provider/ssh/machine.h"
#include "provider/ssh/relay.h"

#define READ_BYTES     (256u << 10)
#define WINDOW_BYTES   (4u << 20)
#define FRESH_MS       1000 /* a host that spoke so lately is there */
#define SPARE_AGAIN_MS 10000

/* ---- what libssh tells ------------------------------------------------------------ */

static void on_exit_status(ssh_session session, ssh_channel channel, int status, void *arg)
{
    struct chan *c = arg;

    (void)session;
    (void)channel;
    c->got_exit = true;
    c->got_code = status;
}

static void on_exit_signal(ssh_session session, ssh_channel channel, const char *name, int core,
                           const char *message, const char *language, void *arg)
{
    struct chan *c = arg;
    struct str signal = str_head(str_from(name), sizeof(c->got_signal) - 1);

    (void)session;
    (void)channel;
    (void)core;
    (void)message;
    (void)language;
    c->got_exit = true;
    memcpy(c->got_signal, signal.p, signal.len);
}

/* Returns how much was taken. */
static int on_data(ssh_session session, ssh_channel channel, void *data, uint32_t len,
                   int is_stderr, void *arg)
{
    struct chan *c = arg;
    struct buf *to = &c->came[is_stderr ? 1 : 0];
    struct str taken = str_head((struct str){data, len}, to->max - to->len);

    (void)session;
    (void)channel;
    buf_add(to, taken);
    c->is_held[is_stderr ? 1 : 0] = taken.len < len;
    c->since_grown += taken.len;
    return (int)taken.len;
}

/* ---- the spare --------------------------------------------------------------------- */

static void free_spare(struct session *s)
{
    s->lib->channel_free(s->spare);
    s->spare = NULL;
    s->spare_after_ms = clock_mono_ms() + SPARE_AGAIN_MS;
}

void serve_spare(struct session *s)
{
    if (s->spare == NULL) {
        if (!s->wants_spare || clock_mono_ms() < s->spare_after_ms || !machine_has_room(s)) {
            return;
        }
        s->wants_spare = false;
        s->is_spare_open = false;
        s->spare = s->lib->channel_new(s->ssh);
    }
    if (s->spare == NULL) {
        return;
    }
    if (s->is_spare_open) {
        if (s->lib->channel_is_closed(s->spare)) {
            free_spare(s); /* some servers close what is not used */
        }
        return;
    }
    int rc = s->lib->channel_open_session(s->spare);
    s->is_spare_open = rc == SSH_OK;
    if (rc == SSH_ERROR) {
        free_spare(s); /* the server has no room for it */
    }
}

/* ---- one channel ------------------------------------------------------------------ */

/* libssh keeps a channel until the host has closed it, too, and would go on calling. */
static void free_channel(struct session *s, struct chan *c)
{
    if (c->relay != NULL) {
        relay_end(s, c);
    }
    if (c->channel != NULL) {
        (void)s->lib->remove_channel_callbacks(c->channel, &c->callbacks);
        s->lib->channel_free(c->channel);
        c->channel = NULL;
    }
}

static void drop(struct session *s, struct chan *c, const struct err *why)
{
    free_channel(s, c);
    list_del(&c->link);
    lock(&c->lock);
    c->session = NULL;
    chan_end(c, why);
    unlock(&c->lock);
    machine_left(s);
    chan_unref(c);
}

/* Nobody waits for it any more. A host that was stopped may not even have begun the command
 * yet, and reads this right behind it: the signal, or the end of the channel, without which
 * the command cannot print its marker. */
static void leave(struct session *s, struct chan *c)
{
    lock(&c->lock);
    bool goes_on = c->is_left;
    unlock(&c->lock);
    if (c->kind == CHAN_EXEC && !c->got_exit && !goes_on) {
        (void)s->lib->channel_request_send_signal(c->channel, "KILL");
    }
    drop(s, c, NULL);
}

static int open_channel(struct session *s, struct chan *c)
{
    if (c->channel == NULL) {
        if (c->kind != CHAN_TCP) {
            serve_spare(s); /* it may have been closed */
            c->channel = s->spare;
            s->spare = NULL;
            s->wants_spare = true;
        }
        if (c->channel == NULL) {
            c->channel = s->lib->channel_new(s->ssh);
        }
        if (c->channel == NULL) {
            return SSH_ERROR;
        }
        c->callbacks = (struct ssh_channel_callbacks_struct){
            .size = sizeof(c->callbacks),
            .userdata = c,
            .channel_exit_status_function = on_exit_status,
            .channel_exit_signal_function = on_exit_signal,
            .channel_data_function = on_data,
        };
        (void)s->lib->set_channel_callbacks(c->channel, &c->callbacks);
    }
    if (c->kind == CHAN_TCP) {
        return s->lib->channel_open_forward(c->channel, c->what, c->port, "127.0.0.1", 0);
    }
    return s->lib->channel_open_session(c->channel);
}

void serve_ask_alive(struct session *s)
{
    uint64_t sent = s->count.out_packets;

    /* A reply that came since the last one is only taken note of by the first call. */
    for (int i = 0; i < 3 && s->count.out_packets == sent; i++) {
        (void)s->lib->send_keepalive(s->ssh);
    }
}

/* Nothing is wanted but to know that the host answers. */
static bool serve_hello(struct session *s, struct chan *c)
{
    if (s->count.in_packets == s->heard_packets && clock_mono_ms() - s->heard_ms > FRESH_MS) {
        if (!c->has_asked) {
            c->has_asked = true;
            serve_ask_alive(s);
        }
        return false;
    }
    drop(s, c, NULL);
    return true;
}

/* True when it got further. */
static bool serve_opening(struct session *s, struct chan *c)
{
    lock(&c->lock);
    bool is_unwanted = c->is_abandoned;
    unlock(&c->lock);
    if (is_unwanted && c->channel == NULL) {
        drop(s, c, NULL);
        return true;
    }
    if (c->kind == CHAN_HELLO) {
        return serve_hello(s, c);
    }
    int rc = open_channel(s, c);
    if (rc == SSH_AGAIN) {
        session_hurry(s);
        return false;
    }
    if (rc == SSH_OK && is_unwanted) {
        drop(s, c, NULL); /* what nobody waits for must not run */
        return true;
    }
    if (rc == SSH_OK) {
        lock(&c->lock);
        c->state = c->kind == CHAN_TCP ? CHAN_OPEN : CHAN_ASKING;
        c->has_started = true;
        chan_tell(c);
        unlock(&c->lock);
        return true;
    }
    if (!s->lib->is_connected(s->ssh)) {
        return false; /* the loop ends, and the channel waits for another connection */
    }
    const char *why = s->lib->get_error(s->ssh);
    if (c->kind == CHAN_TCP) {
        struct err e = {0};

        (void)err_set(&e, ERR_UNREACHABLE, "the host cannot reach %s port %d: %s", c->what, c->port,
                      why);
        /* "connect failed", among the reasons of RFC 4254 5.1. */
        e.sys = strstr(why, "error (2)") != NULL ? ECONNREFUSED : EACCES;
        drop(s, c, &e);
        return true;
    }
    free_channel(s, c);
    list_del(&c->link);
    machine_refused(s, c, why);
    return true;
}

static bool serve_asking(struct session *s, struct chan *c)
{
    int rc = c->kind == CHAN_SFTP ? s->lib->channel_request_subsystem(c->channel, "sftp")
                                  : s->lib->channel_request_exec(c->channel, c->what);
    struct err e = {0};

    lock(&c->lock);
    bool is_unwanted = c->is_abandoned;
    unlock(&c->lock);
    if (is_unwanted && rc != SSH_ERROR) {
        leave(s, c);
        return true;
    }
    if (rc == SSH_AGAIN) {
        return false;
    }
    if (rc == SSH_OK) {
        lock(&c->lock);
        c->state = CHAN_OPEN;
        chan_tell(c);
        unlock(&c->lock);
        return true;
    }
    if (!s->lib->is_connected(s->ssh)) {
        return false;
    }
    (void)err_set(&e, ERR_DENIED, "the server refuses to %s for this user",
                  c->kind == CHAN_SFTP ? "transfer files (its sftp subsystem is off)"
                                       : "run commands");
    drop(s, c, &e);
    return true;
}

/* A window for files: see above. */
static void grow_window(struct session *s, struct chan *c)
{
    struct buf *to = &c->came[0];

    if (c->kind == CHAN_EXEC || c->since_grown < WINDOW_BYTES / 2 || c->is_held[0] || to->len > 0) {
        return;
    }
    char *at = buf_room(to, WINDOW_BYTES);
    if (at == NULL) {
        return;
    }
    c->since_grown = 0;
    int n = s->lib->channel_read_timeout(c->channel, at, WINDOW_BYTES, 0, 0);
    to->len += n > 0 ? (size_t)n : 0; /* what the callback did not take */
}

/* What libssh holds because there was no room for it. */
static void fetch_held(struct session *s, struct chan *c, int which)
{
    struct buf *to = &c->came[which];

    while (c->is_held[which] && to->max - to->len >= READ_BYTES) {
        char *at = buf_room(to, READ_BYTES);
        int n = s->lib->channel_read_nonblocking(c->channel, at, READ_BYTES, which);

        c->is_held[which] = n == (int)READ_BYTES;
        to->len += n > 0 ? (size_t)n : 0;
        c->since_grown += n > 0 ? (size_t)n : 0;
    }
}

/* Gives the call what came. The lock is held. True when something did. */
static bool hand_over(struct chan *c)
{
    bool moved = false;

    for (int i = 0; i < 2; i++) {
        struct buf *from = &c->came[i], *to = &c->out[i];

        if (from->len == 0) {
            continue;
        }
        if (to->len == 0) {
            struct buf empty = *to;

            *to = *from;
            *from = empty;
            from->max = to->max = c->out_max;
            moved = true;
        } else if (to->len < to->max) {
            struct str head = str_head(buf_str(from), to->max - to->len);

            buf_add(to, head);
            buf_drop(from, head.len);
            moved = true;
        }
    }
    return moved;
}

static bool write_input(struct session *s, struct chan *c)
{
    bool moved = false;

    while (c->in.len > 0) {
        uint32_t window = s->lib->channel_window_size(c->channel);
        struct str head = str_head(buf_str(&c->in), window);

        if (head.len == 0) {
            break;
        }
        int n = s->lib->channel_write(c->channel, head.p, (uint32_t)head.len);
        if (n <= 0) {
            break;
        }
        buf_drop(&c->in, (size_t)n);
        moved = true;
    }
    if (c->in.len == 0 && c->is_in_ended && !c->is_eof_sent) {
        c->is_eof_sent = true;
        (void)s->lib->channel_send_eof(c->channel);
        moved = true;
    }
    return moved;
}

static bool runs_command(const struct chan *c)
{
    return c->kind == CHAN_EXEC || c->kind == CHAN_RELAY;
}

/* The command has ended and its output was drained, or is held open by what it left behind. */
static bool is_over(struct session *s, struct chan *c, bool moved)
{
    /* It is also said to be closed when the connection is lost: that is told by who notices it. */
    if (s->lib->channel_is_closed(c->channel)) {
        return !moved && (c->got_exit || s->lib->is_connected(s->ssh));
    }
    if (!runs_command(c) || !c->got_exit || moved) {
        c->quiet_since_ms = 0;
        return false;
    }
    if (s->lib->channel_is_eof(c->channel)) {
        return true;
    }
    if (c->quiet_since_ms == 0) {
        c->quiet_since_ms = clock_mono_ms();
    }
    return clock_mono_ms() - c->quiet_since_ms >=
           (c->kind == CHAN_RELAY ? LAST_WORDS_MS : LEFTOVER_MS);
}

/* The host has said all on a connection to a port, and may still listen. */
static void tell_eof(struct session *s, struct chan *c)
{
    if (c->came[0].len > 0 || !s->lib->channel_is_eof(c->channel)) {
        return;
    }
    lock(&c->lock);
    if (!c->is_eof) {
        c->is_eof = true;
        chan_tell(c);
    }
    unlock(&c->lock);
}

/* Something came that nobody has yet. */
static bool has_rest(const struct chan *c)
{
    bool waits = c->relay != NULL ? relay_waits(c) : c->came[0].len > 0;

    return waits || c->came[1].len > 0 || c->is_held[0] || c->is_held[1];
}

/* Moves bytes between the host and the calls. */
static void exchange(struct session *s, struct chan *c, bool *came, bool *sent, struct err *e)
{
    if (c->relay != NULL) {
        *came = relay_take(s, c, e);
        *sent = relay_give(s, c);
    }
    LOCKED(&c->lock);

    *came = (c->relay == NULL && hand_over(c)) || *came;
    bool is_fed = write_input(s, c);
    if ((*came && c->relay == NULL) || (is_fed && c->in.len < CHAN_IN_MAX / 2)) {
        chan_tell(c);
    }
    *sent = *sent || is_fed;
}

static bool serve_open(struct session *s, struct chan *c)
{
    lock(&c->lock);
    if (c->is_abandoned) {
        unlock(&c->lock);
        leave(s, c);
        return true;
    }
    unlock(&c->lock);
    bool came = false, sent = false;
    struct err e = {0};
    exchange(s, c, &came, &sent, &e);
    if (e.kind != ERR_NONE) {
        drop(s, c, &e);
        return true;
    }
    fetch_held(s, c, 0);
    fetch_held(s, c, 1);
    grow_window(s, c);
    if (c->kind == CHAN_TCP) {
        tell_eof(s, c);
    }
    if (has_rest(c) || !is_over(s, c, came)) {
        return came || sent;
    }
    lock(&c->lock);
    c->has_exit = c->got_exit;
    c->exit_code = c->got_code;
    memcpy(c->exit_signal, c->got_signal, sizeof(c->exit_signal));
    unlock(&c->lock);
    drop(s, c, NULL);
    return true;
}

bool serve_chan(struct session *s, struct chan *c)
{
    switch (c->state) { /* changed by this thread alone once it is ours */
    case CHAN_OPENING: return serve_opening(s, c);
    case CHAN_ASKING: return serve_asking(s, c);
    case CHAN_OPEN: return serve_open(s, c);
    case CHAN_QUEUED:
    case CHAN_ENDED: break;
    }
    return false;
}

void serve_forget(struct session *s)
{
    struct list *pos;

    list_each (pos, &s->chans) {
        free_channel(s, list_entry(pos, struct chan, link));
    }
    if (s->spare != NULL) {
        free_spare(s);
    }
}
