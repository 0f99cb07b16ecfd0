/* http.c - requests and answers: see http.h. */
#include "provider/docker/http.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/own.h"

#define HEAD_MAX  (64u << 10)
#define PIECE     (64u << 10)
#define KEPT_MAX  (4u << 20)
#define ERROR_MAX (64u << 10) /* of the body of a refusal */
#define SILENT_MS 60000

enum framing {
    FRAMED_NONE, /* no body */
    FRAMED_LENGTH,
    FRAMED_CHUNKS,
    FRAMED_END, /* up to the end of the stream */
};

struct exchange {
    struct wire *wire;
    const struct ctx *ctx;
    const struct http_req *req;
    int64_t silent_ms;
    struct buf in; /* came, and was not looked at */
    struct http_answer *answer;
    struct buf kept;
    enum framing framing;
    uint64_t left; /* of the body, or of the chunk */
};

/* ---- sending ------------------------------------------------------------------------ */

static int stalled(const struct exchange *x, struct err *e)
{
    return err_set(e, ERR_UNREACHABLE,
                   "the container engine has not answered for %lld s: look at its log (journalctl "
                   "-u docker), or start it anew",
                   (long long)(x->silent_ms / 1000));
}

static int wait_for(struct exchange *x, short events, struct err *e)
{
    struct pollfd p = {.fd = x->wire->fd, .events = events};
    int n;

    if (x->wire->has_more && (events & POLLIN) != 0) {
        return 0;
    }
    n = ctx_wait(x->ctx, &p, 1, clock_mono_ms() + x->silent_ms, e);
    return n > 0 ? 0 : n < 0 ? -1 : stalled(x, e);
}

/* 1: all of it went; 0: the other side takes no more, because it has answered already. */
static int send_all(struct exchange *x, struct str bytes, struct err *e)
{
    while (bytes.len > 0) {
        ssize_t n = wire_send(x->wire, bytes, e);

        if (n < 0) {
            return e->sys == EPIPE || e->sys == ECONNRESET ? 0 : -1;
        }
        bytes = str_skip(bytes, (size_t)n);
        if (n == 0 && wait_for(x, POLLOUT, e) < 0) {
            return -1;
        }
    }
    return 1;
}

/* What can be read from the descriptor, in chunks. */
static int send_file(struct exchange *x, struct err *e)
{
    char *bytes own_mem = xmalloc(PIECE);
    struct buf chunk own_buf = {0};
    ssize_t n;
    int rc = 1;

    buf_init(&chunk, PIECE + 64);
    do {
        struct pollfd p = {.fd = x->req->body_fd, .events = POLLIN};

        if (ctx_wait(x->ctx, &p, 1, 0, e) < 0) {
            return -1;
        }
        n = read(x->req->body_fd, bytes, PIECE);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            continue;
        }
        if (n < 0) {
            return err_sys(e, errno, "cannot read what is to be sent to the container engine");
        }
        buf_clear(&chunk);
        buf_addf(&chunk, "%zx\r\n", (size_t)n);
        buf_add(&chunk, (struct str){bytes, (size_t)n});
        buf_add(&chunk, S("\r\n"));
        rc = send_all(x, buf_str(&chunk), e);
    } while (n != 0 && rc > 0);
    return rc;
}

static int send_request(struct exchange *x, bool upgrade, struct err *e)
{
    const struct http_req *q = x->req;
    struct buf head own_buf = {0};
    int rc;

    buf_init(&head, HEAD_MAX);
    buf_addf(&head, "%s %.*s HTTP/1.1\r\nHost: docker\r\nUser-Agent: anybox\r\n", q->method,
             STR_ARG(q->path));
    buf_addf(&head, "Connection: %s\r\n", upgrade ? "Upgrade\r\nUpgrade: tcp" : "close");
    if (q->auth.len > 0) {
        buf_addf(&head, "X-Registry-Auth: %.*s\r\n", STR_ARG(q->auth));
    }
    if (q->type != NULL) {
        buf_addf(&head, "Content-Type: %s\r\n", q->type);
    }
    if (q->body_fd > 0) {
        buf_add(&head, S("Transfer-Encoding: chunked\r\n"));
    } else if (q->type != NULL || strcmp(q->method, "GET") != 0) {
        buf_addf(&head, "Content-Length: %zu\r\n", q->body.len);
    }
    buf_add(&head, S("\r\n"));
    if (head.cut) {
        return err_set(e, ERR_INVALID, "a request to the container engine is too long");
    }
    rc = send_all(x, buf_str(&head), e);
    if (rc > 0) {
        rc = q->body_fd > 0 ? send_file(x, e) : send_all(x, q->body, e);
    }
    return rc < 0 ? -1 : 0;
}

/* ---- receiving ---------------------------------------------------------------------- */

