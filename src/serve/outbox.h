/*
 * outbox.h - the two ends of a client's connection, without blocking on either.
 *
 * The descriptors may be pipes, sockets, files or terminals that other processes
 * share, so O_NONBLOCK is never set on what we were given: a pipe is opened anew
 * through /proc (its own description, non-blocking), sockets take a flag per call,
 * and the rest is asked by poll() before a small write.
 *
 * What a client does not take at once is queued in the outbox; outbox_flush() writes
 * on from the queue. `wake` becomes readable when a queue begins or the reader turns
 * out to be gone, so that who polls can do that. Its lock is the innermost one of the
 * program.
 */
#ifndef SERVE_OUTBOX_H
#define SERVE_OUTBOX_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/list.h"
#include "base/str.h"

enum end_kind {
    END_OWN,    /* a description of our own, non-blocking */
    END_SOCKET, /* MSG_DONTWAIT */
    END_SHARED, /* poll() first */
};

struct end {
    int fd;
    enum end_kind kind;
};

/* A private, close-on-exec way to what `fd` leads to; `access` is O_RDONLY or O_WRONLY. */
int end_open(struct end *end, int fd, int access, struct err *e) MUST_CHECK;
/* Like read(): -1 with EAGAIN when there is nothing now. */
ssize_t end_read(const struct end *end, void *to, size_t cap);

struct outbox {
    struct end end;
    int wake; /* eventfd */
    pthread_mutex_t lock;
    struct list queue; /* struct chunk.link; guarded by lock */
    size_t queued;     /* bytes; guarded by lock */
    bool broken;       /* nobody reads any more; guarded by lock */
};

int outbox_init(struct outbox *o, int fd, struct err *e) MUST_CHECK;
void outbox_fini(struct outbox *o);
/* One line; the newline is added. What may be dropped is, unless all before it is out. */
void outbox_send(struct outbox *o, struct str line, bool may_drop);
/* Writes from the queue what the other side takes now. Returns what is left, in bytes. */
size_t outbox_flush(struct outbox *o);
size_t outbox_queued(struct outbox *o);
bool outbox_broken(struct outbox *o);
void outbox_break(struct outbox *o); /* somebody else noticed */

#endif
