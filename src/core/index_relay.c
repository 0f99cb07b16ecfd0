#include "core/index_relay.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/list.h"
#include "base/log.h"
#include "base/own.h"
#include "base/thread.h"
#include "core/index_page.h"
#include "core/relay_driver.h"
#include "provider/provider.h"

#define LINE_MAX_BYTES (8u << 10)
#define PART           (64u << 10)
#define PAGE_MAX       (96u << 20)
#define START_MS       30000
#define SECRET_BYTES   24
#define SAID_MAX       1024
#define ARENA_MAX      (8u << 20)

/* ---- answering lines --------------------------------------------------------------------------- */

struct serving {
    int stream;
    const struct ctx *ctx;
    struct index_fetch *fetch;
    bool begun; /* the header of this answer was sent */
};

static int send_all(const struct serving *s, struct str bytes, struct err *e)
{
    while (bytes.len > 0) {
        ssize_t n = send(s->stream, bytes.p, bytes.len, MSG_NOSIGNAL | MSG_DONTWAIT);
        struct pollfd room = {.fd = s->stream, .events = POLLOUT};

        if (n >= 0) {
            bytes = str_skip(bytes, (size_t)n);
        } else if (errno != EAGAIN && errno != EINTR) {
            return err_set(e, ERR_UNREACHABLE, "the relay in the sandbox has ended");
        } else if (ctx_wait(s->ctx, &room, 1, 0, e) < 0) {
            return -1;
        }
    }
    return 0;
}

static int send_frame(const struct serving *s, char kind, struct str payload, struct err *e)
{
    size_t size = payload.len + 1;
    const char head[5] = {(char)(size >> 24), (char)(size >> 16), (char)(size >> 8), (char)size,
                          kind};

    return send_all(s, (struct str){head, sizeof(head)}, e) < 0 ? -1 : send_all(s, payload, e);
}

static int send_head(struct serving *s, int status, int64_t length, const char *text, struct err *e)
{
    char head[sizeof(e->msg) + 64];
    int n = snprintf(head, sizeof(head), "%d %" PRId64 " %s", status, length, text);

    s->begun = true;
    return send_frame(s, 'H', str_head(str_from(head), (size_t)n), e);
}

static int begin_file(void *arg, int64_t length, struct err *e)
{
    return send_head(arg, 200, length, "application/octet-stream", e);
}

static int send_file(void *arg, struct str bytes, struct err *e)
{
    while (bytes.len > 0) {
        struct str part = str_head(bytes, PART);

        if (send_frame(arg, 'D', part, e) < 0) {
            return -1;
        }
        bytes = str_skip(bytes, part.len);
    }
    return 0;
}

static int answer_page(struct serving *s, struct str project, struct err *e)
{
    struct buf page own_buf = {0};

    buf_init(&page, PAGE_MAX);
    if (index_fetch_page(s->fetch, project, &page, e) < 0 ||
        send_head(s, 200, (int64_t)page.len, "text/html; charset=utf-8", e) < 0) {
        return -1;
    }
    return send_file(s, buf_str(&page), e);
}

static int answer_file(struct serving *s, struct str rest, struct err *e)
{
    const struct index_taker to = {.begin = begin_file, .write = send_file, .arg = s};
    struct str more;
    struct str word;
    struct str signature = str_cut(rest, ' ', &more);

    word = str_cut(more, ' ', &more);
    return index_fetch_file(s->fetch, signature, word, str_eq(more, S("metadata")), &to, e);
}

/* -1: the stream is of no use any more. What could not be fetched is an answer. */
static int answer(struct serving *s, struct str line, struct err *e)
{
    struct str rest;
    struct str verb = str_cut(line, ' ', &rest);
    struct err why = {0};
    struct err ended = {0};
    int failed;

    s->begun = false;
    if (str_eq(verb, S("page"))) {
        failed = answer_page(s, rest, &why);
    } else if (str_eq(verb, S("file"))) {
        failed = answer_file(s, rest, &why);
    } else {
        return err_set(e, ERR_PROTOCOL, "the relay in the sandbox said what nobody understands");
    }
    if (ctx_check(s->ctx, e) < 0) {
        return -1;
    }
    if (failed < 0) {
        char quoted[LOG_QUOTE_SIZE];

        log_line(LOG_INFO, "index", "problem=%s", log_quote(str_from(why.msg), quoted));
    }
    if (failed < 0 && !s->begun &&
        send_head(s, why.kind == ERR_NOT_FOUND ? 404 : 502, -1, why.msg, &ended) < 0) {
        return err_set(e, ERR_UNREACHABLE, "%s", ended.msg);
    }
    return send_frame(s, 'E', failed < 0 ? str_from(why.msg) : STR_EMPTY, e);
}

