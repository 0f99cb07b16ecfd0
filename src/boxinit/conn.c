/*
 * conn.c - connections: frames in, frames out, and who may connect.
 *
 * Only processes outside of the box may: the socket lies in a folder that the box does
 * not see, and a peer that has a pid in our pid namespace is refused on top of that. Without
 * a box it is the same user, or root.
 * Answers are collected during a turn and sent at its end, so that a short command costs
 * its client one wake-up.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/own.h"
#include "boxinit/box.h"
#include "boxinit/keep.h"

#define READ_SIZE (64u << 10)

void conn_fail(struct conn *c, const struct err *why)
{
    /* Bounded far below the buffer, which is sent before it is full. */
    box_put_fail(&c->out, why);
}

void conn_ok(struct conn *c, uint8_t more)
{
    struct wire_out w = wire_begin(&c->out, FRAME_OK);

    wire_u8(&w, more);
    (void)!wire_end(&w);
}

static void say_hello(struct conn *c)
{
    struct wire_out w = wire_begin(&c->out, FRAME_HELLO);

    wire_u32(&w, AGENT_VERSION);
    wire_u32(&w, AGENT_LOWEST);
    (void)!wire_end(&w);
}

/* ---- in -------------------------------------------------------------------- */

/* A frame that cannot be read ends the conversation, after it was told why. */
static void refuse(struct server *s, struct conn *c, const struct err *why)
{
    conn_fail(c, why);
    task_detach(s, c);
    c->closing = true;
}

static bool input_is_full(const struct conn *c)
{
    return c->task != NULL && c->task->waiting.len >= INPUT_MAX;
}

/* Answers the frames that are complete. The client's stdin is not taken faster than the
 * command reads it. */
static void take_frames(struct server *s, struct conn *c)
{
    while (!c->closing && !c->dead && c->watch.fd >= 0 && !input_is_full(c)) {
        struct arena a own_arena = {0};
        struct frame frame;
        struct request r;
        struct err e;
        ssize_t used = wire_parse(buf_str(&c->in), &frame, &e);

        if (used < 0) {
            refuse(s, c, &e);
        }
        if (used <= 0) {
            return;
        }
        arena_init(&a, 16u << 20);
        if (request_parse(frame, &a, &r, &e) == 0) {
            s->asked_before_ms = s->used_ms;
            s->used_ms = c->heard_ms = server_now();
            ask(s, c, &r);
        } else if (e.kind == ERR_PROTOCOL) {
            refuse(s, c, &e);
        } else {
            conn_fail(c, &e);
        }
        buf_drop(&c->in, (size_t)used);
    }
}

static void on_readable(struct server *s, struct watch *w, uint32_t events)
{
    struct conn *c = CONTAINER_OF(w, struct conn, watch);
    char *room;
    ssize_t n;

    if (c->dead || !(events & (EPOLLIN | EPOLLHUP | EPOLLERR | EPOLLRDHUP))) {
        return; /* writable: conns_turn() sends */
    }
    room = buf_room(&c->in, READ_SIZE);
    if (room == NULL) {
        c->dead = true;
        return;
    }
    n = recv(w->fd, room, READ_SIZE, MSG_DONTWAIT);
    if (n > 0) {
        c->in.len += (size_t)n;
        take_frames(s, c);
        return;
    }
    if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        c->dead = true;
    }
}

/* The parent of what an engine starts in a container is outside of it. */
static bool comes_from_outside(pid_t pid)
{
    char path[40];
    char text[512];
    struct str rest;
    struct err ignored;
    int64_t parent = -1;
    int n = snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    int fd own_fd = n > 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    ssize_t len = fd >= 0 ? read(fd, text, sizeof(text)) : -1;
    const char *name_end = len > 0 ? memrchr(text, ')', (size_t)len) : NULL;

    if (name_end == NULL) {
        return false;
    }
    /* ") S 0 ..." */
    rest = str_skip((struct str){name_end, (size_t)(text + len - name_end)}, 4);
    return str_to_i64(str_cut(rest, ' ', &rest), 0, INT32_MAX, &parent, &ignored) == 0 &&
           parent == 0;
}

static bool peer_may(const struct spec *spec, int fd)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0) {
        return false;
    }
    if (!spec->is_plain) {
        return peer.pid == 0;
    }
    if (peer.uid != geteuid() && peer.uid != 0) {
        return false;
    }
    /* One of another pid namespace has no pid here. */
    return !spec->is_container || peer.pid == 0 || (peer.pid > 1 && comes_from_outside(peer.pid));
}

