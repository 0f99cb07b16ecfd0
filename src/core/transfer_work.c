/*
 * transfer_work.c - what a worker does: claim the row, look at both sides, send, tell how it ended.
 *
 * The row is claimed before anything else, so that of two workers one goes on. From then on
 * the thread of transfer_report.c writes to it, until the last word is written here.
 */
#include "base/clock.h"
#include "base/own.h"
#include "config/config.h"
#include "core/transfer_own.h"

#define ARENA_MAX ((size_t)1 << 30)

struct work {
    const struct services *services;
    const struct transfer_row *row;
    struct ctx ctx;
    struct report *report;
};

static int listen(void *arg, const struct sync_progress *now, struct err *e)
{
    struct work *w = arg;

    report_now(w->report, now);
    return ctx_check(&w->ctx, e);
}

static void log_plan(const struct sync_counts *c)
{
    transfer_say("to send: %llu folders, %llu files, %llu links, %llu bytes; unchanged: %llu; to "
                 "delete: %llu files, %llu folders; excluded: %llu; unreadable: %llu",
                 (unsigned long long)c->dirs, (unsigned long long)c->files,
                 (unsigned long long)c->links, (unsigned long long)c->bytes,
                 (unsigned long long)c->unchanged, (unsigned long long)c->delete_files,
                 (unsigned long long)c->delete_dirs, (unsigned long long)c->excluded,
                 (unsigned long long)c->unreadable);
}

static void free_plan(struct sync_plan **p)
{
    sync_plan_free(*p);
}

static int sync_box(struct work *w, struct box *box, const struct sync_job *job, struct err *e)
{
    struct sync_result result = {0};
    int rc;

    report_phase(w->report, "comparing");
    transfer_say("comparing");
    struct sync_plan *plan CLEANUP(free_plan) = sync_look(box, &w->ctx, job, e);

    if (plan == NULL) {
        return -1;
    }
    report_plan(w->report, sync_plan_counts(plan), sync_plan_is_file(plan));
    log_plan(sync_plan_counts(plan));
    report_note(w->report, sync_plan_held(plan));
    report_note(w->report, sync_plan_unreadable(plan));
    report_phase(w->report, w->row->down ? "downloading" : "uploading");
    rc = sync_apply(plan, box, &w->ctx, listen, w, &result, e);
    report_result(w->report, &result);
    if (result.failed > 0) {
        transfer_say("%llu could not be written, the first: %.*s",
                     (unsigned long long)result.failed, STR_ARG(result.first_failed));
        report_note(w->report, result.first_failed);
    }
    return rc;
}

static int run(struct work *w, struct err *e)
{
    const struct box_want want = {.id = w->row->box_id};
    const struct config *config = w->services->config;
    struct scope scope;
    struct sync_job job;
    struct str id;
    int rc;

    if (transfer_unpack_job(w->row, w->ctx.arena, &job, e) < 0) {
        return -1;
    }
    job.home = config->home;
    job.state_dir = config->state_dir;
    scope_init(&scope, w->row->owner, config->folder);
    struct box *box CLEANUP(box_unref_p) =
        boxes_find(w->services->boxes, &w->ctx, &scope, &want, &id, e);

    if (box == NULL) {
        scope_fini(&scope);
        return -1;
    }
    report_box(w->report, box);
    rc = sync_box(w, box, &job, e);
    scope_fini(&scope);
    return rc;
}

/* The row becomes ours, or somebody else has it. */
static int claim(const struct services *s, const struct transfer_row *row,
                 const struct transfer_proc *self, struct err *e)
{
    int rc = store_claim_transfer(s->store, row->id, self, clock_mono_ms() + TRANSFER_LEASE_MS, e);

    if (rc == 0) {
        return err_set(e, ERR_CANCELLED, "transfer %lld is %s: nothing was sent",
                       (long long)row->id,
                       row->state == TRANSFER_QUEUED ? "cancelled" : transfer_status(row->state));
    }
    return rc < 0 ? -1 : 0;
}

static enum transfer_state end_state(int rc, const struct err *why)
{
    if (rc == 0) {
        return TRANSFER_COMPLETED;
    }
    return why->kind == ERR_CANCELLED ? TRANSFER_CANCELLED : TRANSFER_FAILED;
}

static int work(struct work *w, const struct transfer_proc *self, struct err *e)
{
    struct transfer_progress last;
    enum transfer_state state;
    struct err why = {0};
    struct err unwritten;
    int rc;

    w->report = report_start(w->services, self, w->row->id, w->ctx.cancel, e);
    if (w->report == NULL) {
        return -1;
    }
    transfer_say("started as process %lld", (long long)self->pid);
    rc = run(w, &why);
    state = end_state(rc, &why);
    report_phase(w->report, rc == 0 ? "complete" : transfer_status(state));
    last = report_stop(w->report, w->ctx.arena);
    transfer_say("%s after %lld.%03lld s: %lld files, %lld bytes%s%s", transfer_status(state),
                 (long long)(last.used_ms / 1000), (long long)(last.used_ms % 1000),
                 (long long)last.files, (long long)last.bytes, rc == 0 ? "" : "; ", why.msg);
    if (store_end_transfer(w->services->store, w->row->id, self, state, &last,
                           state == TRANSFER_FAILED ? str_from(why.msg) : STR_EMPTY,
                           &unwritten) < 0) {
        transfer_say("how it ended could not be written: %s", unwritten.msg);
    }
    if (rc < 0) {
        *e = why;
    }
    return rc;
}

int transfer_work(const struct services *s, struct cancel *cancel, int64_t id, bool by_hand,
                  struct err *e)
{
    struct arena arena own_arena = {0};
    struct transfer_proc self;
    struct transfer_row row;

    arena_init(&arena, ARENA_MAX);
    self = transfer_self(&arena);
    if (store_any_transfer(s->store, &arena, id, &row, e) < 0 ||
        (by_hand && transfer_requeue(s, &arena, &row, &self, e) < 0) ||
        claim(s, &row, &self, e) < 0) {
        return -1;
    }
    struct work w = {.services = s, .row = &row, .ctx = {.arena = &arena, .cancel = cancel}};
    return work(&w, &self, e);
}
