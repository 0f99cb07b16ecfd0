/*
 * blank.h - a box that is made but for its order.
 *
 * Every box begins as a blank: a locked folder, cgroups, a range of uids, and a PID 1 that
 * has built its file system and waits for the order (agent/proto.h). Making one knows
 * nothing of the one who will ask for it, so it can be done in advance (pool.h); until the
 * order it dies with the process that made it, which its control shows. The id names its
 * cgroups for good, and its folder until it is claimed.
 */
#ifndef PROVIDER_LOCAL_BLANK_H
#define PROVIDER_LOCAL_BLANK_H

#include <sys/types.h>

#include "provider/local/local.h"

/* What a blank is made for. */
struct blank_kind {
    enum network network;
    struct limits limits; /* that its cgroups enforce */
    struct str image;     /* the path of its folder (image.h); empty: the host's system */
    bool alone;           /* by a boxinit of its own, not by the maker (maker.h) */
};

struct blank {
    struct local *local;
    struct arena arena; /* what is named below */
    char id[BOX_ID_SIZE];
    struct snapshot *here; /* this machine, as it was */
    const char *home;      /* boxes_dir or pool_dir: where its folder lies */
    bool in_advance;       /* it waits for its order */
    bool by_maker;
    bool scoped; /* by Landlock */
    int folder;  /* locked; -1: none */
    struct blank_kind kind;
    struct cgroup_set cgroups;
    struct uid_range uids;
    pid_t outer; /* boxinit as we started it, not waited for yet; 0: none */
    pid_t pid;   /* of PID 1; 0: not born */
    long long start;
    int control; /* -1: none */
    struct buf said;
    bool refused;         /* systemd did not make the scope: boxinit has not been started */
    struct timespec view; /* what the host's /etc was like */
};

/* Made in the folder `home` under the name `id`, and prepared if that is the pool's. NULL on
 * failure; with ERR_UNREACHABLE it was the maker's, and can be made without. */
struct blank *blank_make(struct local *l, const struct ctx *ctx, const struct blank_kind *kind,
                         const char *home, struct str id, struct err *e);
/* The box that `spec` asks for, with these limits in force; *meta is what was written down
 * about it. The blank is at its end, whatever comes of it: blank_free() it.
 * ERR_UNREACHABLE: it had died, and nothing has happened. */
int blank_claim(struct blank *b, const struct ctx *ctx, const struct box_spec *spec,
                const struct limits *limits, struct meta *meta, struct err *e) MUST_CHECK;
/* Takes back everything that was made. The box of a blank that was claimed, too. */
void blank_undo(struct blank *b);
/* Lets go of a blank: one that was not claimed dies of it. */
void blank_free(struct blank *b);

/* Is it still there, is the host still as it was, and can it get these limits? */
bool blank_fits(const struct blank *b, const struct limits *limits);

/* ---- start.c: boxinit ------------------------------------------------------------- */

/* Starts boxinit, or tells the maker, and waits until PID 1 is born. */
int blank_start(struct blank *b, const struct ctx *ctx, const char *program, struct err *e)
    MUST_CHECK;
/* Waits until PID 1 is prepared. */
int blank_prepare(struct blank *b, const struct ctx *ctx, struct err *e) MUST_CHECK;
/* Sends the order and waits until PID 1 serves, whether it is prepared already or not. */
int blank_order(struct blank *b, const struct ctx *ctx, const struct box_spec *spec,
                const struct limits *limits, struct err *e) MUST_CHECK;

#endif
