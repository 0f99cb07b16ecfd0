/*
 * lanes.h - further connections to a host, for large files and trees on a link with a delay.
 *
 * What one connection carries is bound by its window (two MiB with OpenSSH) and by TCP's own, once
 * for each round trip. A lane is a machine of its own with the same configuration: one more
 * connection, with an owner thread and an agent's relay like any other, and nothing else ever
 * goes over it. It is made when a large file or tree begins, where the round trip is long, and its
 * connection ends by itself when it was idle for LANE_IDLE_MS. Hosts behind a jump host or a
 * ProxyCommand have none: all of them would share the one connection in between, or nobody knows.
 *
 * A lane's machine is made once and stays until the provider closes; machine.lock guards the
 * pointers.
 */
#ifndef PROVIDER_SSH_LANES_H
#define PROVIDER_SSH_LANES_H

#include "provider/ssh/machine.h"

#define LANE_RTT_US 5000 /* a round trip for which one connection is not enough */

/* Are there any? */
bool machine_has_lanes(struct machine *m);
/* A conversation over lane i (0 to LANES - 1): as agent_box.lane. */
int machine_lane(struct machine *m, unsigned i);
/* Are so many bytes of small files worth several? Then they are made, and those that are there
 * begin a conversation (ahead.h). */
bool machine_splits(struct machine *m, uint64_t bytes);
/* The provider is closing: after hostagent_stop(), and after hostagent_join(). */
void machine_stop_lanes(struct machine *m);
void machine_fini_lanes(struct machine *m);

/* ---- for owner threads ----------------------------------------------------------- */

/* A lane's connection that nobody has used for long. */
bool session_is_unused(struct session *s);
/* Notes how long a round trip to the host takes. */
void session_measure(struct session *s);

#endif
