/*
 * mux.c - see mux.h.
 *
 * Sockets are watched edge-triggered: an event only sets a flag in the conversation, and a
 * conversation that has something to send is in the list `ready`, which mux_out() serves in
 * turn. One that may not send (no credit) is taken out and comes back with the credit; one
 * that waits while the output is full costs no system call.
 */
#include "agent/mux.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/list.h"
#include "base/own.h"

#define HEADER        8u
#define EVENTS_A_TURN 64
#define OUT_ROOM      (MUX_OUT + MUX_DATA + (MUX_STREAMS + 4u) * HEADER)

struct stream {
    struct list link; /* mux.ready, or alone */
    uint16_t id;
    bool is_open;
    int fd;                 /* -1: nothing can be moved any more */
    bool readable, writing; /* as epoll said; whether it tells when there is room */
    bool ending, hung_up;   /* the socket's other end has no more to say; is closed */
    /* from the socket to the other side */
    uint32_t credit;
    bool read_ended, eof_sent;
    /* from the other side to the socket */
    struct buf queue;
    size_t head; /* bytes of queue that are written already */
    uint32_t window;
    uint32_t granted; /* that it may still send */
    uint32_t owed;    /* taken off its hands, not granted again yet */
    bool is_widened;  /* it was granted MUX_EARLY, or there was not enough left for that */
    bool eof_got, write_ended;

    bool close_sent, close_got;
};

struct mux {
    int epoll;
    mux_accept_fn *accept;
    void *arg;
    struct stream streams[MUX_STREAMS];
    unsigned n_streams;
    uint64_t windows; /* of all conversations */
    struct list ready;
    struct buf out;
    size_t out_head;
    unsigned char header[HEADER]; /* of the frame that is coming in */
    size_t header_len;
    struct stream *to; /* whose DATA follows */
    size_t data_left;
    bool is_broken;
};

/* ---- frames ---------------------------------------------------------------- */

static void put_header(unsigned char *p, uint8_t type, uint16_t id, uint32_t n)
{
    p[0] = type;
    p[1] = 0;
    p[2] = (unsigned char)(id & 0xff);
    p[3] = (unsigned char)(id >> 8);
    for (int i = 0; i < 4; i++) {
        p[4 + i] = (unsigned char)(n >> (8 * i) & 0xff);
    }
}

static void put_frame(struct mux *m, uint8_t type, uint16_t id, uint32_t n)
{
    unsigned char frame[HEADER];

    put_header(frame, type, id, n);
    buf_add(&m->out, (struct str){(const char *)frame, HEADER});
}

static int lied(struct mux *m, const char *what, struct err *e)
{
    m->is_broken = true;
    return err_set(e, ERR_PROTOCOL, "the other side of the shared connection sent %s", what);
}

/* ---- conversations --------------------------------------------------------- */

static void make_ready(struct mux *m, struct stream *s)
{
    if (list_empty(&s->link)) {
        list_add_tail(&m->ready, &s->link);
    }
}

static void close_socket(struct mux *m, struct stream *s)
{
    if (s->fd < 0) {
        return;
    }
    (void)epoll_ctl(m->epoll, EPOLL_CTL_DEL, s->fd, NULL);
    (void)close(s->fd);
    s->fd = -1;
    s->readable = false;
    buf_fini(&s->queue);
    s->head = 0;
    make_ready(m, s); /* for CLOSE */
}

static void end_stream(struct mux *m, struct stream *s)
{
    close_socket(m, s);
    list_del(&s->link);
    m->windows -= s->window;
    m->n_streams--;
    s->is_open = false;
}

/* After anything that may have been the last thing that the socket was needed for. */
static void settle(struct mux *m, struct stream *s)
{
    bool drained = s->queue.len == s->head;

    if (s->fd < 0) {
        return;
    }
    if (s->eof_got && drained && !s->write_ended) {
        s->write_ended = true;
        (void)shutdown(s->fd, SHUT_WR);
    }
    if ((s->read_ended && (s->write_ended || s->hung_up)) || (s->close_got && drained)) {
        close_socket(m, s);
    }
}

