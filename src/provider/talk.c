#include "provider/talk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/plain.h"
#include "provider/over_agent.h"

#define PROBE_MS     1000
#define PROBE_GAP_MS 5
#define PROBES       50
#define FAIL_TEXT    400 /* bytes of an agent's message that we pass on */

int talk_open(struct talk *t, struct box *b, const struct ctx *ctx, struct err *e)
{
    struct agent_box *ab = CONTAINER_OF(b, struct agent_box, box);
    buf_init(&t->out, TALK_OUT);
    t->box = b;
    t->greet_by_ms = clock_mono_ms() + TALK_GREET_MS;
    t->fd = ab->connect(b, ctx, e);
    return t->fd < 0 ? -1 : 0;
}

void talk_close(struct talk *t)
{
    if (t->fd >= 0) {
        (void)close(t->fd);
    }
    free(t->in);
    buf_fini(&t->out);
    *t = TALK_NONE;
}

bool talk_unsent(const struct talk *t)
{
    return t->out.len > 0;
}

int talk_flush(struct talk *t, struct err *e)
{
    size_t sent = 0;
    while (sent < t->out.len) {
        ssize_t n = send(t->fd, t->out.p + sent, t->out.len - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n >= 0) {
            sent += (size_t)n;
            t->spoke = true;
            continue;
        }
        if (errno == EINTR) {
            continue;
        }
        if (errno == EAGAIN) {
            buf_drop(&t->out, sent);
            return 0;
        }
        if (errno != EPIPE && errno != ECONNRESET) {
            return err_sys(e, errno, "cannot send to the sandbox");
        }
        /* Why it closed may still be waiting to be read: a FAIL, an ENDED. */
        break;
    }
    buf_clear(&t->out);
    return 0;
}

/* How much of the frame that is coming is missing. One that is too long for us gets what
 * room there is, and is refused by talk_next(). */
static size_t missing(const struct talk *t)
{
    size_t have = t->end - t->start;
    size_t whole = FRAME_HEADER;

    if (have >= FRAME_HEADER) {
        struct wire_in r = wire_read((struct str){t->in + t->start, have});
        whole = sizeof(uint32_t) + (size_t)wire_get_u32(&r);
    }
    return whole > have && whole < TALK_IN ? whole - have : TALK_IN - t->end;
}

int talk_read(struct talk *t, struct err *e)
{
    if (t->in == NULL) {
        t->in = xmalloc(TALK_IN);
    }
    if (t->start > 0) {
        memmove(t->in, t->in + t->start, t->end - t->start);
        t->end -= t->start;
        t->start = 0;
    }
    for (;;) {
        size_t room = t->exact ? missing(t) : TALK_IN - t->end;
        ssize_t n = recv(t->fd, t->in + t->end, room, MSG_DONTWAIT);
        if (n > 0) {
            t->end += (size_t)n;
            return 0;
        }
        if (n == 0 || errno == ECONNRESET) {
            t->closed = true;
            return 0;
        }
        if (errno == EAGAIN) {
            return 0;
        }
        if (errno != EINTR) {
            return err_sys(e, errno, "cannot read from the sandbox");
        }
    }
}

int talk_silent(struct err *e, int64_t ms)
{
    return err_set(e, ERR_UNREACHABLE,
                   "it has not answered for %lld s: it is stopped, or it has too much to do; try "
                   "again later, or delete it",
                   (long long)(ms / 1000));
}

int talk_bad(struct err *e, const char *what)
{
    return err_set(e, ERR_PROTOCOL,
                   "its agent sent %s that cannot be read; delete the sandbox and make a new one",
                   what);
}

static int greet(struct talk *t, struct frame f, struct err *e)
{
    struct wire_in r = wire_read(f.fields);
    uint32_t version = wire_get_u32(&r);
    uint32_t lowest = wire_get_u32(&r);
    if (f.type != FRAME_HELLO || !wire_done(&r)) {
        return talk_bad(e, "a greeting");
    }
    if (AGENT_VERSION < lowest || AGENT_LOWEST > version) {
        return err_set(e, ERR_UNSUPPORTED,
                       "the sandbox was made by another anybox: its agent speaks versions %u to "
                       "%u of the protocol and this one speaks %u to %u; make a new sandbox",
                       lowest, version, (unsigned)AGENT_LOWEST, (unsigned)AGENT_VERSION);
    }
    t->version = version < AGENT_VERSION ? version : AGENT_VERSION;
    t->greeted = true;
    return 0;
}

