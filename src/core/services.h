/*
 * services.h - everything that lives as long as the process, built in order and
 * torn down in reverse. Nothing here touches the disk, the network or a backend:
 * the first answer comes before any of that.
 */
#ifndef CORE_SERVICES_H
#define CORE_SERVICES_H

#include "base/err.h"
#include "config/config.h"

struct store;
struct boxes;
struct pool;
struct tokens;
struct metrics;
struct audit;
struct transfers;
struct forwards;
struct journal;
struct pythons;
struct index_relays;

struct services {
    struct config *config;
    struct store *store;
    struct boxes *boxes;
    struct tokens *tokens;       /* signed texts for clients */
    struct metrics *metrics;     /* of tool calls */
    struct audit *audit;         /* NULL: calls are not recorded */
    struct transfers *transfers; /* workers of background syncs that we started */
    struct forwards *forwards;   /* local ports that lead into boxes */
    struct journal *journal;     /* what was run, for who looks back */
    struct pythons *pythons;     /* ways to interpreters of boxes */
    struct index_relays *relays; /* to the package index, from boxes */
    struct pool *calls;          /* runs tool calls; some more than twice max_calls threads */
};

int services_init(struct services *s, const struct config_flags *flags, struct err *e) MUST_CHECK;
/* The same with a configuration that is there already; *config is taken over, also on failure. */
int services_init_with(struct services *s, struct config *config, struct err *e) MUST_CHECK;
void services_fini(struct services *s);

#endif
