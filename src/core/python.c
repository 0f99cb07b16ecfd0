/* python.c - the two ways to a box's interpreter, see python.h. */
#include "core/python.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/list.h"
#include "base/own.h"
#include "base/thread.h"
#include "core/python_driver.h"

#define REST_MS    45000 /* the keeper closes a connection that has rested for a minute */
#define WAYS_MAX   64    /* boxes whose interpreters are remembered */
#define SILENCE_MS 30000 /* the keeper says something every 5 s */
#define DIAL_MS    10000
#define CANCEL_MS  10000
#define HOLD_MS    10000
#define SAID_MAX   2048 /* of what a driver that fails prints */
#define READ_SIZE  (64u << 10)

/* What is known of one box's interpreter. */
struct python_way {
    struct list link; /* pythons.known, the latest used last */
    char *id, *socket;
    int fd;           /* a connection that nobody uses; -1: none */
    int64_t rests_ms; /* since when */
    bool began;       /* it has run code */
};

struct pythons {
    pthread_mutex_t lock;
    struct list known;
    unsigned n;
};

/* One call. */
struct run {
    struct pythons *all;
    struct box *box;
    struct str id;
    const struct ctx *ctx;
    const struct python_order *order;
    struct python_result *out;
    struct python_reader reader;
    struct buf request;
    struct buf said; /* by the driver, on stderr */
    char token[33];
    struct str frames; /* for the driver: what is left of them */
    size_t sent;       /* of request, over the socket */
};

/* ---- what is remembered ------------------------------------------------------------ */

static void forget(struct pythons *all, struct python_way *k)
{
    list_del(&k->link);
    all->n--;
    if (k->fd >= 0) {
        (void)close(k->fd);
    }
    free(k->id);
    free(k->socket);
    free(k);
}

struct pythons *pythons_new(void)
{
    struct pythons *all = xcalloc(1, sizeof(*all));

    (void)pthread_mutex_init(&all->lock, NULL);
    list_init(&all->known);
    return all;
}

void pythons_free(struct pythons *all)
{
    if (all == NULL) {
        return;
    }
    while (!list_empty(&all->known)) {
        forget(all, list_entry(all->known.next, struct python_way, link));
    }
    (void)pthread_mutex_destroy(&all->lock);
    free(all);
}

/* With the lock. */
static struct python_way *find(struct pythons *all, struct str id)
{
    struct list *pos;

    list_each (pos, &all->known) {
        struct python_way *k = list_entry(pos, struct python_way, link);

        if (str_eq(str_from(k->id), id)) {
            return k;
        }
    }
    return NULL;
}

/* A free connection, or -1 with the socket's path where that is known. */
static int take_way(const struct run *r, struct str *path)
{
    struct python_way *k;

    LOCKED(&r->all->lock);
    k = find(r->all, r->id);
    if (k == NULL) {
        return -1;
    }
    *path = arena_str(r->ctx->arena, str_from(k->socket));
    if (k->fd >= 0 && clock_mono_ms() - k->rests_ms > REST_MS) {
        (void)close(take_fd(&k->fd));
    }
    return take_fd(&k->fd);
}

static bool is_known(const struct run *r)
{
    LOCKED(&r->all->lock);
    return find(r->all, r->id) != NULL;
}

static struct python_way *add_known(struct pythons *all, struct str id)
{
    struct python_way *k = xcalloc(1, sizeof(*k));

    if (all->n >= WAYS_MAX) {
        forget(all, list_entry(all->known.next, struct python_way, link));
    }
    k->id = xmemdup(id.p, id.len);
    k->socket = xstrdup("");
    k->fd = -1;
    list_add_tail(&all->known, &k->link);
    all->n++;
    return k;
}

/* After a call that went well; the connection (or -1) is kept for the next one. */
static void remember(struct run *r, int fd)
{
    struct python_way *k;

    LOCKED(&r->all->lock);
    k = find(r->all, r->id);
    if (k == NULL) {
        k = add_known(r->all, r->id);
    }
    list_del(&k->link);
    list_add_tail(&r->all->known, &k->link);
    if (r->reader.socket.len > 0) {
        free(k->socket);
        k->socket = xmemdup(r->reader.socket.p, r->reader.socket.len);
    }
    if (fd >= 0 && k->fd < 0) {
        k->fd = fd;
        k->rests_ms = clock_mono_ms();
    } else if (fd >= 0) {
        (void)close(fd);
    }
    if (r->reader.done && (r->out->end == PYTHON_ENDED || r->out->end == PYTHON_LEFT)) {
        r->out->lost_state = k->began && r->reader.first && !r->order->reset;
        k->began = !r->out->restarted;
    }
}

