/*
 * hosts.h - hosts that only a client's environment names, kept for the watchdog.
 *
 * The watchdog reads the same configuration files as everybody. A host of REMOTE_HOST or
 * REMOTE_SANDBOX_LIST is known to the server of that client alone; when a task on it is to be
 * watched and the caller allows it, the host is kept, with its secrets, in a file of its own,
 * <state>/watch_hosts/<name's hash>, 0600. So two clients do not overwrite each other's. A host
 * that the files configure is never kept, and comes before a kept one of the same name.
 */
#ifndef WATCH_HOSTS_H
#define WATCH_HOSTS_H

#include "base/err.h"
#include "config/config.h"

/* The host of that name is one that the environment may have brought. */
bool watch_hosts_needed(const struct config *c, struct str name);
/* ERR_NOT_FOUND: there is no host of that name. */
int watch_hosts_keep(const struct config *c, struct str name, struct err *e) MUST_CHECK;
bool watch_hosts_kept(const struct config *c, struct str name);
/* Adds what is kept and not configured. What cannot be read is told in the log. */
void watch_hosts_add(struct config *c);
int watch_hosts_forget(const struct config *c, struct str name, struct err *e) MUST_CHECK;

#endif
