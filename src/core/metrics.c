#include "core/metrics.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/thread.h"

const double metrics_bounds[METRICS_BUCKETS] = {0.001, 0.005, 0.025, 0.1, 0.5, 1, 5, 30, 120, 600};

struct metrics {
    pthread_mutex_t lock; /* guards the rest */
    int64_t running;
    size_t n_tools;
    struct call_counts tools[METRICS_TOOLS_MAX];
};

struct metrics *metrics_new(void)
{
    struct metrics *m = xcalloc(1, sizeof(*m));

    (void)pthread_mutex_init(&m->lock, NULL);
    return m;
}

void metrics_free(struct metrics *m)
{
    if (m == NULL) {
        return;
    }
    (void)pthread_mutex_destroy(&m->lock);
    free(m);
}

void metrics_begin(struct metrics *m)
{
    if (m == NULL) {
        return;
    }
    LOCKED(&m->lock);
    m->running++;
}

/* NULL when there are too many. With the lock held. */
static struct call_counts *counts_of(struct metrics *m, const char *tool)
{
    for (size_t i = 0; i < m->n_tools; i++) {
        if (m->tools[i].tool == tool) {
            return &m->tools[i];
        }
    }
    if (m->n_tools == METRICS_TOOLS_MAX) {
        return NULL;
    }
    m->tools[m->n_tools].tool = tool;
    return &m->tools[m->n_tools++];
}

void metrics_end(struct metrics *m, const char *tool, enum err_kind end, int64_t us)
{
    struct call_counts *counts;
    size_t bucket = 0;

    if (m == NULL) {
        return;
    }
    while (bucket < METRICS_BUCKETS && (double)us > metrics_bounds[bucket] * 1e6) {
        bucket++;
    }
    LOCKED(&m->lock);
    m->running--;
    counts = counts_of(m, tool);
    if (counts == NULL) {
        return;
    }
    counts->by_end[end < ERR_KINDS ? end : ERR_BUG]++;
    counts->n++;
    counts->total_us += (uint64_t)us;
    if (bucket < METRICS_BUCKETS) {
        counts->buckets[bucket]++;
    }
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct call_counts *)a)->tool, ((const struct call_counts *)b)->tool);
}

size_t metrics_calls(struct metrics *m, struct call_counts out[METRICS_TOOLS_MAX], int64_t *running)
{
    size_t n;

    *running = 0;
    if (m == NULL) {
        return 0;
    }
    lock(&m->lock);
    n = m->n_tools;
    *running = m->running;
    memcpy(out, m->tools, n * sizeof(out[0]));
    unlock(&m->lock);
    qsort(out, n, sizeof(out[0]), by_name);
    return n;
}
