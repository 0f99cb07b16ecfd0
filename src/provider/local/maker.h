/*
 * maker.h - the one boxinit that gives birth to the plain boxes of this server
 * (boxinit/maker.c), started with the first of them.
 *
 * A box never depends on it: whoever cannot have his box made by the maker, or does not hear
 * of it, starts a boxinit of his own. It is replaced when it has died, when it was silent,
 * and after some boxes anyway: all those of one have the layout of its memory in common.
 */
#ifndef PROVIDER_LOCAL_MAKER_H
#define PROVIDER_LOCAL_MAKER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

struct maker;

struct maker *maker_new(void);
/* It ends. NULL is fine. */
void maker_free(struct maker *m);

/* Has it make the box of this spec frame, with these descriptors (agent/proto.h). False:
 * it has not been told of it. */
bool maker_send(struct maker *m, const char *program, struct str spec, const int *fds,
                size_t n_fds);
/* It does not do what it was told: the next box has another one. */
void maker_drop(struct maker *m);

#endif
