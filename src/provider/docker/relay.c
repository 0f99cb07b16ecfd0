/*
 * relay.c - the one long exec in a container over which this process speaks with its agent.
 *
 * The call that needs a box first opens it: an exec of "boxinit relay" with attached streams, whose
 * connection becomes a raw stream (http_upgrade()). What the relay writes comes in frames of the engine's, eight
 * bytes with the stream and a length before each piece; what we write goes as it is. From the first
 * line on, the marker, it is agent/mux.h, driven by a thread of its own; calls hand it their end of
 * a socket pair and wake it. The thread ends when the stream does: by the container's end, the engine's, or ours.
 *
 * Whoever finds the relay ended opens another one; one at a time, the others wait. Why it cannot be opened is the
 * answer to whether the box lives, so it is looked up and told.
 *
 * A container that is paused says nothing of it, and would do what it is told when it goes on, long after its
 * caller was answered. So the engine's events of pausing are listened to beside the relay. What they say is not
 * read: whatever comes, the next call looks how the container is before it says anything.
 */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/mux.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/own.h"
#include "base/percent.h"
#include "base/plain.h"
#include "base/thread.h"
#include "provider/docker/docker.h"

#define MARKER_DIGITS 32
#define READ_SIZE     (128u << 10)
#define GREET_MS      30000
#define GAP_MS        5
#define SETTLE_MS     5000
#define SETTLE_GAP_MS 50
#define LEFT_FOR_ALL  16 /* conversations that are never given: kills need some */
#define COMPLAINT     200
#define BLANK         "\r\n\r\n"

struct relay {
    struct wire wire;
    struct wire news; /* the engine's events of this container; none is fine */
    size_t n_blank;   /* of BLANK, the end of that answer's head, how much has come */
    atomic_bool has_news;
    int wake;
    pthread_t thread;
    /* guarded by lock: */
    pthread_mutex_t lock;
    bool is_over, is_stopping;
    int *fresh; /* sockets that the thread has not seen yet */
    size_t n_fresh, cap_fresh;
    unsigned n_open;
    /* of the thread alone, and before it of who opens: */
    struct mux *mux;
    struct frames frames;
    char marker[MARKER_DIGITS + 2];
    size_t n_marked; /* of the marker that came */
    struct buf said; /* on stderr */
};

static void relay_free(struct relay *r)
{
    for (size_t i = 0; i < r->n_fresh; i++) {
        (void)close(r->fresh[i]);
    }
    free(r->fresh);
    mux_free(r->mux);
    wire_close(&r->wire);
    wire_close(&r->news);
    if (r->wake >= 0) {
        (void)close(r->wake);
    }
    buf_fini(&r->said);
    (void)pthread_mutex_destroy(&r->lock);
    free(r);
}

/* ---- what comes --------------------------------------------------------------------------------- */

/* The marker is looked for byte by byte; after it, all is the mux's. */
static int take_output(struct relay *r, struct str bytes, struct err *e)
{
    size_t whole = MARKER_DIGITS + 1;

    while (bytes.len > 0 && r->n_marked < whole) {
        if (bytes.p[0] != r->marker[r->n_marked]) {
            return err_set(e, ERR_PROTOCOL,
                           "the agent in the container greets with something else");
        }
        r->n_marked++;
        bytes = str_skip(bytes, 1);
    }
    return bytes.len > 0 ? mux_feed(r->mux, bytes, e) : 0;
}

static int take_piece(void *arg, enum stream from, struct str bytes, struct err *e)
{
    struct relay *r = arg;

    if (from == STREAM_OUT) {
        return take_output(r, bytes, e);
    }
    buf_add(&r->said, bytes);
    return 0;
}

/* 1: something came; 0: nothing for now. */
static int receive(struct relay *r, char *room, struct err *e)
{
    ssize_t n = wire_recv(&r->wire, room, READ_SIZE, e);

    if (n <= 0) {
        return (int)n;
    }
    return frames_take(&r->frames, (struct str){room, (size_t)n}, take_piece, r, e) < 0 ? -1 : 1;
}

