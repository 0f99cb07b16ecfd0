/*
 * transfer.h - a sync in the background: a worker process of its own that outlives us.
 *
 * A server adds a row (store/transfers.h) and starts `anybox transfer-worker`, in a session of
 * its own, with the log as its output and the configuration with its secrets in a pipe. The
 * worker claims the row, looks, sends, tells how far it is at most twice a second and that it
 * lives at least every few seconds (the lease), and writes how it ended. Any server with the same
 * state folder can ask, cancel and resume.
 *
 * A worker that died without a word is stale: its process (pid, start time, boot) has ended,
 * or its lease is over. That holds from the row's first moment on. Nobody starts it again by
 * himself; to resume is to do the same sync again, which does not send twice what arrived.
 */
#ifndef CORE_TRANSFER_H
#define CORE_TRANSFER_H

#include "core/boxes.h"
#include "core/services.h"
#include "store/transfers.h"
#include "sync/sync.h"

struct transfers; /* the workers that this process has started; services.h has it */

/* Waits for a child of ours on a thread of its own, so that it stays no zombie. */
void transfers_adopt(struct transfers *t, pid_t pid);
struct transfers *transfers_new(struct err *e);
void transfers_free(struct transfers *t); /* the workers live on; NULL is fine */

/* What the tools know when they hand a sync over. */
struct transfer_order {
    struct str box_id, box_name; /* as boxes_find() gave them; the name may be empty */
    const struct sync_job *job;
    const struct sync_counts *counts; /* of the plan that was looked at; NULL: nobody looked */
};

struct transfer_started { /* strings in ctx->arena */
    int64_t task_id;
    struct str status; /* "queued", "running" */
    int64_t pid;       /* of the worker; 0: not known */
    struct str log_file;
    bool down; /* its direction */
};

/* ERR_LIMIT when too many are under way. */
int transfer_start(const struct services *s, const struct ctx *ctx, struct scope *scope,
                   const struct transfer_order *order, struct transfer_started *out, struct err *e)
    MUST_CHECK;
/* One that failed, was cancelled or is stale, under its number. ERR_EXISTS while it runs,
 * ERR_INVALID when it is complete. */
int transfer_resume(const struct services *s, const struct ctx *ctx, struct scope *scope,
                    int64_t id, struct transfer_started *out, struct err *e) MUST_CHECK;

struct transfer_view {
    struct transfer_row row;
    bool stale; /* QUEUED or RUNNING, but nobody works on it */
};

/* ERR_NOT_FOUND for a number that is not one of the owner's. */
int transfer_get(const struct services *s, const struct ctx *ctx, struct scope *scope, int64_t id,
                 struct transfer_view *out, struct err *e) MUST_CHECK;
typedef int transfer_view_fn(void *arg, const struct transfer_view *view, struct err *e);
/* The newest first. */
int transfer_each(const struct services *s, const struct ctx *ctx, struct scope *scope, int max,
                  transfer_view_fn *each, void *arg, struct err *e) MUST_CHECK;
/* The last lines of its log; empty when there is none. In the arena, as the file has them. */
struct str transfer_log(const struct transfer_row *row, int64_t lines, struct arena *a);
const char *transfer_status(enum transfer_state state); /* "running" */

struct transfer_cancelled {
    enum transfer_state state; /* it is in now: TRANSFER_CANCELLED, or how it had ended before */
    bool already;              /* it had ended before */
    bool terminated;           /* its worker ran, and has ended */
    bool killed;               /* ... by force */
    bool lives;                /* ... and has not: it was told to, and holds the row no more */
};
/* The row is cancelled at once; the worker is told to end, and is killed when it has not done so
 * after kill_after_ms. */
int transfer_cancel(const struct services *s, const struct ctx *ctx, struct scope *scope,
                    int64_t id, int64_t kill_after_ms, struct transfer_cancelled *out,
                    struct err *e) MUST_CHECK;

/* ---- in the worker ------------------------------------------------------------------ */

/* Does it, and writes how it ended into the row. `cancel` is fired by whoever wants us to end, and
 * by the worker itself when the row is not its own any more. 0 when it is complete; ERR_NOT_FOUND
 * when there is no such transfer. by_hand: a person resumes one that is not under way. */
int transfer_work(const struct services *s, struct cancel *cancel, int64_t id, bool by_hand,
                  struct err *e) MUST_CHECK;

#endif
