/* The owner thread of one connection: machine.h tells how it works. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/thread.h"
#include "provider/ssh/lanes.h"
#include "provider/ssh/machine.h"
#include "provider/ssh/serve.h"

#define IDLE_POLL_MS 5000
#define READS_MAX    64 /* of the socket, before channels are served */

static int on_wake(socket_t fd, int revents, void *arg)
{
    (void)revents;
    (void)arg;
    event_clear(fd);
    return 0;
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
            moved = serve_chan(s, list_entry(pos, struct chan, link)) || moved;
        }
        serve_spare(s); /* this reads, too */
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
        serve_ask_alive(s);
        s->is_asked = true;
    }
    return 0;
}

static bool is_closing(struct session *s)
{
    LOCKED(&s->machine->lock);

    return s->is_closing;
}

/* Sleeps, then takes in what came: libssh reads a few KiB at a time, and more is better served
 * at once. */
static int wait_and_read(struct session *s)
{
    int rc = s->lib->event_dopoll(s->event, sleep_ms(s));
    uint64_t before = 0;

    for (int i = 0; rc != SSH_ERROR && i < READS_MAX && s->count.in_bytes != before; i++) {
        before = s->count.in_bytes;
        rc = s->lib->event_dopoll(s->event, 0);
    }
    return rc;
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
        if (session_is_unused(s)) {
            (void)err_set(e, ERR_UNREACHABLE, "a connection for large files was not used any more");
            return;
        }
        if (wait_and_read(s) == SSH_ERROR && !s->lib->is_connected(s->ssh)) {
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
        s->heard_ms = s->used_ms = clock_mono_ms();
        /* A jump host need not run commands, and a lane runs one. */
        s->wants_spare = s->machine->name.len > 0 && !s->machine->is_lane;
        session_measure(s);
        machine_is_ready(s);
        loop(s, &e);
    }
    serve_forget(s);
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
    struct session *s = xcalloc(1, sizeof(*s));
    s->machine = m;
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
