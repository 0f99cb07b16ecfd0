/* stack.h - slirp4netns, the outside of a box's network. */
#ifndef BOXINIT_STACK_H
#define BOXINIT_STACK_H

#include <sys/types.h>

#include "boxinit/spec.h"

/* What slirp4netns is given, and nothing else. */
struct stack {
    int net_ns, user_ns; /* of the box; -1: not opened */
    int box_lives;       /* end of a pipe: hangs up when PID 1 is gone */
};

/* Before PID 1 goes on and may no longer be looked at: its namespaces. */
int stack_open(struct stack *s, pid_t init, struct err *e) MUST_CHECK;

/* Starts it and waits until it serves. It is nobody's child then, and ends with the box. */
int stack_start(const struct stack *s, const struct spec *spec, struct err *e) MUST_CHECK;

#endif
