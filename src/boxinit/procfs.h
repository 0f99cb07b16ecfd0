/* procfs.h - /proc of a box: what is the machine's alone is read-only or hidden. */
#ifndef BOXINIT_PROCFS_H
#define BOXINIT_PROCFS_H

#include "boxinit/spec.h"

/* With the box's /dev in place. `apart` is a folder of the box's tmpfs that goes when the root is
 * built. */
int procfs_make(const struct spec *spec, const char *apart, struct err *e) MUST_CHECK;

#endif
