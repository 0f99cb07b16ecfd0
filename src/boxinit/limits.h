/* limits.h - what PID 1 gives up, and what its children may use. */
#ifndef BOXINIT_LIMITS_H
#define BOXINIT_LIMITS_H

#include "boxinit/spec.h"

/* PID 1 for good: no new privileges, an empty bounding set, no capability but the three
 * it needs to start and end commands of another uid (none with one uid), not to be
 * traced or dumped, and the system-call filter, which every child inherits. */
int limits_seal(const struct spec *spec, struct err *e) MUST_CHECK;

/* The resource limits of a command, or of a file worker. 0, or the errno. Safe between
 * fork and exec; before the uid changes, so that the count of processes is checked
 * against the new limit. */
int limits_apply(const struct spec *spec);

/* Before the user namespace is made: the kernel counts pending signals, timers and
 * message queues of a box for the user who made it, too, and takes as the most for all
 * of it what this process may have. Leaves most of that to the user. */
void limits_share(void);

#endif
