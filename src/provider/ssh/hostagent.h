/*
 * hostagent.h - the agent on a host: boxinit, pushed once, and one channel for everything.
 *
 * Theory of operation. The first calls to a host go over plain channels. Meanwhile a thread
 * runs one command on the host that starts the relay (relay.h) when the right agent lies in
 * the user's cache folder, and else says that it does not; then the agent is sent through a
 * second command and the first is run again. From then on each call is a conversation over
 * the relay's channel: one round trip, whatever MaxSessions is.
 *
 * What is on the host. ~/.cache/anybox (or $XDG_CACHE_HOME), 0700, with agent-<hash>, where
 * the hash is SHA-256 of the program that lies beside this anybox. Who can write there is the
 * user, so nothing is won by distrust of the folder; but a file that is not what its name
 * says, half written or changed, must not run: the host's own sha256sum has to confirm it
 * each time before it is started, and where there is none the file is sent anew by every
 * anybox. It is written under another name and put in place when its size is right. Each
 * version serves in a folder of its own, at-<hash>: who was upgraded has the new one at once,
 * while others go on with theirs.
 *
 * When there is no agent (switched off, another system, a home that runs no programs, a
 * full disk, killed), everything works over plain channels, and `via` of the box tells so.
 * It is tried again later, never while somebody waits for it.
 *
 * All fields are guarded by machine.lock.
 */
#ifndef PROVIDER_SSH_HOSTAGENT_H
#define PROVIDER_SSH_HOSTAGENT_H

#include "provider/ssh/machine.h"

/* A reference to the relay's channel, to be given back by chan_unref(); NULL while there is no
 * agent. Starts one in the background where that is due. */
struct chan *hostagent_take(struct machine *m);
/* Only starts it, for those who come next. */
void hostagent_poke(struct machine *m);
/* How things are; *why is filled in for HOSTAGENT_OFF, and of kind ERR_NONE when it was not
 * tried yet. */
enum hostagent_state hostagent_state(struct machine *m, struct err *why);
/* The provider is closing. */
void hostagent_stop(struct machine *m);
void hostagent_join(struct machine *m);

/* ---- hostagent_push.c: the thread's work --------------------------------------- */

/* A channel whose relay has greeted, or NULL with the reason: ERR_UNSUPPORTED when it will
 * always be so. */
struct chan *hostagent_start(struct machine *m, const struct ctx *ctx, uint32_t *version,
                             struct err *e) MUST_CHECK;

#endif