static int add_stream(struct mux *m, uint16_t id, int given, struct err *e)
{
    int fd own_fd = given;
    struct stream *s = &m->streams[id];
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET, .data.u32 = id};

    if (fd >= 0 && fd_set_nonblock(fd, true, e) < 0) {
        return -1;
    }
    if (fd >= 0 && epoll_ctl(m->epoll, EPOLL_CTL_ADD, fd, &event) < 0) {
        return err_sys(e, errno, "watch a conversation");
    }
    *s = (struct stream){
        .id = id,
        .is_open = true,
        .fd = take_fd(&fd),
        .credit = MUX_FIRST,
        .window = MUX_FIRST,
        .granted = MUX_FIRST,
    };
    list_init(&s->link);
    buf_init(&s->queue, (size_t)2 * MUX_WINDOW);
    m->windows += s->window;
    m->n_streams++;
    make_ready(m, s); /* for the early credit */
    return 0;
}

struct mux *mux_new(mux_accept_fn *accept, void *arg, struct err *e)
{
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct mux *m;

    if (epoll < 0) {
        (void)err_sys(e, errno, "make an epoll");
        return NULL;
    }
    m = xcalloc(1, sizeof(*m));
    m->epoll = epoll;
    m->accept = accept;
    m->arg = arg;
    list_init(&m->ready);
    buf_init(&m->out, OUT_ROOM);
    return m;
}

void mux_free(struct mux *m)
{
    if (m == NULL) {
        return;
    }
    for (size_t i = 0; i < MUX_STREAMS; i++) {
        if (m->streams[i].is_open) {
            end_stream(m, &m->streams[i]);
        }
    }
    (void)close(m->epoll);
    buf_fini(&m->out);
    free(m);
}

int mux_open(struct mux *m, int fd, struct err *e)
{
    int own own_fd = fd;
    uint16_t id = 0;

    if (m->is_broken) {
        return err_set(e, ERR_PROTOCOL, "the shared connection is broken");
    }
    while (id < MUX_STREAMS && m->streams[id].is_open) {
        id++;
    }
    if (id == MUX_STREAMS || m->out.len + HEADER > OUT_ROOM) {
        return err_set(e, ERR_LIMIT,
                       "%d requests are under way over this connection, which is the most; wait "
                       "for one to end",
                       MUX_STREAMS);
    }
    if (add_stream(m, id, take_fd(&own), e) < 0) {
        return -1;
    }
    put_frame(m, MUX_OPEN, id, 0);
    return 0;
}

unsigned mux_count(const struct mux *m)
{
    return m->n_streams;
}

int mux_fd(const struct mux *m)
{
    return m->epoll;
}

/* ---- from the other side to the socket ------------------------------------- */

static void taken(struct mux *m, struct stream *s, size_t n)
{
    s->owed += (uint32_t)n;
    if (s->owed >= s->window / 4) {
        make_ready(m, s);
    }
}

static void want_room(struct mux *m, struct stream *s, bool wanted)
{
    struct epoll_event event = {
        .events = EPOLLIN | EPOLLRDHUP | EPOLLET | (wanted ? EPOLLOUT : 0u),
        .data.u32 = s->id,
    };

    if (s->writing != wanted) {
        s->writing = wanted;
        (void)epoll_ctl(m->epoll, EPOLL_CTL_MOD, s->fd, &event);
    }
}

/* Nobody reads there any more. What that end said before is still to be read. */
static void stop_writing(struct mux *m, struct stream *s)
{
    s->write_ended = true;
    s->readable = s->ending = true;
    make_ready(m, s);
}

/* How much of it is off our hands. */
static size_t write_some(struct mux *m, struct stream *s, struct str bytes)
{
    size_t done = 0;

    while (done < bytes.len) {
        ssize_t n = send(s->fd, bytes.p + done, bytes.len - done, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n > 0) {
            done += (size_t)n;
        } else if (n < 0 && errno == EAGAIN) {
            break;
        } else if (n == 0 || errno != EINTR) {
            stop_writing(m, s);
            done = bytes.len;
        }
    }
    taken(m, s, done);
    return done;
}

static void write_queue(struct mux *m, struct stream *s)
{
    if (s->queue.len > s->head) {
        s->head += write_some(m, s, str_skip(buf_str(&s->queue), s->head));
    }
    if (s->head == s->queue.len) {
        buf_fini(&s->queue); /* a quiet conversation costs nothing */
        s->head = 0;
    }
    want_room(m, s, s->queue.len > 0);
    settle(m, s);
}

/* The window was checked: what is in the queue and not written is at most MUX_WINDOW. */
static void enqueue(struct stream *s, struct str bytes)
{
    if (s->head >= MUX_WINDOW / 2) {
        buf_drop(&s->queue, s->head);
        s->head = 0;
    }
    buf_add(&s->queue, bytes);
}

