/*
 * transfer_start.c - a row, a log, a process.
 *
 * The row comes first and is held by this process until the worker is named in it, so that it
 * is stale, and not queued for ever, when we die in between. Workers are children of ours while
 * we live: a thread of the pool waits for each, so that none stays a zombie.
 */
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "base/path.h"
#include "base/proc.h"
#include "base/thread.h"
#include "core/boxes_own.h"
#include "core/transfer_own.h"
#include "core/worker.h"

#define KEPT_MS   (30ll * 24 * 60 * 60 * 1000)
#define KEPT_ROWS 500

struct transfers {
    struct pool *waiters;
    struct cancel cancel; /* the waiters' */
};

struct transfers *transfers_new(struct err *e)
{
    struct transfers *t = xcalloc(1, sizeof(*t));

    if (cancel_init(&t->cancel, e) < 0) {
        free(t);
        return NULL;
    }
    t->waiters = pool_new("transfer", TRANSFERS_AT_ONCE);
    return t;
}

void transfers_free(struct transfers *t)
{
    if (t == NULL) {
        return;
    }
    cancel_fire(&t->cancel);
    pool_free(t->waiters);
    cancel_fini(&t->cancel);
    free(t);
}

/* ---- waiting for workers ------------------------------------------------------------------ */

struct child {
    struct transfers *transfers;
    pid_t pid;
};

static void wait_child(void *arg)
{
    struct child *c = arg;
    const struct ctx ctx = {.cancel = &c->transfers->cancel};
    int status;
    struct err ignored;

    (void)!proc_wait(&ctx, c->pid, &status, &ignored);
    free(c);
}

/* One that nobody waits for becomes a zombie until we end, which all that look can tell. */
void transfers_adopt(struct transfers *t, pid_t pid)
{
    struct child *c = xcalloc(1, sizeof(*c));
    struct err e;

    *c = (struct child){t, pid};
    if (pool_run(t->waiters, wait_child, c, &e) < 0) {
        log_line(LOG_DEBUG, "transfer", "unwaited=%d", (int)pid);
        free(c);
    }
}

/* ---- starting ------------------------------------------------------------------------------ */

static void remove_log(void *arg, struct str log_file)
{
    (void)unlink(arena_cstr(arg, log_file));
}

/* Old rows are no reason not to start a new one. */
static void prune(const struct services *s, const struct ctx *ctx)
{
    char quoted[LOG_QUOTE_SIZE];
    struct err e;

    if (store_prune_transfers(s->store, ctx->arena, clock_wall_ms() - KEPT_MS, KEPT_ROWS,
                              remove_log, ctx->arena, &e) < 0) {
        log_line(LOG_DEBUG, "transfer", "failed=prune error=%s",
                 log_quote(str_from(e.msg), quoted));
    }
}

static int check_room(const struct services *s, struct str boot, struct err *e)
{
    int64_t n = 0;

    if (store_count_transfers(s->store, boot, clock_mono_ms(), &n, e) < 0) {
        return -1;
    }
    if (n >= TRANSFERS_AT_ONCE) {
        return err_set(e, ERR_LIMIT,
                       "%lld transfers are under way, which is the limit: wait for one, or cancel "
                       "one with cancel_file_transfer_task",
                       (long long)n);
    }
    return 0;
}

/* The worker of a row that we hold. */
static int run_worker(const struct services *s, const struct ctx *ctx,
                      const struct transfer_row *row, bool again, struct transfer_started *out,
                      struct err *e)
{
    int log own_fd = transfer_open_log(s->config, row, again, e);
    struct transfer_proc worker;
    pid_t pid = 0;
    int rc;

    if (log < 0) {
        return -1;
    }
    rc = transfer_spawn(s, ctx, WORKER_PROGRAM, row, log, &pid, e);
    if (rc == 0) {
        /* Before anybody waits for it, so that the number is its own. */
        worker = (struct transfer_proc){pid, proc_start_time(pid), proc_boot_id(ctx->arena)};
        rc = store_transfer_spawned(s->store, row->id, &worker, clock_mono_ms() + TRANSFER_LEASE_MS,
                                    e);
    }
    if (pid > 0) {
        transfers_adopt(s->transfers, pid);
    }
    if (rc < 0) {
        return -1;
    }
    *out = (struct transfer_started){
        .task_id = row->id,
        .status = S("queued"),
        .pid = pid,
        .log_file = row->log_file,
        .down = row->down,
    };
    return 0;
}

