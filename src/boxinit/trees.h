/* trees.h - what the requests for whole trees have in common. */
#ifndef BOXINIT_TREES_H
#define BOXINIT_TREES_H

#include "agent/entries.h"
#include "boxinit/files.h"

/* Sends a block; a struct worker is the argument. */
int trees_send(void *arg, struct str block, uint32_t unpacked, struct err *e);
/* Something to hear for a client that has waited for long. -1: it is gone. */
int trees_alive(struct worker *w, struct err *e) MUST_CHECK;
/* The next block of the client. 1; 0: it was the last one; -1. */
int trees_next(struct worker *w, struct request *out, struct err *e) MUST_CHECK;
/* After a request with blocks has failed: says why, at once, and takes what the client has sent
 * meanwhile. Returns what the request returns. */
int trees_refuse(struct worker *w, struct err *e);

#endif