/* The next whole line into `line`; 0 at the end. */
static int read_line(const struct serving *s, struct buf *got, struct buf *line, struct err *e)
{
    for (;;) {
        struct pollfd ready = {.fd = s->stream, .events = POLLIN};
        const char *end = got->len > 0 ? memchr(got->p, '\n', got->len) : NULL;
        char *room;
        ssize_t n;

        if (end != NULL) {
            buf_clear(line);
            buf_add(line, str_head(buf_str(got), (size_t)(end - got->p)));
            buf_drop(got, line->len + 1);
            return 1;
        }
        room = buf_room(got, LINE_MAX_BYTES - got->len);
        if (got->len >= LINE_MAX_BYTES || room == NULL) {
            return err_set(e, ERR_PROTOCOL, "the relay in the sandbox said too long a line");
        }
        if (ctx_wait(s->ctx, &ready, 1, 0, e) < 0) {
            return -1;
        }
        n = recv(s->stream, room, LINE_MAX_BYTES - got->len, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
            return 0;
        }
        got->len += n > 0 ? (size_t)n : 0;
    }
}

static int serve_lines(struct serving *s, void (*on_port)(void *arg, uint16_t port), void *arg,
                       struct err *e)
{
    struct buf got own_buf = {0};
    struct buf line own_buf = {0};
    bool listens = false;
    int more;

    buf_init(&got, LINE_MAX_BYTES + 1);
    buf_init(&line, LINE_MAX_BYTES + 1);
    while ((more = read_line(s, &got, &line, e)) > 0) {
        int64_t port;

        if (listens) {
            if (answer(s, buf_str(&line), e) < 0) {
                return -1;
            }
            continue;
        }
        if (!str_starts(buf_str(&line), S("port ")) ||
            str_to_i64(str_skip(buf_str(&line), 5), 1, 65535, &port, e) < 0) {
            return err_set(e, ERR_PROTOCOL, "the relay in the sandbox did not say where it is");
        }
        listens = true;
        on_port(arg, (uint16_t)port);
    }
    return more;
}

int index_relay_serve(int stream, const struct ctx *ctx, const struct index_conf *conf,
                      struct str secret, void (*on_port)(void *arg, uint16_t port), void *arg,
                      struct err *e)
{
    struct serving s = {.stream = stream, .ctx = ctx, .fetch = index_fetch_new(conf, ctx, e)};
    int failed;

    if (s.fetch == NULL) {
        return -1;
    }
    failed = send_frame(&s, 'T', secret, e) < 0 ? -1 : serve_lines(&s, on_port, arg, e);
    index_fetch_free(s.fetch);
    return failed;
}

/* ---- a relay and its threads --------------------------------------------------------------------- */

struct index_relays {
    pthread_mutex_t lock;
    struct list live;
    unsigned n;
    struct pool *pool;
};

struct index_relay {
    struct list link; /* index_relays.live */
    struct index_relays *all;
    struct box *box;
    struct index_conf conf; /* strings of its own, in texts */
    struct arena texts;
    struct cancel cancel; /* ends it */
    struct cancel known;  /* fired when it listens, or never will */
    struct err why;       /* why it ended; guarded by all->lock */
    atomic_uint refs;     /* both threads, and who started it */
    int ends[2];          /* of the socket pair: the box's, the fetcher's */
    struct buf said;      /* by python3, on stderr */
    atomic_uint port;     /* 0: it does not listen yet */
    char secret[2 * SECRET_BYTES + 1];
};

