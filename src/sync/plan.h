/*
 * plan.h - what differs between two trees, and what has to be done about it: a pure function
 * of two sequences. For the files of this folder; everyone else reads sync.h.
 */
#ifndef SYNC_PLAN_H
#define SYNC_PLAN_H

#include "sync/seq.h"
#include "sync/sync.h"
#include "tree/exclude.h"

struct sync_plan {
    enum sync_direction direction;
    bool is_file;
    struct arena arena;    /* the strings here */
    struct str local;      /* absolute: the folder, or the one file */
    struct str remote;     /* as it is told */
    struct str local_root; /* the folder that paths of steps are below, on either side: */
    struct str remote_root;
    struct str local_name;  /* of one file that is sent: below local_root */
    struct str remote_name; /* of one file that is fetched: below remote_root */
    struct str held, unreadable;
    struct sync_counts counts;
    struct seq steps;  /* tags: enum sync_action */
    struct seq in_way; /* to remove before: folders where a file or link is to be */
    struct seq extras; /* to remove after */
};

struct sync_plan *plan_new(enum sync_direction direction);

/* What is to be compared. The roots come first in both, or are missing. */
struct plan_req {
    const struct seq *from, *to;
    bool checksum;
    bool delete_extras;
    const struct exclude *keep; /* of what is only in `to`: stays. NULL: nothing more */
};

/* Adds the steps and counts to the plan, which has none yet. */
int plan_compare(struct sync_plan *p, const struct plan_req *req, struct err *e) MUST_CHECK;

#endif
