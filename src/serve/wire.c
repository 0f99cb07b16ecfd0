#include "serve/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/own.h"
#include "base/thread.h"

struct chunk {
    struct list link; /* wire_out.queue */
    size_t len, done;
    char bytes[];
};

static int reopen(int fd, int access)
{
    char path[32];

    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return open(path, access | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
}

int wire_open(struct wire_end *end, int fd, int access, struct err *e)
{
    int dup own_fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    struct stat st;

    if (dup < 0 || fstat(dup, &st) < 0) {
        return err_sys(e, errno, "descriptor %d is not open", fd);
    }
    if (S_ISFIFO(st.st_mode)) {
        int own = reopen(dup, access);

        if (own >= 0) {
            *end = (struct wire_end){own, WIRE_OWN};
            return 0;
        }
        /* Another user's pipe, no /proc, or no reader any more: as it is, then. */
    }
    *end = (struct wire_end){take_fd(&dup), S_ISSOCK(st.st_mode) ? WIRE_SOCKET : WIRE_SHARED};
    return 0;
}

ssize_t wire_take(const struct wire_end *end, void *to, size_t cap)
{
    return end->kind == WIRE_SOCKET ? recv(end->fd, to, cap, MSG_DONTWAIT) : read(end->fd, to, cap);
}

int wire_out_init(struct wire_out *w, int fd, struct err *e)
{
    int wake own_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

    if (wake < 0) {
        return err_sys(e, errno, "eventfd");
    }
    *w = (struct wire_out){.wake = -1};
    if (wire_open(&w->end, fd, O_WRONLY, e) < 0) {
        return -1;
    }
    w->wake = take_fd(&wake);
    (void)pthread_mutex_init(&w->lock, NULL);
    list_init(&w->queue);
    return 0;
}

static void drop_queue(struct wire_out *w)
{
    while (!list_empty(&w->queue)) {
        struct chunk *c = list_entry(w->queue.next, struct chunk, link);

        list_del(&c->link);
        free(c);
    }
    w->queued = 0;
}

void wire_out_fini(struct wire_out *w)
{
    drop_queue(w);
    (void)pthread_mutex_destroy(&w->lock);
    (void)close(w->wake);
    (void)close(w->end.fd);
}

static void wake_up(const struct wire_out *w)
{
    uint64_t one = 1;

    /* Only a full counter can refuse it, and that is readable. */
    (void)!write(w->wake, &one, sizeof(one));
}

static void set_broken(struct wire_out *w)
{
    w->broken = true;
    drop_queue(w);
    wake_up(w);
}

/* A write that cannot block: poll() vouches for PIPE_BUF bytes. */
static ssize_t write_shared(int fd, const struct iovec *iov)
{
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    size_t len = iov[0].iov_len > 0 ? iov[0].iov_len : iov[1].iov_len;
    const void *from = iov[0].iov_len > 0 ? iov[0].iov_base : iov[1].iov_base;

    if (poll(&ready, 1, 0) <= 0) {
        errno = EAGAIN;
        return -1;
    }
    return write(fd, from, len < PIPE_BUF ? len : PIPE_BUF);
}

static ssize_t write_some(const struct wire_end *end, struct iovec iov[2])
{
    struct msghdr message = {.msg_iov = iov, .msg_iovlen = 2};

    switch (end->kind) {
    case WIRE_OWN: return writev(end->fd, iov, 2);
    case WIRE_SOCKET: return sendmsg(end->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    case WIRE_SHARED: return write_shared(end->fd, iov);
    }
    return -1;
}

static void advance(struct iovec iov[2], size_t n)
{
    for (int i = 0; i < 2; i++) {
        size_t part = n < iov[i].iov_len ? n : iov[i].iov_len;

        iov[i].iov_base = (char *)iov[i].iov_base + part;
        iov[i].iov_len -= part;
        n -= part;
    }
}

/* Writes until all is out or the other side takes no more. False: nobody is there. */
static bool write_ready(const struct wire_end *end, struct iovec iov[2])
{
    while (iov[0].iov_len + iov[1].iov_len > 0) {
        ssize_t n = write_some(end, iov);

        if (n >= 0) {
            advance(iov, (size_t)n);
        } else if (errno == EAGAIN) {
            return true;
        } else if (errno != EINTR) {
            return false;
        }
    }
    return true;
}

static void enqueue(struct wire_out *w, const struct iovec iov[2])
{
    size_t len = iov[0].iov_len + iov[1].iov_len;
    struct chunk *c = xmalloc(sizeof(*c) + len);

    *c = (struct chunk){.len = len};
    memcpy(c->bytes, iov[0].iov_base, iov[0].iov_len);
    memcpy(c->bytes + iov[0].iov_len, iov[1].iov_base, iov[1].iov_len);
    if (list_empty(&w->queue)) {
        wake_up(w);
    }
    list_add_tail(&w->queue, &c->link);
    w->queued += len;
}

void wire_send(struct wire_out *w, struct str line, bool may_drop)
{
    static const char newline[] = "\n";
    union { /* writev() takes pointers that are not const and does not write */
        const void *from;
        void *to;
    } text = {.from = line.p}, end = {.from = newline};
    struct iovec iov[2] = {{text.to, line.len}, {end.to, 1}};

    LOCKED(&w->lock);
    if (w->broken || (may_drop && !list_empty(&w->queue))) {
        return;
    }
    if (list_empty(&w->queue) && !write_ready(&w->end, iov)) {
        set_broken(w);
        return;
    }
    if (iov[1].iov_len == 0 || (may_drop && iov[0].iov_len == line.len)) {
        return; /* all of it is out, or nothing of what may be dropped */
    }
    enqueue(w, iov);
}

size_t wire_flush(struct wire_out *w)
{
    LOCKED(&w->lock);
    while (!list_empty(&w->queue)) {
        struct chunk *c = list_entry(w->queue.next, struct chunk, link);
        struct iovec iov[2] = {{c->bytes + c->done, c->len - c->done}, {c->bytes + c->len, 0}};

        if (!write_ready(&w->end, iov)) {
            set_broken(w);
            break;
        }
        w->queued -= c->len - c->done - iov[0].iov_len;
        c->done = c->len - iov[0].iov_len;
        if (c->done < c->len) {
            break;
        }
        list_del(&c->link);
        free(c);
    }
    return w->queued;
}

size_t wire_queued(struct wire_out *w)
{
    LOCKED(&w->lock);
    return w->queued;
}

bool wire_broken(struct wire_out *w)
{
    LOCKED(&w->lock);
    return w->broken;
}

void wire_break(struct wire_out *w)
{
    LOCKED(&w->lock);
    if (!w->broken) {
        set_broken(w);
    }
}