static void unref(struct index_relay *r)
{
    if (atomic_fetch_sub(&r->refs, 1) != 1) {
        return;
    }
    {
        LOCKED(&r->all->lock);
        list_del(&r->link);
        r->all->n--;
    }
    for (size_t i = 0; i < COUNTOF(r->ends); i++) {
        if (r->ends[i] >= 0) {
            (void)close(r->ends[i]);
        }
    }
    box_unref(r->box);
    cancel_fini(&r->cancel);
    cancel_fini(&r->known);
    buf_fini(&r->said);
    arena_fini(&r->texts);
    free(r);
}

struct index_relays *index_relays_new(void)
{
    struct index_relays *all = xcalloc(1, sizeof(*all));

    (void)pthread_mutex_init(&all->lock, NULL);
    list_init(&all->live);
    all->pool = pool_new("index", 2 * INDEX_RELAYS_MAX);
    return all;
}

void index_relays_free(struct index_relays *all)
{
    struct list *pos;

    if (all == NULL) {
        return;
    }
    lock(&all->lock);
    list_each (pos, &all->live) {
        cancel_fire(&list_entry(pos, struct index_relay, link)->cancel);
    }
    unlock(&all->lock);
    pool_free(all->pool);
    (void)pthread_mutex_destroy(&all->lock);
    free(all);
}

/* The first that goes wrong is the reason for all the rest. */
static void set_why(struct index_relay *r, const struct err *e)
{
    LOCKED(&r->all->lock);
    if (r->why.kind == ERR_NONE) {
        r->why = *e;
    }
}

static void on_port(void *arg, uint16_t port)
{
    struct index_relay *r = arg;

    atomic_store(&r->port, port);
    cancel_fire(&r->known);
}

static void run_fetcher(void *arg)
{
    struct index_relay *r = arg;
    struct arena arena own_arena = {0};
    struct ctx ctx = {.arena = &arena, .cancel = &r->cancel};
    struct err e = {0};

    arena_init(&arena, ARENA_MAX);
    if (index_relay_serve(r->ends[1], &ctx, &r->conf, str_from(r->secret), on_port, r, &e) < 0) {
        set_why(r, &e);
    }
    cancel_fire(&r->cancel);
    unref(r);
}

static ssize_t read_frames(void *arg, char *to, size_t cap, struct err *e)
{
    const struct index_relay *r = arg;
    ssize_t n = recv(r->ends[0], to, cap, MSG_DONTWAIT);

    return n < 0 ? err_sys(e, errno, "the relay's stream") : n;
}

/* A box that asks on without waiting for answers fills the socket, and is cut off. */
static int hear(void *arg, enum stream from, struct str bytes, struct err *e)
{
    struct index_relay *r = arg;

    if (from == STREAM_ERR) {
        buf_add(&r->said, bytes);
        return 0;
    }
    while (bytes.len > 0) {
        ssize_t n = send(r->ends[0], bytes.p, bytes.len, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0 && errno != EINTR) {
            return err_set(e, ERR_PROTOCOL, "the relay in the sandbox said too much");
        }
        bytes = str_skip(bytes, n > 0 ? (size_t)n : 0);
    }
    return 0;
}

static void run_in_box(void *arg)
{
    struct index_relay *r = arg;
    const struct str argv[] = {S("python3"), S("-c"), str_from(relay_driver)};
    const struct source input = {.read = read_frames, .arg = r, .fd = r->ends[0]};
    const struct sink sink = {.write = hear, .arg = r};
    const struct exec_req req = {
        .shell = SHELL_NONE, .argv = argv, .n_argv = COUNTOF(argv), .input = &input};
    struct arena arena own_arena = {0};
    struct ctx ctx = {.arena = &arena, .cancel = &r->cancel};
    struct exec_result result = {0};
    struct err e = {0};

    arena_init(&arena, ARENA_MAX);
    if (box_exec(r->box, &ctx, &req, &sink, &result, &e) == 0) {
        struct str said = str_trim(buf_str(&r->said));

        (void)err_set(&e, result.code == 127 || result.code == 126 ? ERR_NOT_FOUND : ERR_SYSTEM,
                      "the relay to the package index ended with exit code %d%s%.*s", result.code,
                      said.len > 0 ? ": " : "", STR_ARG(str_head(said, 300)));
    }
    set_why(r, &e);
    cancel_fire(&r->known);
    cancel_fire(&r->cancel);
    (void)shutdown(r->ends[0], SHUT_RDWR);
    unref(r);
}

