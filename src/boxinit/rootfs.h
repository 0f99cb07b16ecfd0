/* rootfs.h - the file system that a box sees. */
#ifndef BOXINIT_ROOTFS_H
#define BOXINIT_ROOTFS_H

#include "boxinit/spec.h"

/* While a root is built: the tmpfs of all that can be written, and the host's tree in it. */
#define ROOTFS_APART "/.apart"
#define ROOTFS_HOST  ROOTFS_APART "/host"
#define ROOTFS_SPACE "mode=755,size=4m,nr_inodes=4096" /* of that tmpfs, until the order */

/* What all boxes with the same view of the host have in their root, as the root of this process,
 * which has a mount namespace of its own and the rights of the machine's root: skeleton.c. */
int rootfs_build_shared(const struct spec *spec, struct err *e) MUST_CHECK;

/* Inner process, in its own mount namespace with all capabilities there: builds the
 * new root, moves into it and lets go of the host's. `tree` is that of the spec's image
 * (image.h), or the root that is shared, else -1. */
int rootfs_build(const struct spec *spec, int tree, struct err *e) MUST_CHECK;
/* What the order says of it: its name and its size. Nobody can change it then. */
int rootfs_finish(const struct spec *spec, struct err *e) MUST_CHECK;

#endif