static void add_frame(struct buf *to, char kind, struct str payload)
{
    size_t size = payload.len + 1;

    for (int shift = 24; shift >= 0; shift -= 8) {
        buf_addc(to, (char)(size >> shift & 0xff));
    }
    buf_addc(to, kind);
    buf_add(to, payload);
}

/* ---- by a command ------------------------------------------------------------------ */

static ssize_t read_request(void *arg, char *to, size_t cap, struct err *e)
{
    struct run *r = arg;
    struct str part = str_head(r->frames, cap);

    (void)e;
    if (part.len > 0) {
        memcpy(to, part.p, part.len);
    }
    r->frames = str_skip(r->frames, part.len);
    return (ssize_t)part.len;
}

static int hear_command(void *arg, enum stream from, struct str bytes, struct err *e)
{
    struct run *r = arg;

    if (from == STREAM_ERR) {
        buf_add(&r->said, bytes);
        return 0;
    }
    return python_reader_feed_text(&r->reader, bytes, e);
}

static int no_python(struct err *e)
{
    return err_set(e, ERR_NOT_FOUND,
                   "there is no python3 in this sandbox: install it (3.7 or later), or use a "
                   "sandbox that has it; exec_bash works without");
}

/* The driver ended without the end of the call. */
static int broke_off(struct run *r, const struct exec_result *result, struct err *e)
{
    struct str said = str_trim(buf_str(&r->said));

    if (!r->reader.heard && (result->code == 127 || result->code == 126)) {
        return no_python(e);
    }
    for (struct str rest = said; rest.p != NULL;) {
        struct str line = str_trim(str_cut(rest, '\n', &rest));

        said = line.len > 0 ? line : said; /* the last one says it */
    }
    r->out->sent = r->reader.heard;
    return err_set(e, r->reader.heard ? ERR_UNREACHABLE : ERR_SYSTEM,
                   "the sandbox's Python interpreter %s (exit code %d)%s%.*s",
                   r->reader.heard ? "was lost"
                                   : "could not be started (it needs python3 3.7 or "
                                     "later)",
                   result->code, said.len > 0 ? ": " : "", STR_ARG(str_head(said, 300)));
}

static struct str whose_env(const struct run *r)
{
    return arena_printf(r->ctx->arena, "ANYBOX_WHOSE=%.*s", STR_ARG(r->order->whose));
}

/* The driver, with these frames for the keeper; without any it only tells where that is. */
static int run_driver(struct run *r, struct str frames, struct err *e)
{
    const struct str argv[] = {S("python3"), S("-c"), str_from(python_driver)};
    const struct source input = {.read = read_request, .arg = r, .fd = -1};
    const struct sink sink = {.write = hear_command, .arg = r};
    const struct str env[] = {whose_env(r)};
    const struct exec_req req = {.shell = SHELL_NONE,
                                 .argv = argv,
                                 .n_argv = COUNTOF(argv),
                                 .env = env,
                                 .n_env = COUNTOF(env),
                                 .input = &input};
    struct exec_result result = {0};

    r->frames = frames;
    buf_clear(&r->reader.got); /* where another one broke off */
    r->reader.n_group = 0;
    if (box_exec(r->box, r->ctx, &req, &sink, &result, e) < 0) {
        r->out->sent = frames.len > 0 && e->kind == ERR_UNREACHABLE && !result.not_sent;
        return e->kind == ERR_NOT_FOUND ? no_python(e) : -1;
    }
    if (r->reader.socket.len == 0 || (frames.len > 0 && !r->reader.done)) {
        return broke_off(r, &result, e);
    }
    return 0;
}

/* Whoever passed the call on was killed, which the keeper takes for a client that has gone. */
static void cancel_by_command(struct run *r)
{
    const struct ctx quiet = {.arena = r->ctx->arena, .deadline_ms = clock_mono_ms() + CANCEL_MS};
    const struct ctx *given = r->ctx;
    struct buf frame own_buf = {0};
    struct err ignored = {0};

    buf_init(&frame, 64);
    add_frame(&frame, 'K', str_from(r->token));
    r->ctx = &quiet;
    (void)!run_driver(r, buf_str(&frame), &ignored);
    r->ctx = given;
}

