/*
 * look.h - the halves of sync_look(): look.c does folders and decides which it is,
 * look_file.c one file.
 */
#ifndef SYNC_LOOK_H
#define SYNC_LOOK_H

#include "sync/plan.h"

#define SHOWN_PATH 200 /* bytes of a path in a sentence */

/* What is left out, for both sides: the defaults, then the job's own. */
struct patterns {
    const struct str *lines;
    size_t n;
    struct exclude *exclude; /* the same, ready to match */
};

struct look {
    struct box *box;
    const struct ctx *ctx;
    const struct sync_job *job;
    struct arena arena; /* for what only the look needs */
    struct patterns patterns;
    struct sync_plan *plan;
    struct str local, remote;         /* without a '/' at the end */
    bool local_folder, remote_folder; /* they had one: a folder is meant */
    struct tree_req far;
};

/* One file that is sent: the local one is there. */
int look_file_up(struct look *l, int fd, struct err *e) MUST_CHECK;
/* One file that is fetched: `entry` is what the box listed. */
int look_file_down(struct look *l, const struct tree_facts *facts, const struct tree_entry *entry,
                   struct err *e) MUST_CHECK;

#endif
