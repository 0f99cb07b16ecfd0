/* jump.h - the hosts between: "[user@]host[:port],..." as machines, each reached through the
 * one before it. The last is next to the host. */
#ifndef PROVIDER_SSH_JUMP_H
#define PROVIDER_SSH_JUMP_H

#include "provider/ssh/machine.h"

#define JUMPS_MAX 8

/* Cuts the last hop off, with which one begins; what leads to it stays in *hops. */
struct str jump_cut(struct str *hops);
/* The configuration of a hop: its user, host and port, and how `target` trusts hosts. */
struct ssh_host jump_conf(const struct ssh_host *target, struct str hop);

/* Makes the machines of a jump that the ssh configuration names, for m alone: m->jump, which
 * m->own_jump then owns. Each hop asks that configuration for its own user, keys and jumps. */
int jump_add(struct machine *m, struct str hops, struct err *e) MUST_CHECK;
/* Fails when a host that is reached through m is where m turned out to be. Those behind it are
 * resolved and wait for it, so that nobody changes them. */
int jump_check(const struct machine *m, const struct ssh_host *whole, struct err *e) MUST_CHECK;

#endif
