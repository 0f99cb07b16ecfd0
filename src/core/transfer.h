/*
 * transfer.h - a sync in the background: a worker process of its own that outlives us.
 */
#ifndef CORE_TRANSFER_H
#define CORE_TRANSFER_H

#include "core/boxes.h"
#include "core/services.h"
#include "sync/sync.h"

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
};

int transfer_start(const struct services *s, const struct ctx *ctx, struct scope *scope,
                   const struct transfer_order *order, struct transfer_started *out, struct err *e)
    MUST_CHECK;

#endif
