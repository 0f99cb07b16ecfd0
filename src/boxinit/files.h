/* files.h - what a worker does: with one path, or with one port or socket. All in the payload's name. */
#ifndef BOXINIT_FILES_H
#define BOXINIT_FILES_H

#include <stdatomic.h>
#include <sys/stat.h>

#include "agent/proto.h"
#include "agent/request.h"
#include "boxinit/spec.h"

/* One conversation of a worker. */
struct worker {
    const struct spec *spec;
    int fd;
    struct buf *in; /* bytes that were read and not used yet */
    size_t used;    /* of in: the frame that worker_next() gave last */
    struct buf out;
    struct arena arena; /* of the request */
    _Atomic int64_t *used_ms;
    int64_t said_ms; /* when something was sent last */
};

/* worker.c */
/* Serves file requests until the client has gone; .out and .arena are there. */
void worker_serve(struct worker *w);
/* The next frame, waiting for it; valid until the next call. -1: the conversation is over. */
int worker_next(struct worker *w, struct frame *out, struct err *e) MUST_CHECK;
int worker_flush(struct worker *w, struct err *e) MUST_CHECK; /* -1: the client is gone */
void worker_put_entry(struct worker *w, struct str path, const struct stat *is);
void worker_put_ok(struct worker *w, uint8_t more);
/* A sentence for an errno on a path. Returns -1. */
int worker_fail(const struct worker *w, int errnum, struct str path, const char *doing,
                struct err *e);

/* files.c, files_write.c: -1 with *e, or 0 with the answer in w->out or sent. */
int files_stat(struct worker *w, const struct request *r, struct err *e);
int files_list(struct worker *w, const struct request *r, struct err *e);
int files_read(struct worker *w, const struct request *r, struct err *e);
int files_write(struct worker *w, const struct request *r, struct err *e);
int files_mkdir(struct worker *w, const struct request *r, struct err *e);
int files_remove(struct worker *w, const struct request *r, struct err *e);

/* dial.c: the one request of its conversation, and then bytes to its end */
void dial_serve(struct worker *w);

/* trees.c, trees_write.c: the same. */
int trees_list(struct worker *w, const struct request *r, struct err *e);
int trees_get(struct worker *w, const struct request *r, struct err *e);
int trees_put(struct worker *w, const struct request *r, struct err *e);
int trees_prune(struct worker *w, const struct request *r, struct err *e);
/* trees_parts.c: until the client has gone. */
int trees_part_put(struct worker *w, const struct request *r, struct err *e);
int trees_part_get(struct worker *w, const struct request *r, struct err *e);

#endif
