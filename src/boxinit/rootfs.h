/* rootfs.h - the file system that a box sees. */
#ifndef BOXINIT_ROOTFS_H
#define BOXINIT_ROOTFS_H

#include "boxinit/spec.h"

/* Inner process, in its own mount namespace with all capabilities there: builds the
 * new root, moves into it and lets go of the host's. */
int rootfs_build(const struct spec *spec, struct err *e) MUST_CHECK;

#endif
