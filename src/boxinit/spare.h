/* spare.h - a process that was forked before it is needed. */
#ifndef BOXINIT_SPARE_H
#define BOXINIT_SPARE_H

#include "boxinit/child.h"

struct server;

struct spare {
    pid_t pid;                /* 0: none */
    int order;                /* what it is to run goes in here */
    struct child_pipes pipes; /* both ends, but of the report */
    int64_t made_ms;
    bool wanted;    /* a command has started: make the next one */
    int64_t due_ms; /* when to; 0: not */
};

/* Gives the order to the spare, which is used up by it. Its pid, with the pipes moved to
 * *p, both ends of what the command has, and the order's bytes in *told: it may be about to
 * die, see spawn_result(). 0 when there is none or the order is too long: fork, then. */
pid_t spare_use(struct server *s, const struct child_order *order, struct child_pipes *p,
                struct buf *told);
/* End of a turn: make the next one when it is time, or let an old one go. */
void spare_turn(struct server *s, int64_t now);
int64_t spare_next_ms(const struct server *s); /* when spare_turn() is due; 0: not */
/* It ended by itself, or somebody in the box ended it. */
void spare_ended(struct server *s);

#endif