/* Some more bytes into x->in. 0 at the end of the stream. */
static int receive(struct exchange *x, struct err *e)
{
    for (;;) {
        char *room = buf_room(&x->in, PIECE);
        ssize_t n;

        if (room == NULL) {
            return err_set(e, ERR_PROTOCOL,
                           "the container engine's answer has headers without end");
        }
        n = wire_recv(x->wire, room, PIECE, e);
        if (n > 0) {
            x->in.len += (size_t)n;
            return 1;
        }
        if (n < 0) {
            return e->kind == ERR_UNREACHABLE && e->sys == 0 ? 0 : -1;
        }
        if (wait_for(x, POLLIN, e) < 0) {
            return -1;
        }
    }
}

static int broken(struct err *e)
{
    return err_set(e, ERR_UNREACHABLE,
                   "the container engine ended the connection in the middle of an answer: it was "
                   "stopped or started anew; try again");
}

static int unreadable(struct err *e)
{
    return err_set(
        e, ERR_PROTOCOL,
        "what answers at the container engine's address does not speak HTTP as an engine "
        "does: check docker.host or DOCKER_HOST");
}

/* The next line without its end, which is dropped from x->in by the caller: its length with it. */
static int get_line(struct exchange *x, struct str *line, size_t *whole, struct err *e)
{
    for (;;) {
        const char *end = x->in.len > 0 ? memchr(x->in.p, '\n', x->in.len) : NULL;
        int rc;

        if (end != NULL) {
            *whole = (size_t)(end - x->in.p) + 1;
            *line = (struct str){x->in.p, *whole - 1};
            line->len -= line->len > 0 && line->p[line->len - 1] == '\r';
            return 0;
        }
        rc = x->in.len > HEAD_MAX ? unreadable(e) : receive(x, e);
        if (rc <= 0) {
            return rc < 0 ? -1 : broken(e);
        }
    }
}

static int read_status(struct exchange *x, struct err *e)
{
    struct str line = STR_EMPTY;
    size_t whole = 0;
    struct err ignored;
    int64_t status = 0;

    if (get_line(x, &line, &whole, e) < 0) {
        return -1;
    }
    if (!str_starts(line, S("HTTP/1.")) || line.len < 12 ||
        str_to_i64(str_head(str_skip(line, 9), 3), 100, 599, &status, &ignored) < 0) {
        return unreadable(e);
    }
    x->answer->status = (int)status;
    buf_drop(&x->in, whole);
    return 0;
}

static int take_header(struct exchange *x, struct str line, struct err *e)
{
    struct str value;
    struct str name = str_cut(line, ':', &value);
    struct err ignored;
    int64_t n = 0;

    value = str_trim(value);
    if (str_eq_nocase(name, S("Content-Length")) && x->framing != FRAMED_CHUNKS) {
        if (str_to_i64(value, 0, INT64_MAX, &n, &ignored) < 0) {
            return unreadable(e);
        }
        x->framing = FRAMED_LENGTH;
        x->left = (uint64_t)n;
    }
    if (str_eq_nocase(name, S("Transfer-Encoding")) && str_eq_nocase(value, S("chunked"))) {
        x->framing = FRAMED_CHUNKS;
        x->left = 0;
    }
    return 0;
}

/* Up to the empty line. Answers that only tell that another one follows are passed over. */
static int read_head(struct exchange *x, struct err *e)
{
    size_t lines = 0;
    struct str line = STR_EMPTY;
    size_t whole = 0;

    do {
        if (read_status(x, e) < 0) {
            return -1;
        }
        x->framing = FRAMED_END;
        for (;;) {
            if (get_line(x, &line, &whole, e) < 0) {
                return -1;
            }
            if (line.len == 0) {
                buf_drop(&x->in, whole);
                break;
            }
            if (++lines > 200 || take_header(x, line, e) < 0) {
                return lines > 200 ? unreadable(e) : -1;
            }
            buf_drop(&x->in, whole);
        }
    } while (x->answer->status < 200 && x->answer->status != 101);
    if (x->answer->status == 204 || x->answer->status == 304 ||
        strcmp(x->req->method, "HEAD") == 0) {
        x->framing = FRAMED_NONE;
    }
    return 0;
}

static int give_piece(struct exchange *x, struct str piece, struct err *e)
{
    bool is_good = x->answer->status >= 200 && x->answer->status < 300;

    if (is_good && x->req->piece != NULL) {
        return x->req->piece(x->req->arg, piece, e);
    }
    buf_add(&x->kept, piece);
    if (x->kept.cut && is_good) {
        return err_set(e, ERR_LIMIT, "the container engine's answer is longer than %zu bytes",
                       x->kept.max);
    }
    return 0;
}

