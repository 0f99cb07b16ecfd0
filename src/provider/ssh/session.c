/* The owner thread of one connection: machine.h tells how it works. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/thread.h"
#include "provider/ssh/machine.h"

#define IDLE_POLL_MS 5000
#define READ_BYTES   (256u << 10)
#define FRESH_MS     1000 /* a host that spoke so lately is there */

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

static int on_wake(socket_t fd, int revents, void *arg)
{
    (void)revents;
    (void)arg;
    event_clear(fd);
    return 0;
}

/* ---- one channel ------------------------------------------------------------------ */

/* libssh keeps a channel until the host has closed it, too, and would go on calling. */
static void free_channel(struct session *s, struct chan *c)
{
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

static int open_channel(struct session *s, struct chan *c)
{
    if (c->channel == NULL) {
        c->channel = s->lib->channel_new(s->ssh);
        if (c->channel == NULL) {
            return SSH_ERROR;
        }
        c->callbacks = (struct ssh_channel_callbacks_struct){
            .size = sizeof(c->callbacks),
            .userdata = c,
            .channel_exit_status_function = on_exit_status,
            .channel_exit_signal_function = on_exit_signal,
        };
        (void)s->lib->set_channel_callbacks(c->channel, &c->callbacks);
    }
    if (c->kind == CHAN_TCP) {
        return s->lib->channel_open_forward(c->channel, c->what, c->port, "127.0.0.1", 0);
    }
    return s->lib->channel_open_session(c->channel);
}

static void ask_alive(struct session *s)
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
            ask_alive(s);
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

        (void)err_set(&e, ERR_UNREACHABLE, "the jump host cannot reach %s port %d: %s", c->what,
                      c->port, why);
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

/* Moves what came into the channel's buffer. True when something did. */
static bool read_stream(struct session *s, struct chan *c, int which)
{
    bool moved = false;

    for (;;) {
        struct buf *to = &c->out[which];
        size_t room = to->max - to->len;

        if (room > READ_BYTES) {
            room = READ_BYTES;
        }
        if (room == 0) {
            return moved;
        }
        char *at = buf_room(to, room);
        int n = s->lib->channel_read_nonblocking(c->channel, at, (uint32_t)room, which);
        if (n <= 0) {
            return moved;
        }
        to->len += (size_t)n;
        moved = true;
    }
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

/* The command has ended and its output was drained, or is held open by what it left behind. */
static bool is_over(struct session *s, struct chan *c, bool moved)
{
    if (s->lib->channel_is_closed(c->channel)) {
        return !moved;
    }
    if (c->kind != CHAN_EXEC || !c->got_exit || moved) {
        c->quiet_since_ms = 0;
        return false;
    }
    if (s->lib->channel_is_eof(c->channel)) {
        return true;
    }
    if (c->quiet_since_ms == 0) {
        c->quiet_since_ms = clock_mono_ms();
    }
    return clock_mono_ms() - c->quiet_since_ms >= LEFTOVER_MS;
}

static bool serve_open(struct session *s, struct chan *c)
{
    lock(&c->lock);
    if (c->is_abandoned) {
        unlock(&c->lock);
        drop(s, c, NULL);
        return true;
    }
    bool came = read_stream(s, c, 0);
    came = read_stream(s, c, 1) || came;
    bool is_full = c->out[0].len >= c->out[0].max || c->out[1].len >= c->out[1].max;
    bool sent = write_input(s, c);
    bool over = !is_full && is_over(s, c, came);
    if (over) {
        c->has_exit = c->got_exit;
        c->exit_code = c->got_code;
        memcpy(c->exit_signal, c->got_signal, sizeof(c->exit_signal));
    } else if (came || (sent && c->in.len < CHAN_IN_MAX / 2)) {
        chan_tell(c);
    }
    unlock(&c->lock);
    if (over) {
        drop(s, c, NULL);
    }
    return came || sent || over;
}

static bool serve(struct session *s, struct chan *c)
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

/* ---- the loop --------------------------------------------------------------------- */

static void take_new(struct session *s)
{
    for (struct chan *c = machine_next(s); c != NULL; c = machine_next(s)) {
        list_add_tail(&s->chans, &c->link);
    }
}

/* Until neither the host nor the calls have anything new: what libssh read for one channel
 * while it served another would else be slept over. */
static void serve_all(struct session *s)
{
    uint64_t before;
    bool moved;

    do {
        struct list *pos, *next;

        before = s->count.in_packets;
        moved = false;
        take_new(s);
        list_each_safe (pos, next, &s->chans) {
            moved = serve(s, list_entry(pos, struct chan, link)) || moved;
        }
    } while (moved || s->count.in_packets != before);
}

/* The server refused a channel just now. */
static bool is_resting(struct session *s)
{
    LOCKED(&s->machine->lock);

    return s->rest_until_ms != 0 && clock_mono_ms() < s->rest_until_ms + REST_MS;
}

/* How long the loop may sleep. */
static int sleep_ms(struct session *s)
{
    struct list *pos;

    if (is_resting(s)) {
        return REST_MS;
    }
    list_each (pos, &s->chans) {
        if (list_entry(pos, struct chan, link)->quiet_since_ms != 0) {
            return LEFTOVER_MS / 3;
        }
    }
    return IDLE_POLL_MS;
}

/* Asks a silent host for a word; -1 when it said none for too long. */
static int check_health(struct session *s, struct err *e)
{
    int64_t now = clock_mono_ms();

    if (s->count.in_packets != s->heard_packets) {
        s->heard_packets = s->count.in_packets;
        s->heard_ms = now;
        s->is_asked = false;
    }
    int64_t silent_ms = now - s->heard_ms;
    if (s->is_asked && silent_ms >= KEEPALIVE_MS + ANSWER_MS) {
        return err_set(e, ERR_UNREACHABLE, "the connection is dead: no answer for %d s",
                       (int)(silent_ms / 1000));
    }
    if (silent_ms >= KEEPALIVE_MS && !s->is_asked) {
        ask_alive(s);
        s->is_asked = true;
    }
    return 0;
}

static bool is_closing(struct session *s)
{
    LOCKED(&s->machine->lock);

    return s->is_closing;
}

static void loop(struct session *s, struct err *e)
{
    char where[WHERE_SIZE];

    while (!is_closing(s)) {
        serve_all(s);
        if (!s->lib->is_connected(s->ssh)) {
            (void)err_set(e, ERR_UNREACHABLE, "the connection to %s was lost",
                          machine_where(s->machine, where));
            return;
        }
        if (check_health(s, e) < 0) {
            return;
        }
        if (s->lib->event_dopoll(s->event, sleep_ms(s)) == SSH_ERROR &&
            !s->lib->is_connected(s->ssh)) {
            serve_all(s); /* what came before the end */
            (void)err_set(e, ERR_UNREACHABLE, "the connection to %s was lost",
                          machine_where(s->machine, where));
            return;
        }
    }
    (void)err_set(e, ERR_CANCELLED, "shutting down");
}

static int prepare(struct session *s, struct err *e)
{
    s->event = s->lib->event_new();
    if (s->event == NULL || s->lib->event_add_session(s->event, s->ssh) != SSH_OK ||
        s->lib->event_add_fd(s->event, s->wake, POLLIN, on_wake, s) != SSH_OK) {
        return err_set(e, ERR_SYSTEM, "libssh cannot watch the connection");
    }
    return 0;
}

/* Before the session goes, with which libssh frees what is left of them. */
static void free_channels(struct session *s)
{
    struct list *pos;

    list_each (pos, &s->chans) {
        free_channel(s, list_entry(pos, struct chan, link));
    }
}

static void clean_up(struct session *s)
{
    if (s->event != NULL) {
        (void)s->lib->event_remove_fd(s->event, s->wake);
        (void)s->lib->event_remove_session(s->event, s->ssh);
        s->lib->event_free(s->event);
    }
    if (s->ssh != NULL) {
        s->lib->silent_disconnect(s->ssh);
        s->lib->free(s->ssh);
    }
    session_hang_up(s);
}

static void *run(void *arg)
{
    struct session *s = arg;
    struct err e = {0};
    bool is_up = session_connect(s, &e) == 0 && prepare(s, &e) == 0;

    if (is_up) {
        s->heard_ms = clock_mono_ms();
        machine_is_ready(s);
        loop(s, &e);
    }
    free_channels(s);
    clean_up(s);
    if (is_up) {
        machine_lost(s, &e);
    } else {
        machine_failed(s, &e);
    }
    return NULL;
}

struct session *session_start(struct machine *m, struct err *e)
{
    const struct libssh *lib = libssh_open(e);

    if (lib == NULL) {
        return NULL;
    }
    struct session *s = xcalloc(1, sizeof(*s));
    s->machine = m;
    s->lib = lib;
    s->fd = -1;
    s->max_chans = CHANNELS_GUESS;
    list_init(&s->chans);
    s->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->wake < 0) {
        (void)err_sys(e, errno, "make an event descriptor");
        free(s);
        return NULL;
    }
    if (thread_start(&s->thread, "ssh", run, s, e) < 0) {
        (void)close(s->wake);
        free(s);
        return NULL;
    }
    return s;
}

void session_join(struct session *s)
{
    (void)pthread_join(s->thread, NULL);
    (void)close(s->wake);
    free(s);
}
