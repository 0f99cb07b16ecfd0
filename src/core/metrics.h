/*
 * metrics.h - what was called, how it ended and how long it took, since the process began.
 * One short lock per call; read as a whole by whoever shows it.
 */
#ifndef CORE_METRICS_H
#define CORE_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct metrics;

#define METRICS_TOOLS_MAX 128 /* more tools than there are */
#define METRICS_BUCKETS   10

/* Upper bounds of the buckets, in seconds; what takes longer is only in the total. */
extern const double metrics_bounds[METRICS_BUCKETS];

struct call_counts {
    const char *tool;
    uint64_t by_end[ERR_KINDS];        /* ERR_NONE: it went well */
    uint64_t n;                        /* of all of them */
    uint64_t buckets[METRICS_BUCKETS]; /* each counts the calls that took so long, no sum */
    uint64_t total_us;
};

struct metrics *metrics_new(void);
void metrics_free(struct metrics *m); /* NULL is fine, here and below */

/* A call of a tool begins; `tool` is a name that lives for ever. */
void metrics_begin(struct metrics *m);
void metrics_end(struct metrics *m, const char *tool, enum err_kind end, int64_t us);

/* Copies what there is, sorted by name; returns how many tools that are. *running is how many
 * calls have begun and not ended. */
size_t metrics_calls(struct metrics *m, struct call_counts out[METRICS_TOOLS_MAX],
                     int64_t *running);

#endif
