/*
 * opensandbox.h - sandboxes of an OpenSandbox platform.
 *
 * Theory of operation. The platform's server makes, lists and ends sandboxes (api.c); inside
 * each of them runs a small server of its own, execd, which runs commands and moves files
 * (exec.c, files.c). Its address is asked for once and kept with the handle (reach.c): straight
 * to the sandbox, or through the platform's server where that way is closed. The API key goes to
 * the server alone; execd has a token that we choose when the sandbox is made, derived from a
 * secret of the state folder and the sandbox's id, so that every anybox of this user knows it.
 *
 * A command is one POST whose answer is a stream of events (stream.h). We stop at the event
 * that tells the end: execd holds the stream open for a moment longer. To disconnect does not
 * stop a command, so a cancel asks execd to. A sandbox that is made carries an id that we minted:
 * a create whose answer is lost is found by that, and removed.
 *
 * The platform ends a sandbox when its time is over. That time is renewed whenever less than three
 * quarters of it are left and somebody uses the sandbox, but not beyond a timeout that its creator
 * gave. A task that nobody attends is no use; that the watchdog looks at it is (watch/round.c).
 */
#ifndef PROVIDER_OPENSANDBOX_OPENSANDBOX_H
#define PROVIDER_OPENSANDBOX_OPENSANDBOX_H

#include "provider/provider.h"

extern const struct provider_ops opensandbox_ops;

#endif
