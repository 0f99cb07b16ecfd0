/* pool.h - the queue of channels that wait for a connection: machine.c and chan.c share it. */
#ifndef PROVIDER_SSH_POOL_H
#define PROVIDER_SSH_POOL_H

#include "provider/ssh/machine.h"

/* Queues the channel; connects when none of the open connections has room. ERR_UNREACHABLE
 * and the like with the reason while the host is remembered as dead. */
int pool_add(struct machine *m, struct chan *c, struct err *e) MUST_CHECK;
/* Takes it out again when no connection has it yet. */
void pool_withdraw(struct machine *m, struct chan *c);

#endif
