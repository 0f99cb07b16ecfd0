/* tasks_own.h - what the files of tasks.h share. */
#ifndef CORE_TASKS_OWN_H
#define CORE_TASKS_OWN_H

#include "core/tasks.h"

/* An end that was seen is written down: the box may be gone when somebody asks again. That it
 * cannot be written is no failure of the question. */
void tasks_keep_end(const struct task_ctx *t, struct task_row *row, const struct task_end *end);
struct task_end tasks_end_of(const struct task_row *row);
/* What the row says, as if it were seen. */
struct task_seen tasks_seen_of(const struct task_row *row);
/* The row is all that is left of it: its box has ended, or another run has its place. -1: that
 * is not so, and *e stands. */
int tasks_from_row(const struct task_ctx *t, struct task_view *v, struct err *e) MUST_CHECK;
struct task_want tasks_want(const struct task_query *q, const struct task_row *row, int64_t from,
                            int64_t max);
static inline bool tasks_is_named(const struct box_want *want)
{
    return want->id.len > 0 || want->name.len > 0;
}

#endif
