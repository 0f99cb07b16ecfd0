/*
 * tasks.h - the tasks that we know, over all boxes: a row in the database for each.
 *
 * A row says in which box a task is and where its files are there, so that it can be found by
 * its id, its name or its log from any process and client. How the task is only its box can
 * tell (task.h); an end that was once seen is kept in the row, so that it is known when the
 * box is gone or a later run has the name. Rows are kept for TASKS_KEPT_MS.
 */
#ifndef CORE_TASKS_H
#define CORE_TASKS_H

#include "core/boxes.h"
#include "core/services.h"
#include "core/task.h"

#define TASKS_KEPT_MS  (30ll * 24 * 3600 * 1000)
#define TASKS_LIST_MAX 100

/* Who asks. */
struct task_ctx {
    const struct services *services;
    const struct ctx *ctx;
    struct scope *scope;
};

/* Makes the row first, so that a start of which nobody hears is found later. */
int tasks_start(const struct task_ctx *t, struct box *b, struct str box_id,
                const struct task_order *order, struct task_begun *out, struct err *e) MUST_CHECK;

/* A command that its call leaves to itself (exec_req.keep) becomes a task with the id that it
 * was started with; *out tells how it is and where its output is. Without a box (the connection
 * is lost) it can be asked for later. */
int tasks_adopt(const struct task_ctx *t, struct box *b, struct str box_id, struct str id,
                struct str command, struct task_seen *out, struct err *e) MUST_CHECK;

/* Which task a caller means; what is empty is not known. Names are as task_name() makes them. */
struct task_query {
    struct box_want box;
    struct str id, name, log;
};

/* A task as it is now. Strings live in ctx->arena. */
struct task_view {
    struct task_row row;   /* .id is empty: nobody here started it */
    struct task_seen seen; /* what its box says; .end is the row's where it says nothing */
    bool asked;            /* the box was asked and knows of it */
    struct str problem;    /* why not */
    struct str box_id;
};

/* One task, after one round trip to its box. ERR_NOT_FOUND. */
int tasks_check(const struct task_ctx *t, const struct task_query *query, int64_t from, int64_t max,
                const struct task_wait *wait, struct task_view *out, struct err *e) MUST_CHECK;
/* Ends it; *out tells how it is then. */
int tasks_cancel(const struct task_ctx *t, const struct task_query *query, int64_t grace_s,
                 enum task_cut *cut, struct task_view *out, struct err *e) MUST_CHECK;
/* The box of a task, with a reference; *row has its .id empty when nobody here started it. */
struct box *tasks_find(const struct task_ctx *t, const struct task_query *query,
                       struct task_row *row, struct str *box_id, struct err *e) MUST_CHECK;

typedef int task_view_fn(void *arg, const struct task_view *view, struct err *e);
/* All of the owner's, one round trip for each box with something that is not known to have
 * ended; of the box that is meant (the active one) also what nobody here started. */
int tasks_each(const struct task_ctx *t, const struct box_want *want, task_view_fn *each, void *arg,
               struct err *e) MUST_CHECK;

#endif
