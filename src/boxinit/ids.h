/* ids.h - whose uids a box has: the maps of its user namespace, and becoming them. */
#ifndef BOXINIT_IDS_H
#define BOXINIT_IDS_H

#include <sys/types.h>

#include "boxinit/spec.h"

/* Outer process: gives the new user namespace of `pid` its maps. */
int ids_map(const struct spec *spec, pid_t pid, struct err *e) MUST_CHECK;
/* Inner process, once mapped: becomes the box's root where there is a range, so that
 * no uid of the host's is left in it. */
int ids_enter(const struct spec *spec, struct err *e) MUST_CHECK;
/* A command or a file worker becomes the payload; it loses every capability by that.
 * 0, or the errno. Safe between fork and exec. */
int ids_become_payload(const struct spec *spec);

#endif
