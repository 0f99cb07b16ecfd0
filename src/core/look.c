/*
 * look.c - all boxes, and whether they live and how busy they are.
 *
 * Boxes that somebody's configuration names may be far away, or dead, which takes a time-out
 * to find out: they are asked side by side, each by a thread with memory of its own, so that
 * eight dead hosts take the time of one. What they said is copied to the caller's memory and
 * told in the configured order. Boxes of our own are asked one after the other: each answers
 * in a moment.
 */
#include <stdatomic.h>

#include "base/alloc.h"
#include "base/own.h"
#include "base/thread.h"
#include "core/boxes_own.h"

#define LOOKERS_MAX   64
#define LOOK_MEMORY   (4u << 20)
#define FIXED_ASK_MAX 1024

struct looking {
    struct boxes *bs;
    const struct ctx *ctx;
    struct scope *scope;
    struct str active;
    bool busy;
    box_view_fn *each;
    void *arg;
};

/* ---- those that are named ------------------------------------------------------------------ */

struct job {
    struct fixed fixed;
    struct arena arena; /* of the thread that does it */
    struct box *box;
    struct box_view view;
    struct usage usage;
    struct str usage_problem;
    bool failed; /* the call itself is over: .e */
    struct err e;
};

struct jobs {
    const struct looking *l;
    struct job *items;
    size_t n, cap;
    atomic_size_t next;
};

static int add_job(void *arg, const struct box_row *row, const struct box_info *info, struct err *e)
{
    struct jobs *jobs = arg;

    if (jobs->n == FIXED_ASK_MAX) {
        return err_set(e, ERR_LIMIT, "there are more than %d hosts", FIXED_ASK_MAX);
    }
    if (jobs->n == jobs->cap) {
        jobs->cap = jobs->cap > 0 ? jobs->cap * 2 : 8;
        jobs->items = xrealloc(jobs->items, jobs->cap, sizeof(*jobs->items));
    }
    jobs->items[jobs->n++] = (struct job){.fixed = {.row = *row, .info = *info}};
    return 0;
}

/* One question where how busy it is was asked too: who answers that is alive. */
static void ask(const struct looking *l, const struct ctx *ctx, struct job *j)
{
    struct err e = {0};

    j->view = (struct box_view){.row = j->fixed.row, .info = j->fixed.info};
    j->box = l->busy ? boxes_attach(l->bs, ctx, &j->view.row, &e) : NULL;
    if (j->box != NULL && box_usage(j->box, ctx, &j->usage, &e) == 0) {
        j->view.usage = &j->usage;
        j->view.info.state = BOX_RUNNING;
        j->view.alive = true;
        return;
    }
    if (l->busy) {
        j->usage_problem = arena_str(&j->arena, str_from(e.msg));
    }
    if (j->box != NULL && e.kind == ERR_UNREACHABLE) {
        j->view.info.state = BOX_UNKNOWN;
        j->view.problem = j->usage_problem;
        return;
    }
    box_unref(take(j->box));
    j->failed = boxes_look(l->bs, ctx, &j->fixed.row, &j->view, &j->box, &j->e) < 0;
}

static void *look_at_some(void *arg)
{
    struct jobs *jobs = arg;

    for (;;) {
        size_t i = atomic_fetch_add(&jobs->next, 1);

        if (i >= jobs->n) {
            return NULL;
        }
        struct ctx own = *jobs->l->ctx;

        arena_init(&jobs->items[i].arena, LOOK_MEMORY);
        own.arena = &jobs->items[i].arena;
        ask(jobs->l, &own, &jobs->items[i]);
    }
}

/* This thread is one of them, so that it goes on where no other can be started. */
static void look_side_by_side(struct jobs *jobs)
{
    pthread_t threads[LOOKERS_MAX];
    size_t n = 0;
    struct err ignored;

    while (n + 1 < jobs->n && n < LOOKERS_MAX &&
           thread_start(&threads[n], "look", look_at_some, jobs, &ignored) == 0) {
        n++;
    }
    (void)look_at_some(jobs);
    for (size_t i = 0; i < n; i++) {
        (void)pthread_join(threads[i], NULL);
    }
}

static struct str copied(struct arena *a, struct str s)
{
    return s.len > 0 ? arena_str(a, s) : STR_EMPTY;
}

static void copy_view(struct arena *a, struct job *j)
{
    struct box_info *info = &j->view.info;
    struct str *texts[] = {&info->ref,      &info->name, &info->ended,     &info->tier,
                           &info->host,     &info->user, &info->home,      &info->image,
                           &info->work_dir, &info->via,  &j->view.problem, &j->usage_problem};
    struct usage *usage = arena_new(a, struct usage);

    for (size_t i = 0; i < COUNTOF(texts); i++) {
        *texts[i] = copied(a, *texts[i]);
    }
    if (j->view.usage != NULL) {
        *usage = j->usage;
        j->view.usage = usage;
    }
    j->view.usage_problem = j->usage_problem;
    j->view.row = j->fixed.row;
}

