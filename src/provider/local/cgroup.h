/*
 * cgroup.h - limits over a whole box, where this machine lets us.
 *
 * Version 1 has a hierarchy for each controller and we make our folder below our own
 * cgroup there. Version 2 is one tree in which a cgroup with processes cannot hand
 * out controllers, and most of which belongs to systemd. Root uses a folder at its top,
 * beside those of systemd; a user asks the own systemd manager (scope.h); where there is
 * none, we look upwards from our own for the nearest one that can hand out and that we
 * may write to. What cannot be had is left out: the caller falls back to rlimits.
 */
#ifndef PROVIDER_LOCAL_CGROUP_H
#define PROVIDER_LOCAL_CGROUP_H

#include "base/arena.h"
#include "base/ctx.h"
#include "base/err.h"
#include "base/str.h"
#include "provider/local/scope.h"
#include "provider/provider.h"

#define CGROUPS_MAX     3
#define CGROUP_PIDS_OWN 8 /* beside the payload: boxinit itself and its file workers */

enum controller {
    CONTROL_MEMORY,
    CONTROL_CPU,
    CONTROL_PIDS,
    CONTROLS,
};

/* Where we ourselves are in a hierarchy. */
struct cgroup_at {
    struct str mount; /* its mount point; empty: there is none that we could use */
    struct str own;   /* our cgroup's folder: the mount point or below it */
};

struct cgroup_host {
    struct cgroup_at v1[CONTROLS];
    struct cgroup_at v2;
    struct scope_manager manager;
};

/* From the texts of /proc/self/cgroup and /proc/self/mountinfo. */
void cgroup_parse_host(struct arena *a, struct str self_cgroup, struct str mountinfo,
                       struct cgroup_host *out);
void cgroup_host_read(struct arena *a, struct cgroup_host *out);
/* The memory that cgroups leave to all that we and our boxes can be in; INT64_MAX: any. A
 * container has such a limit, and is shown the memory of the whole machine all the same. */
int64_t cgroup_memory_most(struct arena *a, const struct cgroup_host *host);
/* The manager has refused: all of version 2 is systemd's and not to be had, then. */
void cgroup_host_refused(struct cgroup_host *host);

/* A box's cgroups. Strings live in the arena. */
struct cgroup_set {
    int version[CONTROLS];        /* what enforces it: 1, 2, or 0 for nothing */
    struct str dir[CONTROLS];     /* where */
    struct str dirs[CGROUPS_MAX]; /* each once */
    size_t n_dirs;
    struct str oom_file, memory_file, pids_file; /* empty: none */
    struct scope_manager manager; /* who makes the only dir, by scope_argv(); or none */
};

/* Chooses <cgroup>/anybox/<id> for every controller of which `want` has a limit and that
 * may be had, and makes nothing yet. Processor time without a limit, too: a box with a
 * thousand processes, or a thousand sessions, then has the weight of one in the
 * scheduler. */
void cgroup_plan(struct arena *a, const struct cgroup_host *host, struct str id,
                 const struct limits *want, struct cgroup_set *out);
/* Makes what was planned and sets the limits. What is refused is taken out of the set;
 * nothing possible is n_dirs 0. A scope is left as it is: it comes with the box. */
void cgroup_make(struct arena *a, const struct limits *want, struct cgroup_set *set);
/* Other limits for what was made, and is not a scope. False: not all could be set. */
bool cgroup_limit(struct arena *a, const struct limits *want, const struct cgroup_set *set);
/* True when a scope that is there now has every limit of the set. */
bool cgroup_check_scope(struct arena *a, const struct cgroup_set *set);
/* "cgroup v1", "cgroup v2"; empty when nothing was made. */
struct str cgroup_text(const struct cgroup_set *set);

/* Only paths that cgroup_make() could have made. */
bool cgroup_is_ours(struct str dir);
/* Takes the quota of processor time away: to end takes some, too. */
void cgroup_unthrottle(struct arena *a, struct str dir);
/* Kills what is still in there and removes it. Missing is success. */
int cgroup_remove(const struct ctx *ctx, struct str dir, struct err *e) MUST_CHECK;
/* The same for all that cgroup_make() can have made for this id. */
int cgroup_remove_of(const struct ctx *ctx, const struct cgroup_host *host, struct str id,
                     struct err *e) MUST_CHECK;
/* Removes cgroups whose box and whose record of it are both gone: those below ours that
 * have been empty for longer than it takes to make a box. */
void cgroup_sweep(struct arena *a, const struct cgroup_host *host, int64_t older_than_s);

#endif
