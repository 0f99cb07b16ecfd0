/* image.h - an image as the root of a box. */
#ifndef BOXINIT_IMAGE_H
#define BOXINIT_IMAGE_H

#include <stdbool.h>

#include "base/err.h"

/*
 * The tree of the image at `path` as a mount that nobody else has: read-only, without
 * set-uid and devices. With a user namespace (outer process, root) its owners become those
 * of that namespace; -1 (inner process): they are right as they are. The caller owns
 * the result.
 */
int image_open(const char *path, int user_ns, struct err *e) MUST_CHECK;

/* The outer process hands the tree to the inner one, along with one byte. */
int image_send(int to, int tree, struct err *e) MUST_CHECK;
/* One byte, and the descriptor that came with it, or -1. False: the other side is gone. */
bool image_receive(int from, int *tree);

/* Inner process: makes the overlay over the tree and moves into it as ROOTFS_APART is
 * described in rootfs.h. Places that a box needs and that are no folders in the image are
 * made, in the overlay. */
int image_enter(int tree, struct err *e) MUST_CHECK;

#endif