static int run_by_command(struct run *r, struct err *e)
{
    if (run_driver(r, buf_str(&r->request), e) < 0) {
        if (e->kind == ERR_CANCELLED || e->kind == ERR_TIMEOUT) {
            cancel_by_command(r);
        }
        return -1;
    }
    remember(r, -1);
    return 0;
}

/* ---- code that is left ------------------------------------------------------------- */

struct holding {
    bool is_held;
};

/* The driver has read all that it was given before it says anything. */
static int hear_holder(void *arg, enum stream from, struct str bytes, struct err *e)
{
    struct holding *h = arg;

    (void)e;
    h->is_held = h->is_held || (from == STREAM_OUT && bytes.len > 0);
    return 0;
}

/* Where it fails, the box may end for want of use while the code runs: no reason to fail the call. */
static void hold(struct run *r)
{
    const struct str argv[] = {S("python3"), S("-c"), str_from(python_driver)};
    const struct source input = {.read = read_request, .arg = r, .fd = -1};
    const struct str env[] = {whose_env(r)};
    const struct ctx quiet = {.arena = r->ctx->arena, .deadline_ms = clock_mono_ms() + HOLD_MS};
    struct holding holding = {false};
    const struct sink sink = {.write = hear_holder, .arg = &holding};
    const struct exec_req req = {.shell = SHELL_NONE,
                                 .argv = argv,
                                 .n_argv = COUNTOF(argv),
                                 .env = env,
                                 .n_env = COUNTOF(env),
                                 .input = &input,
                                 .leave = &holding.is_held};
    struct exec_result ignored_result;
    struct err ignored = {0};
    struct buf frame own_buf = {0};

    if (r->box->provider->ops->factory == NULL || r->box->provider->ops->tasks == NULL) {
        return; /* it does not end by itself */
    }
    buf_init(&frame, 16);
    add_frame(&frame, 'H', STR_EMPTY);
    r->frames = buf_str(&frame);
    (void)!box_exec(r->box, &quiet, &req, &sink, &ignored_result, &ignored);
}

/* ---- over the socket --------------------------------------------------------------- */

/* Nothing is said on a connection that rests: what can be read from it is its end. */
static bool is_fresh(int fd)
{
    char byte;

    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && (errno == EAGAIN || errno == EINTR);
}

/* A connection to the keeper. 0: the other way; -1: neither will do. */
static int open_way(const struct run *r, int *fd, struct err *e)
{
    struct ctx bounded = *r->ctx;
    struct str path = STR_EMPTY;
    int64_t until_ms = clock_mono_ms() + DIAL_MS;

    *fd = take_way(r, &path);
    if (*fd >= 0 && is_fresh(*fd)) {
        return 1;
    }
    if (*fd >= 0) {
        (void)close(*fd);
    }
    if (path.len == 0) {
        return 0;
    }
    if (bounded.deadline_ms == 0 || until_ms < bounded.deadline_ms) {
        bounded.deadline_ms = until_ms;
    }
    *fd = box_unix_dial(r->box, &bounded, path, e);
    if (*fd >= 0) {
        return 1;
    }
    return e->kind == ERR_GONE || e->kind == ERR_CANCELLED ? -1 : 0;
}

/* Where no socket is known, or nobody listens there any more, the keeper is started first: code goes by a
 * command only where there is no other way, because the end of one that its server left is nobody's. */
static int find_way(struct run *r, int *fd, struct err *e)
{
    int rc;

    e->kind = ERR_NONE;
    rc = open_way(r, fd, e);
    bool is_absent = e->kind == ERR_NOT_FOUND || !is_known(r);
    const struct port_ops *ports = r->box->provider->ops->ports;
    if (rc != 0 || !is_absent || ports == NULL || ports->dial_unix == NULL) {
        return rc;
    }
    if (run_driver(r, STR_EMPTY, e) < 0) {
        return -1;
    }
    remember(r, -1);
    return open_way(r, fd, e);
}

static int send_more(struct run *r, int fd, struct err *e)
{
    while (r->sent < r->request.len) {
        ssize_t n =
            send(fd, r->request.p + r->sent, r->request.len - r->sent, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n < 0 && errno == EAGAIN) {
            return 0;
        }
        if (n < 0 && errno != EINTR) {
            return err_set(e, ERR_UNREACHABLE, "the connection to the interpreter was lost");
        }
        if (n > 0) {
            r->out->sent = true;
            r->sent += (size_t)n;
        }
    }
    return 0;
}

