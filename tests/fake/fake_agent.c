#include "fake_agent.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define HEARD_MAX (16u << 20)
#define HEAR_MS   5000 /* a script that waits longer than this has failed */

/* ---- playing ------------------------------------------------------------------------- */

/* Adds what the client sent; false at its end, or when nothing came for long. */
static bool hear_more(struct fake_connection *c)
{
    struct pollfd readable = {.fd = c->fd, .events = POLLIN};
    char *room = buf_room(&c->heard, 64u << 10);
    if (room == NULL || poll(&readable, 1, HEAR_MS) <= 0) {
        return false;
    }
    ssize_t n = read(c->fd, room, 64u << 10);
    if (n <= 0) {
        return false;
    }
    c->heard.len += (size_t)n;
    return true;
}

static bool hear(struct fake_connection *c, uint8_t type)
{
    for (;;) {
        struct frame f;
        struct err e;
        ssize_t size = wire_parse(str_skip(buf_str(&c->heard), c->looked), &f, &e);
        if (size < 0) {
            return false;
        }
        c->looked += (size_t)size;
        if (size > 0 && f.type == type) {
            return true;
        }
        if (size == 0 && !hear_more(c)) {
            return false;
        }
    }
}

static bool say(const struct fake_connection *c, struct str bytes, size_t at_once)
{
    while (bytes.len > 0) {
        size_t n = bytes.len < at_once ? bytes.len : at_once;
        ssize_t sent = send(c->fd, bytes.p, n, MSG_NOSIGNAL);
        if (sent < 0) {
            return false;
        }
        bytes = str_skip(bytes, (size_t)sent);
    }
    return true;
}

static void pause_ms(int ms)
{
    struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};
    (void)nanosleep(&t, NULL);
}

static bool play(struct fake_connection *c, const struct fake_step *s)
{
    switch (s->what) {
    case FAKE_SAY: return say(c, buf_str(&s->bytes), SIZE_MAX);
    case FAKE_TRICKLE: return say(c, buf_str(&s->bytes), 1);
    case FAKE_HEAR: return hear(c, s->type);
    case FAKE_SLEEP: pause_ms(s->ms); return true;
    case FAKE_LISTEN:
        while (hear_more(c)) {
        }
        return false;
    case FAKE_CALL: s->call(s->arg); return true;
    }
    return false;
}

static void *play_all(void *arg)
{
    struct fake_connection *c = arg;
    for (size_t i = 0; i < c->n_steps && play(c, &c->steps[i]); i++) {
    }
    (void)close(c->fd);
    return NULL;
}

static int fake_connect(struct box *b, const struct ctx *ctx, struct err *e)
{
    (void)ctx;
    struct fake_agent *f = CONTAINER_OF(b, struct fake_agent, agent.box);
    int ends[2];
    if (f->n_opened == FAKE_CONNECTIONS) {
        return err_set(e, ERR_BUG, "the script has no such connection");
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
        return err_sys(e, errno, "socketpair");
    }
    struct fake_connection *c = &f->connections[f->n_opened++];
    c->fd = ends[1];
    c->opened = true;
    if (pthread_create(&c->thread, NULL, play_all, c) != 0) {
        abort();
    }
    return ends[0];
}

/* ---- writing scripts ------------------------------------------------------------------- */

void fake_init(struct fake_agent *f)
{
    memset(f, 0, sizeof *f);
    f->agent.connect = fake_connect;
    f->agent.box.ref = S("fake");
    for (size_t i = 0; i < FAKE_CONNECTIONS; i++) {
        buf_init(&f->connections[i].heard, HEARD_MAX);
    }
}

void fake_join(struct fake_agent *f)
{
    for (size_t i = 0; i < FAKE_CONNECTIONS; i++) {
        if (f->connections[i].opened) {
            (void)pthread_join(f->connections[i].thread, NULL);
            f->connections[i].opened = false;
        }
    }
}

void fake_fini(struct fake_agent *f)
{
    fake_join(f);
    for (size_t i = 0; i < FAKE_CONNECTIONS; i++) {
        struct fake_connection *c = &f->connections[i];
        buf_fini(&c->heard);
        for (size_t s = 0; s < c->n_steps; s++) {
            buf_fini(&c->steps[s].bytes);
        }
    }
}