static int start_worker(const struct services *s, const struct ctx *ctx,
                        const struct transfer_row *row, bool again, struct transfer_started *out,
                        struct err *e)
{
    struct err ignored;

    if (run_worker(s, ctx, row, again, out, e) == 0) {
        return 0;
    }
    (void)err_wrap(e, "transfer %lld was not started", (long long)row->id);
    (void)!store_fail_transfer(s->store, row->id, str_from(e->msg), &ignored);
    return -1;
}

/* What people call the box. */
static struct str name_of(const struct services *s, const struct ctx *ctx, struct scope *scope,
                          const struct transfer_order *order)
{
    struct box_row row;
    struct err ignored;

    if (order->box_name.len > 0 ||
        boxes_row(s->boxes, ctx, scope, order->box_id, &row, &ignored) < 0) {
        return order->box_name;
    }
    return row.name;
}

int transfer_start(const struct services *s, const struct ctx *ctx, struct scope *scope,
                   const struct transfer_order *order, struct transfer_started *out, struct err *e)
{
    const struct sync_job *job = order->job;
    struct transfer_row row = {
        .owner = scope->owner,
        .down = job->direction == SYNC_DOWN,
        .box_id = order->box_id,
        .box_name = name_of(s, ctx, scope, order),
        .local = job->local,
        .remote = job->remote,
        .proc = transfer_self(ctx->arena),
        .lease_ms = clock_mono_ms() + TRANSFER_LEASE_MS,
    };
    struct str logs = path_join(ctx->arena, s->config->state_dir, S("transfers"));
    int64_t id = 0;

    if (order->counts != NULL) {
        row.progress.files_total = (int64_t)(order->counts->files + order->counts->links);
        row.progress.bytes_total = (int64_t)order->counts->bytes;
        row.progress.unchanged = (int64_t)order->counts->unchanged;
    }
    prune(s, ctx);
    if (check_room(s, row.proc.boot, e) < 0 ||
        transfer_pack_job(job, ctx->arena, &row.options, e) < 0 ||
        store_add_transfer(s->store, &row, logs, &id, e) < 0 ||
        store_get_transfer(s->store, ctx->arena, scope->owner, id, &row, e) < 0) {
        return -1;
    }
    return start_worker(s, ctx, &row, false, out, e);
}

/* ---- again ---------------------------------------------------------------------------------- */

int transfer_requeue(const struct services *s, struct arena *a, const struct transfer_row *row,
                     const struct transfer_proc *self, struct err *e)
{
    bool live = row->state == TRANSFER_QUEUED || row->state == TRANSFER_RUNNING;
    int rc;

    if (live && !transfer_is_stale(row, a)) {
        return err_set(e, ERR_EXISTS, "transfer %lld is under way: its worker is process %lld",
                       (long long)row->id, (long long)row->proc.pid);
    }
    if (row->state == TRANSFER_COMPLETED) {
        return err_set(e, ERR_INVALID,
                       "transfer %lld is complete: make the same sync again to send what has "
                       "changed since",
                       (long long)row->id);
    }
    rc = store_requeue_transfer(s->store, row, self, clock_mono_ms() + TRANSFER_LEASE_MS, e);
    if (rc == 0) {
        return err_set(e, ERR_EXISTS, "transfer %lld was resumed by somebody else just now",
                       (long long)row->id);
    }
    return rc < 0 ? -1 : 0;
}

int transfer_resume(const struct services *s, const struct ctx *ctx, struct scope *scope,
                    int64_t id, struct transfer_started *out, struct err *e)
{
    const struct transfer_proc self = transfer_self(ctx->arena);
    struct transfer_view view;

    if (check_room(s, self.boot, e) < 0 || transfer_get(s, ctx, scope, id, &view, e) < 0 ||
        transfer_requeue(s, ctx->arena, &view.row, &self, e) < 0) {
        return -1;
    }
    return start_worker(s, ctx, &view.row, true, out, e);
}
