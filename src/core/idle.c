#include "core/idle.h"

#include <stdint.h>

/* A GPU whose memory is full cannot take work, however idle its cores are. */
#define FULL_SHARE 0.9

static double clamp(double share)
{
    return share < 0 ? 0 : share > 1 ? 1 : share;
}

/* 0: free, 1: busy. What cannot be told is not free. */
static double gpu_busy(const struct gpu_usage *g)
{
    if (g->busy_pct < 0) {
        return 1;
    }
    if (g->memory_total_mb > 0 &&
        (double)g->memory_used_mb >= FULL_SHARE * (double)g->memory_total_mb) {
        return 1;
    }
    return clamp(g->busy_pct / 100);
}

static double gpus_free(const struct usage *u)
{
    double busy = 0;

    if (u->n_gpus == 0) {
        return 1;
    }
    for (size_t i = 0; i < u->n_gpus; i++) {
        busy += gpu_busy(&u->gpus[i]);
    }
    return 1 - busy / (double)u->n_gpus;
}

double idle_score(const struct usage *u)
{
    double cpu_free;
    double memory_free;
    double score;

    if (u->load_1m < 0 || u->cpus <= 0 || u->memory_used < 0 || u->memory_total <= 0) {
        return -1;
    }
    cpu_free = 1 - clamp(u->load_1m / u->cpus);
    memory_free = 1 - clamp((double)u->memory_used / (double)u->memory_total);
    score = 0.4 * cpu_free + 0.4 * memory_free + 0.2 * gpus_free(u);
    return (double)(int64_t)(score * 1000 + 0.5) / 1000;
}
