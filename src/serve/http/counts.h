/* counts.h - what the HTTP server counts about itself, for /metrics. Any thread adds. */
#ifndef SERVE_HTTP_COUNTS_H
#define SERVE_HTTP_COUNTS_H

#include <stdatomic.h>

struct http_counts {
    atomic_ullong requests[6]; /* by the first digit of their status; 0: nobody got an answer */
    atomic_ullong bytes_in;    /* of bodies */
    atomic_ullong bytes_out;
    atomic_ullong connected;           /* connections ever */
    atomic_llong connections, streams; /* now */
};

static inline void count_add(atomic_ullong *counter, unsigned long long n)
{
    (void)atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

static inline void count_move(atomic_llong *gauge, long long by)
{
    (void)atomic_fetch_add_explicit(gauge, by, memory_order_relaxed);
}

#endif
