/*
 * wire.h - the two ends of a client's connection, without blocking on either.
 *
 * The descriptors may be pipes, sockets, files or terminals that other processes
 * share, so O_NONBLOCK is never set on what we were given: a pipe is opened anew
 * through /proc (its own description, non-blocking), sockets take a flag per call,
 * and the rest is asked by poll() before a small write.
 *
 * What a client does not take at once is queued; wire_flush() writes on from the
 * queue. `wake` becomes readable when a queue begins or the wire breaks, so that who
 * polls can do that. The lock is the innermost one of the program.
 */
#ifndef SERVE_WIRE_H
#define SERVE_WIRE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/list.h"
#include "base/str.h"

enum wire_kind {
    WIRE_OWN,    /* a description of our own, non-blocking */
    WIRE_SOCKET, /* MSG_DONTWAIT */
    WIRE_SHARED, /* poll() first */
};

struct wire_end {
    int fd;
    enum wire_kind kind;
};

/* A private, close-on-exec way to what `fd` leads to; `access` is O_RDONLY or O_WRONLY. */
int wire_open(struct wire_end *end, int fd, int access, struct err *e) MUST_CHECK;
/* Like read(): -1 with EAGAIN when there is nothing now. */
ssize_t wire_take(const struct wire_end *end, void *to, size_t cap);

struct wire_out {
    struct wire_end end;
    int wake; /* eventfd */
    pthread_mutex_t lock;
    struct list queue; /* struct chunk.link; guarded by lock */
    size_t queued;     /* bytes; guarded by lock */
    bool broken;       /* nobody reads any more; guarded by lock */
};

int wire_out_init(struct wire_out *w, int fd, struct err *e) MUST_CHECK;
void wire_out_fini(struct wire_out *w);
/* One line; the newline is added. What may be dropped is, unless all before it is out. */
void wire_send(struct wire_out *w, struct str line, bool may_drop);
/* Writes from the queue what the other side takes now. Returns what is left, in bytes. */
size_t wire_flush(struct wire_out *w);
size_t wire_queued(struct wire_out *w);
bool wire_broken(struct wire_out *w);
void wire_break(struct wire_out *w); /* somebody else noticed */

#endif
