/* skeleton.h - a root that is built once and shown in many boxes. */
#ifndef BOXINIT_SKELETON_H
#define BOXINIT_SKELETON_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "boxinit/spec.h"

struct skeleton {
    int keeper;      /* the process that has it: a socket; -1: there is none */
    pid_t pid;       /* of the last one, that may have ended */
    bool is_refused; /* by this kernel, or with the rights that we have, or late: not tried again */
    int64_t made_ms;
    struct buf view; /* what it shows of the host */
};

void skeleton_init(struct skeleton *s);

/* Before the birth of a box that it may be for: it is built anew where it is older than a moment
 * or shows something else, while the caller goes on. */
void skeleton_prepare(struct skeleton *s, const struct spec *spec);

/* A clone of it with the owners of PID 1's user namespace, to be sent to `pid`. -1: none, the
 * box builds its own root. The caller owns the result. */
int skeleton_clone(struct skeleton *s, const struct spec *spec, pid_t pid);

/* Returns when the keeper has ended, and does not wait long for one that hangs. */
void skeleton_end(struct skeleton *s);
/* Closes all descriptors from `first` on but the skeleton's own. */
void skeleton_close_others(const struct skeleton *s, int first);

#endif
