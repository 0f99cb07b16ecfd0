/* box.h - the two processes that make a box. */
#ifndef BOXINIT_BOX_H
#define BOXINIT_BOX_H

#include "boxinit/server.h"

/* No frame begins like this: each has a type at least. */
#define BOX_NET_MADE S("\0\0\0\0")

/* The outer process: everything up to the report on REPORT_FD. Returns the exit code. */
int box_make(void);

/* The inner process, already cloned into its namespaces. It goes on when a byte comes
 * from `go`, tells on `answer` how it went, and serves when another byte comes; the end
 * of `go` instead means that nobody wants the box any more. A box with a network says
 * BOX_NET_MADE first, and waits for a byte then, too. Never returns. */
NORETURN void box_init(const struct spec *spec, struct box_fds fds, int go, int answer);

/* A FAIL frame. */
void box_put_fail(struct buf *to, const struct err *why);

#endif
