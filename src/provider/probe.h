/*
 * probe.h - how busy a host is, in one round trip: a script that runs on the host, and a
 * reader of what it printed.
 *
 * The script is for any POSIX sh, on Linux (GNU or busybox) and macOS. Each figure has its
 * own section, so that a tool that is missing costs its figure and no other. The text comes
 * from another machine and may hold anything, a login shell's greeting before it too. In a
 * container its own limit of memory counts, where that is lower than what the machine has.
 */
#ifndef PROVIDER_PROBE_H
#define PROVIDER_PROBE_H

#include "base/err.h"
#include "base/str.h"
#include "provider/provider.h"

#define PROBE_MAX_BYTES  (64u << 10) /* of output that is worth keeping */
#define PROBE_TIMEOUT_MS 10000

/* Run it in the folder whose disk is meant. It has no single quote in it. */
extern const char probe_script[];

/* ERR_PROTOCOL when the script did not run to its end. What a host cannot tell stays
 * unknown: negative, and for a GPU a row whose figures are. */
int probe_parse(struct str output, struct usage *out, struct err *e) MUST_CHECK;

#endif
