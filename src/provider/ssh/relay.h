/*
 * relay.h - the channel over which a host's agent is spoken to.
 *
 * At its other end `boxinit relay` passes on to the agent's socket what the mux (agent/mux.h)
 * carries. The mux is driven by the owner thread of the channel's connection, as it serves
 * other channels; a conversation is a socket whose near end a call has, so that what is
 * written for unix sockets works over it unchanged. When the channel ends, so do they.
 *
 * Before the first byte of the mux there is one line that begins with the mark; what a login
 * shell printed before it is skipped.
 */
#ifndef PROVIDER_SSH_RELAY_H
#define PROVIDER_SSH_RELAY_H

#include "provider/command.h"
#include "provider/ssh/machine.h"

#define RELAY_LINE_MAX 256

struct relay;

/* Queues a channel for this text, as chan_open() does. */
struct chan *relay_open(struct machine *m, struct str text, const char mark[MARK_SIZE],
                        struct err *e) MUST_CHECK;
/* True when the marked line has come, with the rest of it: "" when it is the relay's. */
bool relay_said(struct chan *c, char to[RELAY_LINE_MAX]);
/* The end of what came on stderr: why the host runs no agent. */
void relay_complained(struct chan *c, char to[RELAY_LINE_MAX]);

/* A new conversation: a connected, non-blocking, close-on-exec socket. ERR_UNREACHABLE when
 * the channel has ended, ERR_LIMIT when there are too many. */
int relay_connect(struct chan *c, struct err *e) MUST_CHECK;
/* How many bytes went to the host. */
uint64_t relay_sent(struct chan *c);

/* ---- for the owner thread ------------------------------------------------------ */

/* What came over the channel goes to the calls. True when there was something; e is set when
 * the host's side cannot be understood. */
bool relay_take(struct session *s, struct chan *c, struct err *e);
bool relay_waits(const struct chan *c);   /* something came that is not taken yet */
bool relay_is_used(const struct chan *c); /* conversations are open, or it is being made */
/* And the other way. */
bool relay_give(struct session *s, struct chan *c);
/* Its channel is about to be freed: all conversations end. */
void relay_end(struct session *s, struct chan *c);
void relay_free(struct relay *r);

#endif
