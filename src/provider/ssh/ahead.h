/*
 * ahead.h - a conversation with the host's agent that is begun before it is needed.
 *
 * What a conversation may send at once is little (MUX_FIRST); the agent's side grants more as
 * soon as it has heard of it (agent/mux.h), which is known here a round trip later. A folder is
 * listed before it is written. So where the round trip is long the next conversation is begun with
 * each listing, and may send a whole window when the listing has come. One for each machine;
 * machine.lock guards it.
 */
#ifndef PROVIDER_SSH_AHEAD_H
#define PROVIDER_SSH_AHEAD_H

#include "provider/ssh/machine.h"

/* Begins one over the relay, unless there is one or the way is short. */
void ahead_begin(struct machine *m, struct chan *relay);
/* The one that was begun, which is the caller's from here on; -1: there is none, or it is too old
 * or was lost. */
int ahead_take(struct machine *m);
void ahead_drop(struct machine *m);

#endif