/* The head of the answer is none. When they end, the next call looks once more, and later ones do not. */
static void take_news(struct relay *r, char *room)
{
    struct err ignored;
    ssize_t n = wire_recv(&r->news, room, READ_SIZE, &ignored);
    ssize_t head = 0;

    while (head < n && r->n_blank < sizeof(BLANK) - 1) {
        char c = room[head++];

        r->n_blank = c == BLANK[r->n_blank] ? r->n_blank + 1 : c == BLANK[0] ? 1 : 0;
    }
    if (n < 0) {
        wire_close(&r->news);
    }
    if (n < 0 || head < n) {
        atomic_store(&r->has_news, true);
    }
}

/* ---- the thread ---------------------------------------------------------------------------------- */

/* False: it is to end. */
static bool take_fresh(struct relay *r)
{
    struct err ignored;
    LOCKED(&r->lock);

    for (size_t i = 0; i < r->n_fresh; i++) {
        (void)!mux_open(r->mux, r->fresh[i], &ignored);
    }
    r->n_fresh = 0;
    r->n_open = mux_count(r->mux);
    return !r->is_stopping;
}

static int give(struct relay *r, struct err *e)
{
    struct str out = mux_out(r->mux);

    while (out.len > 0) {
        ssize_t n = wire_send(&r->wire, out, e);

        if (n <= 0) {
            return (int)n;
        }
        mux_sent(r->mux, (size_t)n);
        out = mux_out(r->mux);
    }
    return 0;
}

static int turn(struct relay *r, char *room, struct err *e)
{
    bool unsent = mux_out(r->mux).len > 0;
    struct pollfd fds[4] = {
        {.fd = r->wire.fd, .events = (short)(unsent ? POLLIN | POLLOUT : POLLIN)},
        {.fd = mux_fd(r->mux), .events = POLLIN},
        {.fd = r->wake, .events = POLLIN},
        {.fd = r->news.fd, .events = POLLIN},
    };
    const struct ctx forever = {0};
    uint64_t times;
    int came = 1;

    if (!r->wire.has_more && !r->news.has_more && ctx_wait(&forever, fds, COUNTOF(fds), 0, e) < 0) {
        return -1;
    }
    if (fds[2].revents != 0) {
        (void)!read(r->wake, &times, sizeof(times));
    }
    if (!take_fresh(r)) {
        return err_set(e, ERR_CANCELLED, "stopped");
    }
    if (fds[1].revents != 0) {
        mux_turn(r->mux);
    }
    if (fds[3].revents != 0 || r->news.has_more) {
        take_news(r, room);
    }
    if (r->wire.has_more || fds[0].revents != 0) {
        came = receive(r, room, e);
    }
    return came < 0 ? -1 : give(r, e);
}

static void *run(void *arg)
{
    struct relay *r = arg;
    char *room own_mem = xmalloc(READ_SIZE);
    struct err e;
    int rc = 0;

    while (rc == 0) {
        rc = turn(r, room, &e);
    }
    lock(&r->lock);
    r->is_over = true;
    for (size_t i = 0; i < r->n_fresh; i++) {
        (void)close(r->fresh[i]);
    }
    r->n_fresh = 0;
    unlock(&r->lock);
    mux_free(r->mux); /* all conversations see their end */
    r->mux = NULL;
    wire_close(&r->wire);
    wire_close(&r->news);
    return NULL;
}

/* ---- opening -------------------------------------------------------------------------------------- */

static int make_exec(struct docker *d, const struct ctx *ctx, const struct docker_box *db,
                     const char *marker, struct str *out, bool *again, struct err *e)
{
    const struct exec_order order = {
        .doing = "cannot reach its agent",
        .command = arena_printf(ctx->arena,
                                "[\"" AGENT_DIR "/boxinit\",\"relay\",\"--socket\",\"" AGENT_DIR
                                "/run\",\"--marker\",\"%.*s\"]",
                                MARKER_DIGITS, marker),
        .has_input = true,
    };

    return exec_make(d, ctx, db, &order, out, again, e);
}

static int start_exec(struct docker *d, const struct ctx *ctx, struct str exec, struct relay *r,
                      struct err *e)
{
    struct str rest = STR_EMPTY;

    return exec_start(d, ctx, exec, "cannot reach its agent", &r->wire, &rest, e) < 0
               ? -1
               : frames_take(&r->frames, rest, take_piece, r, e);
}

