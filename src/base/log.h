/*
 * log.h - one logfmt line per event on stderr, or in a file. Never on stdout.
 *
 *   t=2026-11-15T08:52:33Z level=info area=call tool=exec_bash box=default ms=12
 *
 * Below tools/ nothing logs above debug; whoever answers the client logs, once.
 * Control characters in the formatted text are escaped, so that data cannot forge
 * a line. Writing never blocks: a line that stderr does not take at once is
 * dropped and the next one that fits says how many were.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"

enum log_level {
    LOG_DEBUG,
    LOG_INFO,
    LOG_WARN,
    LOG_ERROR,
    LOG_OFF,
};

/* DEBUG, INFO, WARNING (or WARN), ERROR, CRITICAL, OFF, in any case. */
int log_level_parse(struct str s, enum log_level *out, struct err *e) MUST_CHECK;

/* Default: warnings and worse, to stderr. */
void log_set_level(enum log_level level);
/* Appends to this file (0600) from now on, as other processes may. Beyond max_bytes it is
 * renamed to <path>.1, what was that to <path>.2, and so on: `keep` of them are kept. */
int log_set_file(const char *path, long long max_bytes, int keep, struct err *e) MUST_CHECK;

/* fmt is "key=value key=value"; quote values that may hold spaces by %s of
 * log_quote(). */
void log_line(enum log_level level, const char *area, const char *fmt, ...) PRINTF_LIKE(3, 4);

#define LOG_QUOTE_SIZE 256
/* "text" with quotes and escapes, cut to fit. Returns `to`. */
const char *log_quote(struct str s, char to[LOG_QUOTE_SIZE]);

#endif
