/* host.h - what a box has on the host's side, and the birth of its PID 1: for both who make
 * one, outer.c and maker.c. */
#ifndef BOXINIT_HOST_H
#define BOXINIT_HOST_H

#include "boxinit/box.h"

/* A child of a program must not inherit what its parent had set up for itself. */
int host_reset_process(struct err *e) MUST_CHECK;

/* The listening socket, the file for the end, the counters of the cgroups, KEEP_FD. */
int host_open(const struct spec *spec, struct box_fds *fds, struct err *e) MUST_CHECK;
/* Closes them but for KEEP_FD. */
void host_close(struct box_fds *fds);

/* The cgroups of a box, opened by whoever may. */
struct host_groups {
    int joins[SPEC_CGROUPS_MAX]; /* lists of processes, to be written to */
    size_t n_joins;
    int born_into;          /* the folder of one of version 2; -1: none */
    const char *born_procs; /* its list of processes */
};

#define HOST_NO_GROUPS                                                                             \
    {                                                                                              \
        .born_into = -1                                                                            \
    }

/* `born`: PID 1 may be born into one of version 2. */
int host_open_groups(const struct spec *spec, bool born, struct host_groups *out, struct err *e)
    MUST_CHECK;
/* This process joins those that nobody is born into. */
int host_join(const struct host_groups *groups, struct err *e) MUST_CHECK;
void host_close_groups(struct host_groups *groups);

/* As fork(), into the namespaces of a box: its pid, 0 in it, or -1 with errno. The new
 * process calls host_be_inner(), for `groups` may have changed. */
pid_t host_clone(const struct spec *spec, struct host_groups *groups);
NORETURN void host_be_inner(const struct spec *spec, const struct box_fds *fds,
                            const struct host_groups *groups, int go, int net_made);

#endif
