/* serve.h - what an owner thread does with the channels of its connection; see serve.c. */
#ifndef PROVIDER_SSH_SERVE_H
#define PROVIDER_SSH_SERVE_H

#include "provider/ssh/machine.h"

/* True when the channel got further, which may be its end. */
bool serve_chan(struct session *s, struct chan *c);
/* Opens a channel in advance, where there is room and one may be wanted. */
void serve_spare(struct session *s);
/* Before the session goes, with which libssh frees what is left of them. */
void serve_forget(struct session *s);
/* Asks the host for a word. */
void serve_ask_alive(struct session *s);

#endif