/* The relay could not be run, or ended before it greeted. */
static int complain(struct docker *d, const struct ctx *ctx, const struct docker_box *db,
                    const struct relay *r, bool *again, struct err *e)
{
    struct buf text own_buf = {0};
    struct str rest;

    if (e->kind == ERR_CANCELLED || e->kind == ERR_TIMEOUT) {
        return -1;
    }
    struct err why = *e;
    if (container_usable(d, ctx, str_from(db->id), e) < 0) {
        return -1;
    }
    *e = why;
    *again = true;
    buf_init(&text, COMPLAINT);
    plain_text(str_cut(str_trim(buf_str(&r->said)), '\n', &rest), &text);
    if (text.len > 0) {
        return err_set(e, ERR_UNREACHABLE, "its agent cannot be reached: %.*s",
                       STR_ARG(str_trim(buf_str(&text))));
    }
    return -1;
}

static int greet(struct relay *r, const struct ctx *ctx, struct err *e)
{
    int64_t until_ms = clock_mono_ms() + GREET_MS;
    char *room own_mem = xmalloc(READ_SIZE);

    while (r->n_marked < MARKER_DIGITS + 1) {
        struct pollfd p = {.fd = r->wire.fd, .events = POLLIN};
        int came = receive(r, room, e);

        if (came < 0) {
            return -1;
        }
        if (came > 0 || r->wire.has_more) {
            continue;
        }
        int ready = ctx_wait(ctx, &p, 1, until_ms, e);
        if (ready <= 0) {
            return ready < 0
                       ? -1
                       : err_set(e, ERR_UNREACHABLE,
                                 "its agent does not answer: it is stopped, or it has too much "
                                 "to do; try again later, or delete it");
        }
    }
    return 0;
}

/* An engine that does not tell of events is used without. */
static void listen_for_news(struct docker *d, const struct ctx *ctx, const struct docker_box *db,
                            struct relay *r)
{
    struct buf path own_buf = {0};
    struct where where;
    struct err ignored;

    buf_init(&path, 1024);
    buf_add(&path, S("/events?filters="));
    percent_add(&path,
                arena_printf(ctx->arena,
                             "{\"container\":[\"%s\"],\"event\":[\"pause\",\"unpause\"]}", db->cid),
                false);
    struct http_req req = {.method = "GET", .path = buf_str(&path)};
    if (engine_where(d, ctx->arena, &where, &ignored) == 0) {
        (void)!http_begin(&where, ctx, &req, &r->news, &ignored);
    }
}

/* *again: it failed though the engine says that the container runs. */
static struct relay *relay_open(struct docker *d, const struct ctx *ctx,
                                const struct docker_box *db, bool *again, struct err *e)
{
    struct relay *r = xcalloc(1, sizeof(*r));
    struct str exec = STR_EMPTY;

    r->wire = WIRE_NONE;
    r->news = WIRE_NONE;
    (void)pthread_mutex_init(&r->lock, NULL);
    buf_init(&r->said, 4096);
    id_hex(r->marker, MARKER_DIGITS / 2);
    r->marker[MARKER_DIGITS] = '\n';
    r->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    r->mux = r->wake >= 0 ? mux_new(NULL, NULL, e) : NULL;
    if (r->wake < 0) {
        (void)err_sys(e, errno, "cannot make an event");
    }
    if (r->mux != NULL) {
        listen_for_news(d, ctx, db, r);
    }
    int rc = r->mux == NULL ? -1 : make_exec(d, ctx, db, r->marker, &exec, again, e);
    if (rc == 0 && (start_exec(d, ctx, exec, r, e) < 0 || greet(r, ctx, e) < 0)) {
        rc = complain(d, ctx, db, r, again, e);
    }
    if (rc < 0 || thread_start(&r->thread, "docker", run, r, e) < 0) {
        relay_free(r);
        return NULL;
    }
    return r;
}

/* A container whose first process has just died is running for a moment more, as the engine tells it:
 * why it ended is known a little later. */
static struct relay *relay_open_settled(struct docker *d, const struct ctx *ctx,
                                        const struct docker_box *db, struct err *e)
{
    int64_t until_ms = clock_mono_ms() + SETTLE_MS;

    for (;;) {
        bool again = false;
        struct relay *r = relay_open(d, ctx, db, &again, e);
        struct err over;

        if (r != NULL || !again || clock_mono_ms() >= until_ms) {
            return r;
        }
        if (ctx_wait(ctx, NULL, 0, clock_mono_ms() + SETTLE_GAP_MS, &over) < 0) {
            *e = over;
            return NULL;
        }
    }
}

