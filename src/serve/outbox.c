#include "serve/outbox.h"

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
    struct list link; /* outbox.queue */
    size_t len, done;
    char bytes[];
};

static int reopen(int fd, int access)
{
    char path[32];

    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return open(path, access | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
}

int end_open(struct end *end, int fd, int access, struct err *e)
{
    int dup own_fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    struct stat st;

    if (dup < 0 || fstat(dup, &st) < 0) {
        return err_sys(e, errno, "descriptor %d is not open", fd);
    }
    if (S_ISFIFO(st.st_mode)) {
        int own = reopen(dup, access);

        if (own >= 0) {
            *end = (struct end){own, END_OWN};
            return 0;
        }
        /* Another user's pipe, no /proc, or no reader any more: as it is, then. */
    }
    *end = (struct end){take_fd(&dup), S_ISSOCK(st.st_mode) ? END_SOCKET : END_SHARED};
    return 0;
}

ssize_t end_read(const struct end *end, void *to, size_t cap)
{
    return end->kind == END_SOCKET ? recv(end->fd, to, cap, MSG_DONTWAIT) : read(end->fd, to, cap);
}

int outbox_init(struct outbox *o, int fd, struct err *e)
{
    int wake own_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

    if (wake < 0) {
        return err_sys(e, errno, "eventfd");
    }
    *o = (struct outbox){.wake = -1};
    if (end_open(&o->end, fd, O_WRONLY, e) < 0) {
        return -1;
    }
    o->wake = take_fd(&wake);
    (void)pthread_mutex_init(&o->lock, NULL);
    list_init(&o->queue);
    return 0;
}

static void drop_queue(struct outbox *o)
{
    while (!list_empty(&o->queue)) {
        struct chunk *c = list_entry(o->queue.next, struct chunk, link);

        list_del(&c->link);
        free(c);
    }
    o->queued = 0;
}

void outbox_fini(struct outbox *o)
{
    drop_queue(o);
    (void)pthread_mutex_destroy(&o->lock);
    (void)close(o->wake);
    (void)close(o->end.fd);
}

static void wake_up(const struct outbox *o)
{
    uint64_t one = 1;

    /* Only a full counter can refuse it, and that is readable. */
    (void)!write(o->wake, &one, sizeof(one));
}

static void set_broken(struct outbox *o)
{
    o->broken = true;
    drop_queue(o);
    wake_up(o);
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

static ssize_t write_some(const struct end *end, struct iovec iov[2])
{
    struct msghdr message = {.msg_iov = iov, .msg_iovlen = 2};

    switch (end->kind) {
    case END_OWN: return writev(end->fd, iov, 2);
    case END_SOCKET: return sendmsg(end->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    case END_SHARED: return write_shared(end->fd, iov);
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
static bool write_ready(const struct end *end, struct iovec iov[2])
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

static void enqueue(struct outbox *o, const struct iovec iov[2])
{
    size_t len = iov[0].iov_len + iov[1].iov_len;
    struct chunk *c = xmalloc(sizeof(*c) + len);

    *c = (struct chunk){.len = len};
    memcpy(c->bytes, iov[0].iov_base, iov[0].iov_len);
    memcpy(c->bytes + iov[0].iov_len, iov[1].iov_base, iov[1].iov_len);
    if (list_empty(&o->queue)) {
        wake_up(o);
    }
    list_add_tail(&o->queue, &c->link);
    o->queued += len;
}

void outbox_send(struct outbox *o, struct str line, bool may_drop)
{
    static const char newline[] = "\n";
    union { /* writev() takes pointers that are not const and does not write */
        const void *from;
        void *to;
    } text = {.from = line.p}, end = {.from = newline};
    struct iovec iov[2] = {{text.to, line.len}, {end.to, 1}};

    LOCKED(&o->lock);
    if (o->broken || (may_drop && !list_empty(&o->queue))) {
        return;
    }
    if (list_empty(&o->queue) && !write_ready(&o->end, iov)) {
        set_broken(o);
        return;
    }
    if (iov[1].iov_len == 0 || (may_drop && iov[0].iov_len == line.len)) {
        return; /* all of it is out, or nothing of what may be dropped */
    }
    enqueue(o, iov);
}

size_t outbox_flush(struct outbox *o)
{
    LOCKED(&o->lock);
    while (!list_empty(&o->queue)) {
        struct chunk *c = list_entry(o->queue.next, struct chunk, link);
        struct iovec iov[2] = {{c->bytes + c->done, c->len - c->done}, {c->bytes + c->len, 0}};

        if (!write_ready(&o->end, iov)) {
            set_broken(o);
            break;
        }
        o->queued -= c->len - c->done - iov[0].iov_len;
        c->done = c->len - iov[0].iov_len;
        if (c->done < c->len) {
            break;
        }
        list_del(&c->link);
        free(c);
    }
    return o->queued;
}

size_t outbox_queued(struct outbox *o)
{
    LOCKED(&o->lock);
    return o->queued;
}

bool outbox_broken(struct outbox *o)
{
    LOCKED(&o->lock);
    return o->broken;
}

void outbox_break(struct outbox *o)
{
    LOCKED(&o->lock);
    if (!o->broken) {
        set_broken(o);
    }
}