static void deliver(struct mux *m, struct stream *s, struct str bytes)
{
    if (s->fd < 0) {
        return; /* on its way while we closed */
    }
    if (s->write_ended) {
        taken(m, s, bytes.len); /* the same, and we still read */
        return;
    }
    if (s->queue.len == 0) {
        bytes = str_skip(bytes, write_some(m, s, bytes));
    }
    if (bytes.len > 0) {
        enqueue(s, bytes);
        want_room(m, s, true);
    }
}

static int on_open(struct mux *m, uint16_t id, struct err *e)
{
    int fd;

    if (m->accept == NULL || m->streams[id].is_open) {
        return lied(m, "a beginning that is none", e);
    }
    fd = m->accept(m->arg);
    if (add_stream(m, id, fd, e) < 0 && add_stream(m, id, -1, e) < 0) {
        return -1;
    }
    return 0;
}

static int on_data(struct mux *m, struct stream *s, uint32_t n, struct err *e)
{
    if (n == 0 || n > MUX_DATA || s->eof_got) {
        return lied(m, "bytes that cannot be", e);
    }
    if (n > s->granted) {
        return lied(m, "more than it was granted", e);
    }
    s->granted -= n;
    m->to = s;
    m->data_left = n;
    return 0;
}

static int on_credit(struct mux *m, struct stream *s, uint32_t n, struct err *e)
{
    if (n == 0 || n > MUX_WINDOW || s->credit + n > MUX_WINDOW) {
        return lied(m, "a credit that cannot be", e);
    }
    s->credit += n;
    if (s->readable) {
        make_ready(m, s);
    }
    return 0;
}

static int on_end(struct mux *m, struct stream *s, uint8_t type, uint32_t n, struct err *e)
{
    if (n != 0 || (type == MUX_EOF && s->eof_got)) {
        return lied(m, "an end that cannot be", e);
    }
    s->close_got = type == MUX_CLOSE;
    if (s->close_got && !s->eof_got) {
        close_socket(m, s);
    }
    s->eof_got = true;
    settle(m, s);
    if (s->close_got && s->close_sent) {
        end_stream(m, s);
    }
    return 0;
}

static int on_frame(struct mux *m, struct err *e)
{
    const unsigned char *p = m->header;
    uint16_t id = (uint16_t)(p[2] | p[3] << 8);
    uint32_t n = (uint32_t)p[4] | (uint32_t)p[5] << 8 | (uint32_t)p[6] << 16 | (uint32_t)p[7] << 24;
    struct stream *s;

    if (p[1] != 0 || id >= MUX_STREAMS) {
        return lied(m, "what is no frame", e);
    }
    s = &m->streams[id];
    if (p[0] == MUX_OPEN) {
        return n == 0 ? on_open(m, id, e) : lied(m, "a beginning that is none", e);
    }
    if (!s->is_open || s->close_got) {
        return lied(m, "something for a conversation that is over", e);
    }
    switch (p[0]) {
    case MUX_GIVE: return on_data(m, s, n, e);
    case MUX_CREDIT: return on_credit(m, s, n, e);
    case MUX_EOF:
    case MUX_CLOSE: return on_end(m, s, p[0], n, e);
    default: return lied(m, "an unknown frame", e);
    }
}

int mux_feed(struct mux *m, struct str bytes, struct err *e)
{
    if (m->is_broken) {
        return err_set(e, ERR_PROTOCOL, "the shared connection is broken");
    }
    while (bytes.len > 0) {
        size_t n;

        if (m->data_left > 0) {
            n = bytes.len < m->data_left ? bytes.len : m->data_left;
            m->data_left -= n;
            deliver(m, m->to, str_head(bytes, n));
            bytes = str_skip(bytes, n);
            continue;
        }
        n = HEADER - m->header_len;
        n = bytes.len < n ? bytes.len : n;
        memcpy(m->header + m->header_len, bytes.p, n);
        m->header_len += n;
        bytes = str_skip(bytes, n);
        if (m->header_len == HEADER) {
            m->header_len = 0;
            if (on_frame(m, e) < 0) {
                m->is_broken = true;
                return -1;
            }
        }
    }
    return 0;
}

/* ---- from the socket to the other side ------------------------------------- */