void relay_stop(struct relay *r)
{
    uint64_t one = 1;

    if (r == NULL) {
        return;
    }
    lock(&r->lock);
    r->is_stopping = true;
    unlock(&r->lock);
    (void)!write(r->wake, &one, sizeof(one));
    (void)pthread_join(r->thread, NULL);
    relay_free(r);
}

/* ---- conversations ---------------------------------------------------------------------------------- */

static bool is_over(struct relay *r)
{
    LOCKED(&r->lock);

    return r->is_over;
}

/* The box's lock is held, so that nobody stops it meanwhile. */
static int hand_over(struct relay *r, int fd, struct err *e)
{
    uint64_t one = 1;
    LOCKED(&r->lock);

    if (r->is_over) {
        return err_set(e, ERR_UNREACHABLE, "the connection to the container's agent was lost");
    }
    if (r->n_open + r->n_fresh + LEFT_FOR_ALL >= MUX_STREAMS) {
        return err_set(e, ERR_LIMIT, "too many requests to the sandbox are under way");
    }
    if (r->n_fresh == r->cap_fresh) {
        r->cap_fresh = r->cap_fresh > 0 ? 2 * r->cap_fresh : 8;
        r->fresh = xrealloc(r->fresh, r->cap_fresh, sizeof(*r->fresh));
    }
    r->fresh[r->n_fresh++] = fd;
    (void)!write(r->wake, &one, sizeof(one));
    return 0;
}

/* 1: there is a relay; 0: this call has to open one, and nobody else will. */
static int wait_turn(struct docker_box *db, const struct ctx *ctx, struct err *e)
{
    struct relay *old = NULL;

    for (;;) {
        lock(&db->lock);
        bool is_busy = db->is_opening;
        bool is_there = !is_busy && db->relay != NULL && !is_over(db->relay);
        if (!is_busy && !is_there) {
            db->is_opening = true;
            old = take(db->relay);
        }
        unlock(&db->lock);
        if (!is_busy) {
            relay_stop(old);
            return is_there ? 1 : 0;
        }
        if (ctx_wait(ctx, NULL, 0, clock_mono_ms() + GAP_MS, e) < 0) {
            return -1;
        }
    }
}

static int ensure_relay(struct docker_box *db, const struct ctx *ctx, struct err *e)
{
    struct docker *d = docker_of(db->agent.box.provider);
    int there = wait_turn(db, ctx, e);

    if (there != 0) {
        return there < 0 ? -1 : 0;
    }
    struct relay *r = relay_open_settled(d, ctx, db, e);
    LOCKED(&db->lock);
    db->relay = r;
    db->is_opening = false;
    return r != NULL ? 0 : -1;
}

static bool swap_news(struct docker_box *db, bool now)
{
    LOCKED(&db->lock);

    return db->relay != NULL && atomic_exchange(&db->relay->has_news, now);
}

/* Whoever is told that it is paused leaves the news to the next call. */
static int heed_news(struct docker_box *db, const struct ctx *ctx, struct err *e)
{
    if (!swap_news(db, false) ||
        container_usable(docker_of(db->agent.box.provider), ctx, str_from(db->id), e) == 0) {
        return 0;
    }
    (void)swap_news(db, true);
    return -1;
}

int docker_connect(struct box *b, const struct ctx *ctx, struct err *e)
{
    struct docker_box *db = docker_box_of(b);
    int ends[2];

    if (ensure_relay(db, ctx, e) < 0 || heed_news(db, ctx, e) < 0) {
        return -1;
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0) {
        return err_sys(e, errno, "cannot make a socket pair");
    }
    int ours own_fd = ends[0];
    int theirs own_fd = ends[1];
    LOCKED(&db->lock);
    if (db->relay == NULL) {
        return err_set(e, ERR_UNREACHABLE, "the connection to the container's agent was lost");
    }
    if (hand_over(db->relay, theirs, e) < 0) {
        return -1;
    }
    (void)take_fd(&theirs);
    return take_fd(&ours);
}