static void refuse_new(int fd)
{
    struct buf out own_buf = {0};
    struct err e;

    buf_init(&out, 1024);
    (void)err_set(&e, ERR_LIMIT, "%d connections to this sandbox are open, which is the most",
                  CONNS_MAX);
    box_put_fail(&out, &e);
    (void)!send(fd, out.p, out.len, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void add_conn(struct server *s, int fd)
{
    struct conn *c = xcalloc(1, sizeof(*c));
    struct err ignored;

    if (watch_open(s, &c->watch, fd, EPOLLIN, on_readable, &ignored) < 0) {
        (void)close(fd);
        free(c);
        return;
    }
    buf_init(&c->in, FRAME_MAX + FRAME_HEADER + READ_SIZE);
    buf_init(&c->out, OUT_MAX);
    c->heard_ms = server_now();
    list_add_tail(&s->conns, &c->link);
    s->n_conns++;
    say_hello(c);
    /* Clients send their request without waiting: it is mostly there already. */
    on_readable(s, &c->watch, EPOLLIN);
}

/* With no descriptor left the connection would stay in the queue and wake us for ever: one
 * is kept in reserve to take it, and to drop it. */
static void drop_one(struct server *s, int listener)
{
    if (s->reserve < 0) {
        return;
    }
    (void)close(s->reserve);
    s->reserve = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (s->reserve >= 0) {
        (void)close(s->reserve);
    }
    s->reserve = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0);
}

void conns_accept(struct server *s, struct watch *w, uint32_t events)
{
    (void)events;
    for (int i = 0; i < ACCEPTS_A_TURN; i++) {
        int fd own_fd = accept4(w->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE) {
                drop_one(s, w->fd);
            }
            return;
        }
        if (!peer_may(s->spec, fd)) {
            continue;
        }
        if (s->n_conns >= CONNS_MAX) {
            refuse_new(fd);
            continue;
        }
        add_conn(s, take_fd(&fd));
    }
}

/* ---- out ------------------------------------------------------------------- */

static void put_data(struct conn *c, struct task *t, uint8_t stream)
{
    while (c->out.len - c->sent < OUT_HIGH) {
        struct str bytes = capture_at(&t->spool[stream], &c->at[stream]);
        struct wire_out w;

        if (bytes.len == 0) {
            return;
        }
        bytes = str_head(bytes, DATA_MAX);
        w = wire_begin(&c->out, FRAME_DATA);
        wire_u8(&w, stream);
        wire_u64(&w, c->at[stream]);
        wire_str(&w, bytes);
        if (!wire_end(&w)) {
            return; /* later, when some was sent */
        }
        c->at[stream] += bytes.len;
    }
}

static bool all_told(const struct conn *c, const struct task *t)
{
    return c->at[0] >= t->spool[0].total && c->at[1] >= t->spool[1].total;
}

/* What the attached client has not been told yet, as far as there is room. */
static void put_news(struct conn *c, struct task *t)
{
    struct wire_out w;

    if (!t->started) {
        return;
    }
    if (!c->told_start) {
        w = wire_begin(&c->out, FRAME_STARTED);
        wire_u32(&w, (uint32_t)t->pid);
        c->told_start = wire_end(&w);
    }
    put_data(c, t, 0);
    put_data(c, t, 1);
    if (t->finished && !c->told_end && all_told(c, t)) {
        w = wire_begin(&c->out, FRAME_ENDED);
        task_put_ending(t, &w);
        c->told_end = wire_end(&w);
    }
}

static void flush(struct conn *c)
{
    while (c->sent < c->out.len) {
        ssize_t n = send(c->watch.fd, c->out.p + c->sent, c->out.len - c->sent,
                         MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            c->dead |= errno != EAGAIN;
            break;
        }
        c->sent += (size_t)n;
    }
    buf_drop(&c->out, c->sent);
    c->sent = 0;
}

/* Far behind: let the command wait. */
static void pace(struct server *s, const struct conn *c, struct task *t)
{
    for (int i = 0; i < 2; i++) {
        bool slow = t->spool[i].total - c->at[i] >= BACKLOG_MAX;

        watch_want(s, &t->output[i], slow ? 0 : EPOLLIN);
    }
}

static void conn_turn(struct server *s, struct conn *c, int64_t now)
{
    struct task *t = c->task;
    uint32_t events = EPOLLIN;

    if (t != NULL && !c->dead) {
        put_news(c, t);
    }
    if (c->out.len > 0 && !c->dead) {
        flush(c);
    }
    if (t != NULL && c->told_end && c->out.len == 0 && !c->dead) {
        task_delivered(t);
        task_detach(s, c);
        keep_free(s, t); /* the next turn may come with the client's next request */
    }
    if (c->in.len > 0 && !c->dead) {
        take_frames(s, c); /* stdin may have room again */
    }
    c->dead |= c->closing && c->out.len == 0;
    c->dead |= c->task == NULL && now - c->heard_ms > CONN_IDLE_MS;
    if (c->dead) {
        task_detach(s, c);
    }
    if (c->task != NULL && !c->task->finished) {
        pace(s, c, c->task);
    }
    if (c->closing || input_is_full(c)) {
        events = 0;
    }
    if (c->out.len > 0 || (c->task != NULL && c->task->started && !all_told(c, c->task))) {
        events |= EPOLLOUT; /* more than one turn sends */
    }
    watch_want(s, &c->watch, events);
}

void conns_turn(struct server *s, int64_t now)
{
    struct list *pos;
    struct list *tmp;

    list_each_safe (pos, tmp, &s->conns) {
        struct conn *c = list_entry(pos, struct conn, link);

        if (!c->dead || c->task != NULL) {
            conn_turn(s, c, now);
        }
        if (!c->dead) {
            continue;
        }
        list_del(&c->link);
        watch_close(s, &c->watch);
        buf_fini(&c->in);
        buf_fini(&c->out);
        free(c);
        s->n_conns--;
    }
}