void mux_turn(struct mux *m)
{
    struct epoll_event events[EVENTS_A_TURN];
    int n = epoll_wait(m->epoll, events, EVENTS_A_TURN, 0);

    for (int i = 0; i < n; i++) {
        struct stream *s = &m->streams[events[i].data.u32];
        uint32_t what = events[i].events;

        if (s->fd < 0) {
            continue;
        }
        s->ending |= (what & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
        s->hung_up |= (what & (EPOLLHUP | EPOLLERR)) != 0;
        if (what & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) {
            s->readable = true;
            make_ready(m, s);
        }
        if (what & (EPOLLOUT | EPOLLHUP | EPOLLERR)) {
            write_queue(m, s);
        }
    }
}

/* Room for what is sent next at the end of what was not sent yet. */
static void tidy_out(struct mux *m)
{
    if (m->out_head > 0) {
        buf_drop(&m->out, m->out_head);
        m->out_head = 0;
    }
}

/* More for a conversation that has just begun, before anything is known of its reader. Half of all
 * that there is is left for those that turn out to need it. */
static void widen(struct mux *m, struct stream *s)
{
    uint32_t more = MUX_EARLY - s->window;

    if (s->is_widened) {
        return;
    }
    s->is_widened = true;
    if (s->fd < 0 || s->eof_got || m->windows + more > MUX_TOTAL / 2) {
        return;
    }
    m->windows += more;
    s->window += more;
    s->granted += more;
    put_frame(m, MUX_CREDIT, s->id, more);
}

/* A window that its reader keeps up with may grow. */
static void grant(struct mux *m, struct stream *s)
{
    uint32_t more = s->owed;

    if (s->fd < 0 || s->eof_got || s->owed < s->window / 4) {
        return;
    }
    if (s->queue.len == 0 && s->window < MUX_WINDOW && m->windows + s->window <= MUX_TOTAL) {
        more += s->window;
        m->windows += s->window;
        s->window *= 2;
    }
    s->owed = 0;
    s->granted += more;
    put_frame(m, MUX_CREDIT, s->id, more);
}

static void read_piece(struct mux *m, struct stream *s)
{
    size_t want = s->credit < MUX_DATA ? s->credit : MUX_DATA;
    char *room = buf_room(&m->out, HEADER + want);
    ssize_t n;

    if (room == NULL) {
        return;
    }
    n = recv(s->fd, room + HEADER, want, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) {
        return;
    }
    if (n < 0 && errno == EAGAIN) {
        s->readable = false;
        return;
    }
    if (n <= 0) {
        s->read_ended = true;
        s->hung_up |= n < 0;
        return;
    }
    put_header((unsigned char *)room, MUX_GIVE, s->id, (uint32_t)n);
    m->out.len += HEADER + (size_t)n;
    s->credit -= (uint32_t)n;
    /* Less than there was room for: that was all, and more of it is a new event. The end
     * may have been told already. */
    s->readable = (size_t)n == want || s->ending;
}

static bool can_read(const struct stream *s)
{
    return s->fd >= 0 && s->readable && !s->read_ended && s->credit > 0 && !s->close_got;
}

/* What is due of a conversation, and one piece of what it has to say. True: there may be
 * more. */
static bool serve(struct mux *m, struct stream *s)
{
    widen(m, s);
    grant(m, s);
    if (can_read(s)) {
        read_piece(m, s);
    }
    if (m->accept == NULL && s->hung_up && s->credit == 0) {
        close_socket(m, s); /* nobody here waits for what the other side does not take */
    }
    if (s->read_ended && !s->eof_sent) {
        s->eof_sent = true;
        put_frame(m, MUX_EOF, s->id, 0);
    }
    settle(m, s);
    if (s->fd < 0 && !s->close_sent) {
        s->close_sent = true;
        put_frame(m, MUX_CLOSE, s->id, 0);
    }
    if (s->close_sent && s->close_got) {
        end_stream(m, s);
        return false;
    }
    return can_read(s);
}

struct str mux_out(struct mux *m)
{
    if (m->is_broken) {
        return STR_EMPTY;
    }
    if (m->out.len - m->out_head < MUX_OUT / 2) {
        tidy_out(m);
        while (m->out.len < MUX_OUT && !list_empty(&m->ready)) {
            struct stream *s = list_entry(m->ready.next, struct stream, link);

            list_del(&s->link);
            if (serve(m, s)) {
                make_ready(m, s);
            }
        }
    }
    return str_skip(buf_str(&m->out), m->out_head);
}

void mux_sent(struct mux *m, size_t n)
{
    m->out_head += n;
    if (m->out_head >= m->out.len) {
        buf_clear(&m->out);
        m->out_head = 0;
    }
}
