/* making.h - a box under construction, shared by create.c and start.c. */
#ifndef PROVIDER_LOCAL_MAKING_H
#define PROVIDER_LOCAL_MAKING_H

#include "provider/local/local.h"

/* Everything that making a box has brought into the world so far. */
struct making {
    struct local *local;
    const struct ctx *ctx;
    const struct box_spec *spec;
    int boxes;  /* <state>/boxes */
    int folder; /* the box's, locked; -1: not made */
    struct cgroup_set cgroups;
    struct uid_range uids;
    struct meta meta;
    pid_t outer;  /* boxinit as we started it, not waited for yet; 0: none */
    bool refused; /* systemd did not make the scope: boxinit has not been started */
};

/* Starts boxinit and waits until PID 1 serves; m->meta gets its pid and start time. */
int making_start(struct making *m, const char *program, const struct limits *rlimits, struct err *e)
    MUST_CHECK;

#endif