/* The length of the next chunk; 0: the last one, whose trailer nobody needs. */
static int next_chunk(struct exchange *x, bool is_first, struct err *e)
{
    struct str line = STR_EMPTY;
    size_t whole = 0;
    uint64_t n = 0;

    if (!is_first) {
        if (get_line(x, &line, &whole, e) < 0) {
            return -1;
        }
        buf_drop(&x->in, whole);
    }
    if (get_line(x, &line, &whole, e) < 0) {
        return -1;
    }
    size_t digits = 0;
    while (digits < line.len && digits < 15) {
        const char *hex = "0123456789abcdef";
        const char *at = line.p[digits] != '\0' ? strchr(hex, line.p[digits] | 0x20) : NULL;

        if (at == NULL) {
            break;
        }
        n = n * 16 + (uint64_t)(at - hex);
        digits++;
    }
    buf_drop(&x->in, whole);
    x->left = n;
    return digits > 0 ? 0 : unreadable(e);
}

/* x->left bytes, or for FRAMED_END all that comes. */
static int read_span(struct exchange *x, struct err *e)
{
    while (x->framing == FRAMED_END || x->left > 0) {
        struct str piece = buf_str(&x->in);

        if (piece.len == 0) {
            int rc = receive(x, e);

            if (rc < 0) {
                return -1;
            }
            if (rc == 0) {
                return x->framing == FRAMED_END ? 0 : broken(e);
            }
            continue;
        }
        if (x->framing != FRAMED_END) {
            piece = x->left < piece.len ? str_head(piece, (size_t)x->left) : piece;
            x->left -= piece.len;
        }
        if (give_piece(x, piece, e) < 0) {
            return -1;
        }
        buf_drop(&x->in, piece.len);
    }
    return 0;
}

static int read_body(struct exchange *x, struct err *e)
{
    if (x->framing == FRAMED_NONE) {
        return 0;
    }
    if (x->framing != FRAMED_CHUNKS) {
        return read_span(x, e);
    }
    for (bool is_first = true;; is_first = false) {
        if (next_chunk(x, is_first, e) < 0) {
            return -1;
        }
        if (x->left == 0) {
            return 0;
        }
        if (read_span(x, e) < 0) {
            return -1;
        }
    }
}

/* ---- the ways in -------------------------------------------------------------------- */

static void exchange_init(struct exchange *x)
{
    buf_init(&x->in, HEAD_MAX + 2 * PIECE);
    buf_init(&x->kept, x->req->max > 0 ? x->req->max : KEPT_MAX);
    x->silent_ms = x->req->silent_ms > 0 ? x->req->silent_ms : SILENT_MS;
}

static void exchange_fini(struct exchange *x)
{
    buf_fini(&x->in);
    buf_fini(&x->kept);
}

static int finish(struct exchange *x, struct err *e)
{
    if (read_body(x, e) < 0) {
        return -1;
    }
    x->answer->body = arena_str(x->ctx->arena, buf_str(&x->kept));
    return 0;
}

int http_call(const struct where *to, const struct ctx *ctx, const struct http_req *req,
              struct http_answer *out, struct err *e)
{
    struct wire wire own_wire = WIRE_NONE;
    struct http_answer answer = {0};
    struct exchange x = {.wire = &wire, .ctx = ctx, .req = req, .answer = &answer};
    int rc;

    if (wire_open(&wire, to, ctx, e) < 0) {
        return -1;
    }
    exchange_init(&x);
    rc = send_request(&x, false, e) < 0 || read_head(&x, e) < 0 ? -1 : finish(&x, e);
    exchange_fini(&x);
    if (rc == 0) {
        *out = answer;
    }
    return rc;
}

int http_upgrade(const struct where *to, const struct ctx *ctx, const struct http_req *req,
                 struct wire *w, struct str *rest, struct http_answer *out, struct err *e)
{
    struct wire wire own_wire = WIRE_NONE;
    struct http_answer answer = {0};
    struct exchange x = {.wire = &wire, .ctx = ctx, .req = req, .answer = &answer};
    int rc;

    *w = WIRE_NONE;
    if (wire_open(&wire, to, ctx, e) < 0) {
        return -1;
    }
    exchange_init(&x);
    rc = send_request(&x, true, e) < 0 ? -1 : read_head(&x, e);
    /* Old engines say 200 and mean the same. */
    bool is_raw =
        rc == 0 && (answer.status == 101 || (answer.status == 200 && x.framing == FRAMED_END));
    if (is_raw) {
        *rest = arena_str(ctx->arena, buf_str(&x.in));
        *w = wire;
        wire = WIRE_NONE;
    } else if (rc == 0) {
        rc = finish(&x, e);
    }
    exchange_fini(&x);
    *out = answer;
    return rc;
}

int http_begin(const struct where *to, const struct ctx *ctx, const struct http_req *req,
               struct wire *w, struct err *e)
{
    struct wire wire own_wire = WIRE_NONE;
    struct exchange x = {.wire = &wire, .ctx = ctx, .req = req};
    int rc;

    *w = WIRE_NONE;
    if (wire_open(&wire, to, ctx, e) < 0) {
        return -1;
    }
    exchange_init(&x);
    rc = send_request(&x, false, e);
    exchange_fini(&x);
    if (rc == 0) {
        *w = wire;
        wire = WIRE_NONE;
    }
    return rc;
}