/* The agent may name any kind; those that speak of our own call are not its to say. */
static enum err_kind fail_kind(uint8_t said)
{
    if (said == ERR_NONE || said >= ERR_KINDS || said == ERR_CANCELLED || said == ERR_TIMEOUT) {
        return ERR_PROTOCOL;
    }
    return (enum err_kind)said;
}

static int failed(struct frame f, struct err *e)
{
    struct wire_in r = wire_read(f.fields);
    uint8_t kind = wire_get_u8(&r);
    uint32_t errnum = wire_get_u32(&r);
    struct str said = wire_get_str(&r);
    if (!wire_done(&r)) {
        return talk_bad(e, "an error");
    }
    struct buf text own_buf = {0};
    buf_init(&text, FAIL_TEXT);
    plain_text(str_head(said, FAIL_TEXT), &text);
    for (size_t i = 0; i < text.len; i++) {
        if (text.p[i] == '\n' || text.p[i] == '\t') {
            text.p[i] = ' ';
        }
    }
    (void)err_set(e, fail_kind(kind), "%.*s", STR_ARG(buf_str(&text)));
    e->sys = errnum <= 4095 ? (int)errnum : 0;
    return -1;
}

int talk_next(struct talk *t, struct frame *out, struct err *e)
{
    for (;;) {
        struct str bytes = {t->in ? t->in + t->start : NULL, t->end - t->start};
        if (bytes.len == 0) {
            return 0;
        }
        ssize_t size = wire_parse(bytes, out, e);
        if (size < 0) {
            return -1;
        }
        if (size == 0 && bytes.len == TALK_IN) {
            return talk_bad(e, "a message");
        }
        if (size == 0) {
            return 0;
        }
        t->start += (size_t)size;
        if (t->greeted) {
            return out->type == FRAME_FAIL ? failed(*out, e) : 1;
        }
        if (out->type == FRAME_FAIL) {
            return failed(*out, e);
        }
        if (greet(t, *out, e) < 0) {
            return -1;
        }
    }
}

int talk_wait(struct talk *t, const struct ctx *ctx, struct pollfd *extra, int64_t until_ms,
              struct err *e)
{
    struct pollfd fds[2] = {{.fd = t->fd, .events = POLLIN}};
    if (talk_unsent(t)) {
        fds[0].events |= POLLOUT;
    }
    if (extra != NULL) {
        fds[1] = *extra;
    }
    bool greet_first = !t->greeted && (until_ms == 0 || t->greet_by_ms < until_ms);
    int ready = ctx_wait(ctx, fds, extra ? 2 : 1, greet_first ? t->greet_by_ms : until_ms, e);
    if (ready == 0 && greet_first) {
        return talk_silent(e, TALK_GREET_MS);
    }
    if (ready <= 0) {
        return ready;
    }
    if (extra != NULL) {
        *extra = fds[1];
    }
    if ((fds[0].revents & (POLLOUT | POLLERR | POLLHUP)) && talk_flush(t, e) < 0) {
        return -1;
    }
    if ((fds[0].revents & (POLLIN | POLLERR | POLLHUP)) && talk_read(t, e) < 0) {
        return -1;
    }
    return ready;
}

/* 1: it greets; 0: it closed without a word; -1: nobody is there, or silent. */
static int ask_greeting(struct box *b, const struct ctx *ctx, struct err *e)
{
    struct talk t own_talk = TALK_NONE;
    if (talk_open(&t, b, ctx, e) < 0) {
        return -1;
    }
    while (!t.greeted && !t.closed) {
        struct frame ignored;
        if (talk_wait(&t, ctx, NULL, 0, e) < 0 || talk_next(&t, &ignored, e) < 0) {
            return -1;
        }
    }
    return t.greeted ? 1 : 0;
}

