/*
 * watch.h - the thread that waits for what libmicrohttpd does not tell: that a time has come,
 * and that a client went away while its connection is suspended.
 *
 * An alarm or a gaze is part of the object that it is about. Both fire on the watch's thread,
 * without a lock of the watch. *_off() returns when nothing fires any more, so it is called
 * before the object is freed, and never with a lock that the firing takes; from the firing
 * itself it is fine.
 */
#ifndef SERVE_HTTP_WATCH_H
#define SERVE_HTTP_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"

struct watch;

struct alarm {
    struct list link; /* in the watch while armed */
    int64_t at_ms;    /* on clock_mono_ms(); 0: not armed */
    void (*fire)(struct alarm *a);
};

/* A socket whose other end may close. */
struct gaze {
    int fd;     /* -1: not looked at */
    unsigned n; /* which of those that used this number */
    void (*fire)(struct gaze *g);
};

struct watch *watch_new(struct err *e) MUST_CHECK;
void watch_free(struct watch *w); /* NULL is fine; nothing may be armed */

/* Arms or moves it. It fires once, up to half a second late. Cheap; any lock may be held. */
void watch_at(struct watch *w, struct alarm *a, int64_t at_ms);
void watch_at_off(struct watch *w, struct alarm *a);

/* Fires once, when the other end has closed its sending side or the connection broke. Not
 * yet looked at: fd must be -1. A socket that cannot be watched just never fires. */
void watch_socket(struct watch *w, struct gaze *g, int fd);
void watch_socket_off(struct watch *w, struct gaze *g);

#endif
