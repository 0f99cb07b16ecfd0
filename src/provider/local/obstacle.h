/*
 * obstacle.h - why the machine refuses a box, and the command that mends it.
 *
 * The kernel says "operation not permitted" for a dozen reasons. Which one it was follows
 * from where it was said and from what is known about this machine (facts.h). Nothing is
 * read or tried here: facts in, sentences out. create_sandbox and doctor say the same.
 */
#ifndef PROVIDER_LOCAL_OBSTACLE_H
#define PROVIDER_LOCAL_OBSTACLE_H

#include "agent/proto.h"
#include "provider/local/facts.h"

struct obstacle {
    struct str found; /* "AppArmor refuses user namespaces to programs without a profile" */
    struct str fix;   /* what to run or to change */
};

/* Between the two, in an error message. */
#define OBSTACLE_FIX ". To mend it: "

/* Why that step failed with that errno. False: for no reason that is known here. */
bool obstacle_find(const struct facts *f, enum setup_step step, int errnum, struct arena *a,
                   struct obstacle *out);

/* How cgroups could be had that limit what is not limited here. */
struct str obstacle_cgroups_fix(const struct facts *f, struct arena *a);

/* The settings that forbid user namespaces, known before anything is tried. */
bool obstacle_expected(const struct facts *f, struct arena *a, struct obstacle *out);

#endif