static int make_pair(struct index_relay *r, struct err *e)
{
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, r->ends) < 0) {
        r->ends[0] = r->ends[1] = -1;
        return err_sys(e, errno, "a socket pair");
    }
    return 0;
}

static struct index_relay *make(struct index_relays *all, struct box *b,
                                const struct index_conf *conf, struct err *e)
{
    struct index_relay *r;

    LOCKED(&all->lock);
    if (all->n >= INDEX_RELAYS_MAX) {
        (void)err_set(e, ERR_LIMIT,
                      "%d installs run already, and no more can: wait until one has ended",
                      INDEX_RELAYS_MAX);
        return NULL;
    }
    r = xcalloc(1, sizeof(*r));
    *r = (struct index_relay){.all = all, .ends = {-1, -1}, .conf = *conf};
    if (cancel_init(&r->cancel, e) < 0) {
        free(r);
        return NULL;
    }
    if (cancel_init(&r->known, e) < 0) {
        cancel_fini(&r->cancel);
        free(r);
        return NULL;
    }
    arena_init(&r->texts, ARENA_MAX);
    r->conf.url = arena_str(&r->texts, conf->url);
    r->conf.file_hosts = arena_str(&r->texts, conf->file_hosts);
    buf_init(&r->said, SAID_MAX);
    id_hex(r->secret, SECRET_BYTES);
    box_ref(b);
    r->box = b;
    atomic_init(&r->refs, 1);
    list_add_tail(&all->live, &r->link);
    all->n++;
    return r;
}

/* One thread more; the reference is its own. */
static int run_thread(struct index_relay *r, void (*fn)(void *arg), struct err *e)
{
    atomic_fetch_add(&r->refs, 1);
    if (pool_run(r->all->pool, fn, r, e) < 0) {
        (void)atomic_fetch_sub(&r->refs, 1); /* not the last: who starts it has one */
        return -1;
    }
    return 0;
}

struct index_relay *index_relay_start(struct index_relays *all, struct box *b,
                                      const struct ctx *ctx, const struct index_conf *conf,
                                      struct err *e)
{
    struct index_relay *r;
    struct pollfd known;
    int ready;

    if (index_conf_check(conf, e) < 0) {
        return NULL;
    }
    if (b->provider->ops->input_first) {
        (void)err_set(e, ERR_UNSUPPORTED,
                      "in sandboxes of %s nothing can be told to a running command, so packages "
                      "cannot be passed on to them: the sandbox itself must reach an index whose "
                      "address has no secret in it",
                      b->provider->ops->type);
        return NULL;
    }
    r = make(all, b, conf, e);
    if (r == NULL) {
        return NULL;
    }
    known = (struct pollfd){.fd = r->known.fd, .events = POLLIN};
    if (make_pair(r, e) < 0 || run_thread(r, run_fetcher, e) < 0 ||
        run_thread(r, run_in_box, e) < 0) {
        index_relay_leave(r, true);
        return NULL;
    }
    ready = ctx_wait(ctx, &known, 1, clock_mono_ms() + START_MS, e);
    if (ready == 0) {
        (void)err_set(e, ERR_TIMEOUT, "the relay to the package index did not start in time");
    } else if (ready > 0 && atomic_load(&r->port) == 0) {
        LOCKED(&all->lock);
        *e = r->why;
        ready = -1;
    }
    if (ready <= 0) {
        index_relay_leave(r, true);
        return NULL;
    }
    return r;
}

struct str index_relay_url(const struct index_relay *r, struct arena *a)
{
    return arena_printf(a, "http://127.0.0.1:%u/%s/", (unsigned)atomic_load(&r->port), r->secret);
}

void index_relay_leave(struct index_relay *r, bool now)
{
    if (r == NULL) {
        return;
    }
    if (now) {
        cancel_fire(&r->cancel);
    }
    unref(r);
}
