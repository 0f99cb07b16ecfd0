/*
 * legacy.h - what a remote-sandbox-mcp left on this machine, for its users to go on with.
 *
 * Its state folder is $REMOTE_SANDBOX_MCP_HOME, else the place that its platform has. The active
 * watches of its database become ours once, with their counts of attempts and failures, under
 * new numbers; the old one is in their metadata. Nothing there is ever written. Its own watchdog may still
 * run: as long as its heartbeat is fresh it is left in charge, and we look at those watches and
 * tell what happens, but start nothing again. The hosts of its config.json are used where they
 * are not configured otherwise, if nobody else can read that file.
 */
#ifndef WATCH_LEGACY_H
#define WATCH_LEGACY_H

#include "base/err.h"
#include "core/services.h"
#include "store/watches.h"

/* Its state folder, there or not; empty: nowhere. */
struct str legacy_folder(const struct config *c, struct arena *a);

/* *n: how many watches came over now; 0 when there is nothing, or it was done before.
 * ERR_DENIED: others can write the database, which names commands that we would run. */
int legacy_import(const struct services *s, size_t *n, struct err *e) MUST_CHECK;

/* Adds the hosts that are not there yet. What cannot be used is told in the log. */
void legacy_hosts_add(struct config *c);

/* It came from there. */
bool legacy_is_its(const struct watch_row *w);
/* Its own watchdog lives, or at least nobody can tell that it does not. */
bool legacy_in_charge(const struct config *c, int64_t now_s);

#endif