/* Each is told to the caller until that fails; all are let go. */
static int tell_jobs(struct jobs *jobs, struct err *e)
{
    const struct looking *l = jobs->l;
    int rc = 0;

    for (size_t i = 0; i < jobs->n; i++) {
        struct job *j = &jobs->items[i];

        if (rc == 0 && j->failed) {
            bool over = j->e.kind == ERR_CANCELLED || j->e.kind == ERR_TIMEOUT;

            j->view.info.state = BOX_UNKNOWN;
            j->view.problem = arena_str(l->ctx->arena, str_from(j->e.msg));
            *e = over ? j->e : *e;
            rc = over ? -1 : 0;
        }
        if (rc == 0) {
            copy_view(l->ctx->arena, j);
            j->view.selected = str_eq(l->active, j->view.row.id);
            rc = l->each(l->arg, &j->view, j->box, e);
        }
        box_unref(j->box);
        arena_fini(&j->arena);
    }
    return rc;
}

static int look_at_fixed(const struct looking *l, struct err *e)
{
    struct jobs jobs = {.l = l};
    int rc = fixed_each(l->bs, l->ctx, l->scope, add_job, &jobs, e);

    if (rc == 0 && jobs.n > 0) {
        look_side_by_side(&jobs);
        rc = tell_jobs(&jobs, e);
    }
    free(jobs.items);
    return rc;
}

/* ---- those that were made -------------------------------------------------------------------- */

static void add_usage(const struct looking *l, struct box *box, struct box_view *view)
{
    struct usage *usage = arena_new(l->ctx->arena, struct usage);
    struct err e = {0};

    if (box != NULL && box_usage(box, l->ctx, usage, &e) == 0) {
        view->usage = usage;
        return;
    }
    view->usage_problem = box == NULL ? view->problem : arena_str(l->ctx->arena, str_from(e.msg));
}

static int look_and_tell(void *arg, const struct box_row *row, struct err *e)
{
    struct looking *l = arg;
    struct box_view view = {.row = *row, .problem = S("it is being made")};
    struct box *box CLEANUP(box_unref_p) = NULL;

    if (row->state == ROW_STARTING && boxes_starter_is_dead(row)) {
        boxes_abandon(l->bs, l->ctx, row);
        return 0;
    }
    /* A list does not wait for a box that another process is making. */
    if (row->state == ROW_LIVE && boxes_look(l->bs, l->ctx, row, &view, &box, e) < 0) {
        return e->kind == ERR_GONE || e->kind == ERR_NOT_FOUND ? 0 : -1;
    }
    view.selected = str_eq(l->active, row->id);
    if (l->busy) {
        add_usage(l, box, &view);
    }
    return l->each(l->arg, &view, box, e);
}

/* ---- the way in -------------------------------------------------------------------------------- */

/* What a call that names no box would use, as far as that is known. */
static int find_active_id(struct looking *l, struct err *e)
{
    struct fixed first;

    if (scope_selected(l->bs, l->ctx, l->scope, &l->active, e) < 0) {
        return -1;
    }
    if (l->active.len == 0 && fixed_find(l->bs, l->ctx, l->scope, STR_EMPTY, &first)) {
        l->active = first.row.id;
    }
    if (l->active.len == 0) {
        l->active = scope_implied(l->ctx, l->scope);
    }
    return 0;
}

static int look_at_made(struct looking *l, struct err *e)
{
    if (store_each_box(l->bs->store, l->ctx->arena, l->scope->owner, false, look_and_tell, l, e) <
        0) {
        return -1;
    }
    boxes_sweep(l->bs, l->ctx);
    return 0;
}

static int look_at_all(struct looking *l, struct err *e)
{
    if (find_active_id(l, e) < 0 || look_at_fixed(l, e) < 0) {
        return -1;
    }
    return look_at_made(l, e);
}

int boxes_each(struct boxes *bs, const struct ctx *ctx, struct scope *scope, box_view_fn *each,
               void *arg, struct err *e)
{
    struct looking l = {.bs = bs, .ctx = ctx, .scope = scope, .each = each, .arg = arg};

    return look_at_all(&l, e);
}

int boxes_each_busy(struct boxes *bs, const struct ctx *ctx, struct scope *scope, box_view_fn *each,
                    void *arg, struct err *e)
{
    struct looking l = {
        .bs = bs, .ctx = ctx, .scope = scope, .busy = true, .each = each, .arg = arg};

    return look_at_all(&l, e);
}

int boxes_each_made(struct boxes *bs, const struct ctx *ctx, struct scope *scope, box_view_fn *each,
                    void *arg, struct err *e)
{
    struct looking l = {.bs = bs, .ctx = ctx, .scope = scope, .each = each, .arg = arg};

    return find_active_id(&l, e) < 0 ? -1 : look_at_made(&l, e);
}
