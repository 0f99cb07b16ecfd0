/*
 * pump.h - a channel as a socket: a thread moves the bytes between them.
 *
 * The end of one direction is passed on, so that who has said all can still listen. The pump
 * ends when both directions have, when the channel does, or when the socket's other end is gone.
 */
#ifndef PROVIDER_SSH_PUMP_H
#define PROVIDER_SSH_PUMP_H

#include "provider/ssh/machine.h"

struct pump {
    struct list link; /* machine.pumps */
    pthread_t thread;
    struct chan *chan;
    int fd;
    struct cancel stop;
    atomic_bool is_done;
};

/* Takes the channel and the socket when it succeeds. */
struct pump *pump_start(struct chan *c, int fd, struct err *e) MUST_CHECK;
/* Ends it, whether it is done or not, and frees it. NULL is fine. */
void pump_stop(struct pump *p);

/* A connected socket to what the host itself reaches at this address. Its pump is the
 * machine's. ERR_NOT_FOUND: nothing listens there. */
int pump_dial(struct machine *m, const struct ctx *ctx, struct str host, int port, struct err *e)
    MUST_CHECK;
/* Frees the machine's pumps: those that are done, or all. */
void pump_sweep(struct machine *m, bool all);

#endif