/* 1: something came; 0: nothing was there. */
static int hear_more(struct run *r, int fd, struct err *e)
{
    char bytes[READ_SIZE];
    ssize_t n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return 0;
    }
    if (n <= 0) {
        return err_set(e, ERR_UNREACHABLE,
                       "the connection to the sandbox's interpreter ended before its answer");
    }
    return python_reader_feed(&r->reader, (struct str){bytes, (size_t)n}, e) < 0 ? -1 : 1;
}

static int exchange(struct run *r, int fd, struct err *e)
{
    int64_t silent_ms = clock_mono_ms() + SILENCE_MS;

    while (!r->reader.done) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int rc;

        if (send_more(r, fd, e) < 0) {
            return -1;
        }
        p.events = (short)(POLLIN | (r->sent < r->request.len ? POLLOUT : 0));
        rc = ctx_wait(r->ctx, &p, 1, silent_ms, e);
        if (rc < 0) {
            return -1;
        }
        if (rc == 0) {
            return err_set(e, ERR_UNREACHABLE,
                           "the sandbox's interpreter has not been heard of for %d s",
                           SILENCE_MS / 1000);
        }
        rc = hear_more(r, fd, e);
        if (rc < 0) {
            return -1;
        }
        silent_ms = rc > 0 ? clock_mono_ms() + SILENCE_MS : silent_ms;
    }
    return 0;
}

static void send_cancel(int fd)
{
    struct buf frame own_buf = {0};

    buf_init(&frame, 16);
    add_frame(&frame, 'K', STR_EMPTY);
    (void)!send(fd, frame.p, frame.len, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* 1: done; 0: the other way; -1. */
static int run_over_socket(struct run *r, struct err *e)
{
    int fd own_fd = -1;
    int rc = find_way(r, &fd, e);

    if (rc <= 0) {
        return rc;
    }
    if (exchange(r, fd, e) == 0) {
        remember(r, take_fd(&fd));
        return 1;
    }
    if (e->kind == ERR_CANCELLED || e->kind == ERR_TIMEOUT) {
        send_cancel(fd);
        return -1;
    }
    /* A connection that had ended before we spoke: nobody has heard of this call. */
    return r->out->sent || e->kind != ERR_UNREACHABLE ? -1 : 0;
}

/* ---- the call ---------------------------------------------------------------------- */

static void put_request(struct run *r, bool once)
{
    const struct python_order *o = r->order;
    struct buf text own_buf = {0};

    id_hex(r->token, 16);
    buf_init(&text, PYTHON_CODE_MAX + 4096);
    buf_addf(&text,
             "token=%s\nreset=%d\ncollect=%d\nonce=%d\ntimeout_ms=%" PRId64 "\nwindow_ms=%" PRId64
             "\nmax_chars=%" PRId64 "\nimage_bytes=%" PRId64 "\n\n",
             r->token, o->reset, o->collect, once, o->timeout_ms, o->window_ms, o->max_chars,
             o->image_bytes);
    buf_add(&text, o->code);
    buf_clear(&r->request);
    add_frame(&r->request, 'C', buf_str(&text));
}

static void run_fini(struct run *r)
{
    python_reader_fini(&r->reader);
    buf_fini(&r->request);
    buf_fini(&r->said);
}

int python_run(struct pythons *all, struct box *b, struct str id, const struct ctx *ctx,
               const struct python_order *order, const struct python_ear *ear,
               struct python_result *out, struct err *e)
{
    struct run r CLEANUP(run_fini) = {
        .all = all, .box = b, .id = id, .ctx = ctx, .order = order, .out = out};
    int rc;

    if (order->code.len > PYTHON_CODE_MAX) {
        return err_set(e, ERR_LIMIT, "the code has %zu bytes; at most %d are accepted",
                       order->code.len, PYTHON_CODE_MAX);
    }
    *out = (struct python_result){0};
    python_reader_init(&r.reader, ctx->arena, ear, out);
    buf_init(&r.request, PYTHON_CODE_MAX + 8192);
    buf_init(&r.said, SAID_MAX);
    put_request(&r, false);
    rc = run_over_socket(&r, e);
    if (rc == 0) {
        put_request(&r, true);
        rc = run_by_command(&r, e);
    }
    if (rc < 0) {
        return -1;
    }
    if (out->end == PYTHON_LEFT) {
        hold(&r);
    }
    if (r.reader.problem.len > 0) {
        return err_set(e, ERR_LIMIT, "the sandbox could not start an interpreter: %.*s",
                       STR_ARG(r.reader.problem));
    }
    return 0;
}
