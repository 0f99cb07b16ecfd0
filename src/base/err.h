/*
 * err.h - what went wrong, as a value.
 *
 * A function that can fail takes `struct err *e` last and returns 0 or -1 (or a
 * pointer, or NULL). -1 and NULL mean exactly one thing: *e is filled in. On
 * success *e is not touched. `e` is never NULL.
 *
 * The message reads outermost first, like a sentence: "exec in gpu1: open
 * channel: connection reset". err_set() writes the innermost part; each caller
 * that knows more adds its own in front with err_wrap(). Nobody logs on the way
 * up: the layer that answers the client logs, once.
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include "base/attr.h"

/* What the receiver can do about it. Keep err_kind_name() in step. The numbers
 * travel in agent frames, so new kinds go at the end. */
enum err_kind {
    ERR_NONE,
    ERR_INVALID,     /* the request is wrong: fix it and ask again */
    ERR_NOT_FOUND,   /* no such sandbox, task, path */
    ERR_EXISTS,      /* name or path is taken */
    ERR_DENIED,      /* credentials, permissions, policy */
    ERR_UNSUPPORTED, /* this provider or machine cannot do that */
    ERR_LIMIT,       /* too big, too many, quota */
    ERR_TIMEOUT,     /* the deadline of this call passed */
    ERR_CANCELLED,   /* the client took the call back, or we are shutting down */
    ERR_UNREACHABLE, /* host, daemon or box is away: retry may help */
    ERR_PROTOCOL,    /* the other side said something we cannot read */
    ERR_SYSTEM,      /* a system call failed; see .sys */
    ERR_BUG,         /* our own mistake */
    ERR_GONE,        /* this sandbox has ended: make a new one */
    ERR_KINDS,       /* how many there are */
};

struct err {
    enum err_kind kind;
    int sys;       /* errno behind it, or 0 */
    char msg[512]; /* always terminated; cut with "..." when too long */
};

/* All three return -1, so that a failure is one line: return err_set(e, ...). */
int err_set(struct err *e, enum err_kind kind, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* ERR_SYSTEM (or DENIED, NOT_FOUND, EXISTS, LIMIT where errno says so);
 * the message is "<fmt>: <strerror(errnum)>". */
int err_sys(struct err *e, int errnum, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* Puts "<fmt>: " in front of the message. Kind and errno stay. */
int err_wrap(struct err *e, const char *fmt, ...) PRINTF_LIKE(2, 3);

const char *err_kind_name(enum err_kind kind); /* "timeout": goes over the wire */

#endif
