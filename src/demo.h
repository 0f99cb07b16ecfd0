/* demo.h - the parts of `anybox demo`. */
#ifndef DEMO_H
#define DEMO_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/buf.h"
#include "cli.h"
#include "demo_client.h"

struct tour {
    struct demo_client client;
    struct cli_signals signals;
    struct arena arena;
    struct buf details; /* of the step that is played */
    struct str home;    /* the server's state folder */
    bool colour, cleared, memory_limited;
};

struct demo_step {
    const char *title;
    int (*play)(struct tour *t, struct err *e);
};
extern const struct demo_step demo_steps[];
extern const size_t demo_n_steps;
#define DEMO_NEEDED 3 /* without these first ones the others make no sense */

/* The lines to paste for the clients in the field, with this path in them. */
void demo_clients(struct buf *to, struct str path);

#endif
