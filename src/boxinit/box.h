/* box.h - the processes that make a box. */
#ifndef BOXINIT_BOX_H
#define BOXINIT_BOX_H

#include "boxinit/server.h"

/* The outer process: everything up to the birth of the inner one, and its network.
 * Returns the exit code. */
int box_make(void);
/* The same for many boxes, one after another: maker.c. */
int maker_run(void);

/* The inner process, already cloned into its namespaces. It goes on when a byte comes
 * from `go`, with the tree of an image where the outer one has to open it; the end of it instead means that nobody wants the box any more. A box with a
 * network writes a byte to `net_made` first, and waits for another one then. It tells the
 * rest to CONTROL_FD itself. Never returns. */
NORETURN void box_init(const struct spec *spec, struct box_fds fds, int go, int net_made);

/* A FAIL frame. */
void box_put_fail(struct buf *to, const struct err *why);
/* Says a frame without fields, or a FAIL frame, on the control. */
int box_say(uint8_t frame, struct err *e) MUST_CHECK;
/* The birth of PID 1. */
int box_say_born(pid_t pid, struct err *e) MUST_CHECK;
void box_say_failed(enum setup_step step, const struct err *why);

#endif
