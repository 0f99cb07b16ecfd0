/*
 * agent_lanes.h - what parts_put() and parts_get() share: several conversations, served in turn
 * on the call's thread. Theirs alone.
 */
#ifndef PROVIDER_AGENT_LANES_H
#define PROVIDER_AGENT_LANES_H

#include "provider/agent_parts.h"

#define SPANS_MAX 256 /* that are under way on one lane */

/* A part of the file. */
struct span {
    uint64_t at, end;
};

enum lane_state {
    LANE_LATER, /* it may come */
    LANE_OPEN,
    LANE_OVER, /* it does not */
};

struct lane {
    struct agent_box as; /* what its talk takes for its box */
    int given;           /* the descriptor that the talk gets */
    enum lane_state state;
    struct talk talk;
    bool is_checked;              /* the file there is the one that is meant */
    struct span spans[SPANS_MAX]; /* a ring: what was sent, or asked for, and not answered yet */
    size_t first, n;
    uint64_t answered;
};

struct lanes;

struct lane_ops {
    /* Puts the request into l->talk.out. */
    int (*begin)(struct lanes *p, struct lane *l, struct err *e);
    /* Gives the lane more to do, where there is more. 1: it did; 0; -1. */
    int (*feed)(struct lanes *p, struct lane *l, struct err *e);
    int (*hear)(struct lanes *p, struct lane *l, struct frame f, struct err *e);
    bool (*is_over)(const struct lanes *p);
};

struct lanes {
    const struct parts_req *req;
    const struct lane_ops *ops;
    void *arg; /* of the ops */
    struct lane lanes[LANES_MAX];
    struct span *again; /* parts of lanes that were lost */
    size_t n_again, cap_again;
    int64_t heard_ms, told_ms, tried_ms;
    bool has_failed; /* the file, for itself alone */
    bool is_stopped; /* by our own side: no lane is to blame */
    char why[ENTRIES_WHY + 1];
};

struct lanes *lanes_new(const struct parts_req *req, const struct lane_ops *ops, void *arg);
void lanes_free(struct lanes *p);
/* Until ops.is_over() or has_failed. */
int lanes_run(struct lanes *p, struct err *e) MUST_CHECK;
/* The file has failed; returns 0. */
int lanes_fail_file(struct lanes *p, struct str why);
void lane_add_span(struct lane *l, struct span s); /* there is room: l->n < SPANS_MAX */
struct span *lane_first(struct lane *l);           /* NULL: none is under way */
void lane_drop_first(struct lane *l);
bool lanes_quiet(const struct lanes *p); /* nothing is under way on any */

#endif
