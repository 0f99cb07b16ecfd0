/*
 * apply.h - the halves of sync_apply(): send.c up, fetch.c down, apply.c what is left.
 */
#ifndef SYNC_APPLY_H
#define SYNC_APPLY_H

#include "sync/plan.h"

/* A sync under way. */
struct work {
    struct sync_plan *plan;
    struct box *box;
    const struct ctx *ctx;
    int root_fd; /* of the local side: the folder, of one file the folder it is in */
    sync_progress_fn *progress;
    void *arg;
    struct sync_progress now;
    struct sync_result *result;
};

/* Tells how far it is; -1 when the listener wants it to end. */
int work_tell(struct work *w, struct str path, struct err *e) MUST_CHECK;
/* A file that failed for itself alone. */
void work_failed(struct work *w, struct str path, struct str why);

/* The steps of a sequence, in the plan's direction. */
int send_steps(struct work *w, const struct seq *steps, struct err *e) MUST_CHECK;
int fetch_steps(struct work *w, const struct seq *steps, struct err *e) MUST_CHECK;

/* The paths of a sequence, of files with contents only or of all; owned by the arena. */
struct path_list {
    struct str *items;
    size_t n;
    struct arena arena;
};
void paths_of(struct path_list *out, const struct seq *s, bool contents_only);
void paths_fini(struct path_list *l);

#endif
