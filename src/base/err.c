#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define MSG_SIZE sizeof(((struct err *)0)->msg)

/* A message under construction: it may be made from the message it will replace, so
 * it is built aside and copied once. */
struct draft {
    char text[MSG_SIZE];
    size_t len;
    bool cut;
};

static bool is_continuation(char c)
{
    return ((unsigned char)c & 0xC0) == 0x80;
}

static void mark_cut(struct draft *d)
{
    size_t end = MSG_SIZE - sizeof("...");

    while (end > 0 && is_continuation(d->text[end])) {
        end--;
    }
    memcpy(d->text + end, "...", sizeof("..."));
    d->len = end + 3;
    d->cut = true;
}

PRINTF_LIKE(2, 0) static void add_v(struct draft *d, const char *fmt, va_list args)
{
    size_t room = MSG_SIZE - d->len;
    int n;

    if (d->cut) {
        return;
    }
    n = vsnprintf(d->text + d->len, room, fmt, args);
    if (n < 0) { /* cannot be formatted: what is there so far stands */
        d->text[d->len] = '\0';
        return;
    }
    if ((size_t)n >= room) {
        mark_cut(d);
        return;
    }
    d->len += (size_t)n;
}

PRINTF_LIKE(2, 3) static void add(struct draft *d, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    add_v(d, fmt, args);
    va_end(args);
}

static int finish(struct err *e, const struct draft *d)
{
    memcpy(e->msg, d->text, d->len + 1);
    return -1;
}

int err_set(struct err *e, enum err_kind kind, const char *fmt, ...)
{
    struct draft d = {.text = ""};
    va_list args;

    va_start(args, fmt);
    add_v(&d, fmt, args);
    va_end(args);
    e->kind = kind;
    e->sys = 0;
    return finish(e, &d);
}

static enum err_kind kind_of_errno(int errnum)
{
    switch (errnum) {
    case ENOENT:
    case ENOTDIR: return ERR_NOT_FOUND;
    case EEXIST: return ERR_EXISTS;
    case EACCES:
    case EPERM: return ERR_DENIED;
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
    case EAGAIN:
    case ENOMEM:
    case EFBIG:
    case E2BIG: return ERR_LIMIT;
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE:
    case EHOSTUNREACH:
    case ETIMEDOUT: return ERR_UNREACHABLE;
    default: return ERR_SYSTEM;
    }
}

int err_sys(struct err *e, int errnum, const char *fmt, ...)
{
    const char *reason = strerrordesc_np(errnum);
    struct draft d = {.text = ""};
    va_list args;

    va_start(args, fmt);
    add_v(&d, fmt, args);
    va_end(args);
    if (reason != NULL) {
        add(&d, ": %s", reason);
    } else {
        add(&d, ": error %d", errnum);
    }
    e->kind = kind_of_errno(errnum);
    e->sys = errnum;
    return finish(e, &d);
}

int err_wrap(struct err *e, const char *fmt, ...)
{
    struct draft d = {.text = ""};
    va_list args;

    va_start(args, fmt);
    add_v(&d, fmt, args);
    va_end(args);
    add(&d, ": %s", e->msg);
    return finish(e, &d);
}

const char *err_kind_name(enum err_kind kind)
{
    static const char *const names[ERR_KINDS] = {
        [ERR_NONE] = "none",
        [ERR_INVALID] = "invalid",
        [ERR_NOT_FOUND] = "not_found",
        [ERR_EXISTS] = "exists",
        [ERR_DENIED] = "denied",
        [ERR_UNSUPPORTED] = "unsupported",
        [ERR_LIMIT] = "limit",
        [ERR_TIMEOUT] = "timeout",
        [ERR_CANCELLED] = "cancelled",
        [ERR_UNREACHABLE] = "unreachable",
        [ERR_PROTOCOL] = "protocol",
        [ERR_SYSTEM] = "system",
        [ERR_BUG] = "bug",
        [ERR_GONE] = "gone",
    };

    /* The number may come from a peer, so it may be anything. */
    return (unsigned)kind < ERR_KINDS ? names[kind] : "unknown";
}