struct fake_step *fake_add(struct fake_agent *f, size_t c, enum fake_do what)
{
    struct fake_connection *to = &f->connections[c];
    if (to->n_steps == FAKE_STEPS) {
        abort();
    }
    struct fake_step *s = &to->steps[to->n_steps++];
    s->what = what;
    buf_init(&s->bytes, FRAME_MAX + 64);
    return s;
}

void fake_hear(struct fake_agent *f, size_t c, uint8_t type)
{
    fake_add(f, c, FAKE_HEAR)->type = type;
}

void fake_raw(struct fake_agent *f, size_t c, struct str bytes)
{
    buf_add(&fake_add(f, c, FAKE_SAY)->bytes, bytes);
}

static void end(struct wire_out *w)
{
    if (!wire_end(w)) {
        abort();
    }
}

void fake_hello_of(struct fake_agent *f, size_t c, uint32_t version, uint32_t lowest)
{
    struct wire_out w = wire_begin(&fake_add(f, c, FAKE_SAY)->bytes, FRAME_HELLO);
    wire_u32(&w, version);
    wire_u32(&w, lowest);
    end(&w);
}

void fake_hello(struct fake_agent *f, size_t c)
{
    fake_hello_of(f, c, AGENT_VERSION, AGENT_VERSION);
}

void fake_started(struct fake_agent *f, size_t c)
{
    struct wire_out w = wire_begin(&fake_add(f, c, FAKE_SAY)->bytes, FRAME_STARTED);
    wire_u32(&w, 7);
    end(&w);
}

void fake_data(struct fake_agent *f, size_t c, uint8_t stream, uint64_t offset, struct str bytes)
{
    struct wire_out w = wire_begin(&fake_add(f, c, FAKE_SAY)->bytes, FRAME_DATA);
    wire_u8(&w, stream);
    wire_u64(&w, offset);
    wire_str(&w, bytes);
    end(&w);
}

void fake_ended(struct fake_agent *f, size_t c, uint8_t how, uint32_t code, uint64_t out_bytes,
                uint64_t err_bytes)
{
    struct wire_out w = wire_begin(&fake_add(f, c, FAKE_SAY)->bytes, FRAME_ENDED);
    wire_u8(&w, how);
    wire_u32(&w, code);
    wire_u8(&w, 0);
    wire_u8(&w, OOM_NO);
    wire_u8(&w, f->limits);
    wire_u64(&w, 12);
    wire_u64(&w, out_bytes);
    wire_u64(&w, err_bytes);
    end(&w);
}

void fake_fail(struct fake_agent *f, size_t c, enum err_kind kind, const char *message)
{
    struct wire_out w = wire_begin(&fake_add(f, c, FAKE_SAY)->bytes, FRAME_FAIL);
    wire_u8(&w, (uint8_t)kind);
    wire_u32(&w, ENOENT);
    wire_str(&w, str_from(message));
    end(&w);
}

void fake_entry(struct fake_agent *f, size_t c, const char *path, uint8_t type, uint64_t size)
{
    struct wire_out w = wire_begin(&fake_add(f, c, FAKE_SAY)->bytes, FRAME_ENTRY);
    wire_str(&w, str_from(path));
    wire_u8(&w, type);
    wire_u32(&w, 0640);
    wire_u64(&w, size);
    wire_u64(&w, 1700000000);
    end(&w);
}

void fake_chunk(struct fake_agent *f, size_t c, struct str bytes)
{
    struct wire_out w = wire_begin(&fake_add(f, c, FAKE_SAY)->bytes, FRAME_CHUNK);
    wire_str(&w, bytes);
    end(&w);
}

void fake_ok(struct fake_agent *f, size_t c, uint8_t more)
{
    struct wire_out w = wire_begin(&fake_add(f, c, FAKE_SAY)->bytes, FRAME_OK);
    wire_u8(&w, more);
    end(&w);
}

bool fake_heard(const struct fake_agent *f, size_t c, uint8_t type, size_t n, struct frame *out)
{
    struct str rest = buf_str(&f->connections[c].heard);
    for (;;) {
        struct err e;
        ssize_t size = wire_parse(rest, out, &e);
        if (size <= 0) {
            return false;
        }
        if (out->type == type && n-- == 0) {
            return true;
        }
        rest = str_skip(rest, (size_t)size);
    }
}