/* The socket of a box that is ending may still take us, and then closes: once nobody takes
 * us any more, it is known why. */
bool talk_lives(struct box *b, const struct ctx *ctx, struct err *why)
{
    const struct agent_box *ab = CONTAINER_OF(b, struct agent_box, box);
    struct ctx shorter = *ctx;
    int64_t until_ms = clock_mono_ms() + (ab->probe_ms > 0 ? ab->probe_ms : PROBE_MS);
    if (ctx->deadline_ms == 0 || ctx->deadline_ms > until_ms) {
        shorter.deadline_ms = until_ms;
    }
    for (int i = 0; i < PROBES; i++) {
        int greets = ask_greeting(b, &shorter, why);
        if (greets != 0) {
            return greets > 0;
        }
        if (ctx_wait(&shorter, NULL, 0, clock_mono_ms() + PROBE_GAP_MS, why) < 0) {
            return false;
        }
    }
    return false;
}

int talk_ended(const struct talk *t, const struct ctx *ctx, struct err *e)
{
    struct err why = {0};
    if (talk_lives(t->box, ctx, &why)) {
        return err_set(e, ERR_UNREACHABLE,
                       "the process in it that did this was killed, perhaps for want of memory, "
                       "before it had answered; the sandbox itself goes on, so try again");
    }
    const struct agent_box *ab = CONTAINER_OF(t->box, struct agent_box, box);
    if (ab->probe_ms > 0 && why.kind != ERR_GONE) {
        return err_set(e, ERR_UNREACHABLE, "the connection was lost before it answered: %s",
                       why.msg);
    }
    return err_set(e, ERR_GONE, "it ended before it answered%s%s", why.kind == ERR_GONE ? ": " : "",
                   why.kind == ERR_GONE ? why.msg : "");
}

int talk_get(struct talk *t, const struct ctx *ctx, struct frame *out, struct err *e)
{
    for (;;) {
        int got = talk_next(t, out, e);
        if (got != 0) {
            return got < 0 ? -1 : 0;
        }
        if (t->closed) {
            return talk_ended(t, ctx, e);
        }
        if (talk_flush(t, e) < 0) {
            return -1;
        }
        int ready = talk_wait(t, ctx, NULL, clock_mono_ms() + TALK_SILENT_MS, e);
        if (ready <= 0) {
            return ready < 0 ? -1 : talk_silent(e, TALK_SILENT_MS);
        }
    }
}

int talk_expect(struct talk *t, const struct ctx *ctx, uint8_t type, struct frame *out,
                struct err *e)
{
    if (talk_get(t, ctx, out, e) < 0) {
        return -1;
    }
    if (out->type != type) {
        return talk_bad(e, "an answer");
    }
    return 0;
}

int talk_check_text(struct str s, size_t max, bool empty_ok, const char *what, struct err *e)
{
    if (s.len == 0 && !empty_ok) {
        return err_set(e, ERR_INVALID, "%s is empty", what);
    }
    if (s.len > max) {
        return err_set(e, ERR_INVALID, "%s has %zu bytes; at most %zu are accepted", what, s.len,
                       max);
    }
    if (s.len > 0 && memchr(s.p, '\0', s.len) != NULL) {
        return err_set(e, ERR_INVALID, "%s contains a NUL byte, which no system call takes", what);
    }
    return 0;
}

int talk_check_env(const struct str *env, size_t n, struct err *e)
{
    if (n > ENV_MAX) {
        return err_set(e, ERR_LIMIT, "there are %zu environment variables; at most %d are accepted",
                       n, ENV_MAX);
    }
    for (size_t i = 0; i < n; i++) {
        struct str value;
        struct str name = str_cut(env[i], '=', &value);
        if (name.len == 0 || name.len == env[i].len) {
            return err_set(e, ERR_INVALID,
                           "the environment entry \"%.*s\" is not of the form NAME=value",
                           STR_ARG(str_head(env[i], 60)));
        }
        if (talk_check_text(env[i], ARG_BYTES_MAX, false, "an environment entry", e) < 0) {
            return -1;
        }
    }
    return 0;
}
