#include "core/tasks.h"

#include "base/clock.h"
#include "base/id.h"
#include "core/tasks_own.h"
#include "store/store.h"

/* ---- rows ------------------------------------------------------------------------------ */

static enum task_phase row_state(struct str word)
{
    for (int i = 0; i < TASK_STATES; i++) {
        if (str_eq(word, str_from(task_phase_name((enum task_phase)i)))) {
            return (enum task_phase)i;
        }
    }
    return TASK_UNKNOWN;
}

void tasks_keep_end(const struct task_ctx *t, struct task_row *row, const struct task_end *end)
{
    struct err ignored = {0};

    if (row->id.len == 0 || row->ended_ms > 0 || task_goes_on(end->state) ||
        end->state == TASK_UNKNOWN) {
        return;
    }
    row->state = str_from(task_phase_name(end->state));
    row->exit_code = end->code;
    row->signal = end->signal;
    row->ended_ms = end->ended_s > 0 ? end->ended_s * 1000 : clock_wall_ms();
    (void)!store_task_seen(t->services->store, row, &ignored);
}

struct task_end tasks_end_of(const struct task_row *row)
{
    return (struct task_end){
        .state = row_state(row->state),
        .code = (int)row->exit_code,
        .signal = (int)row->signal,
        .ended_s = row->ended_ms / 1000,
    };
}

struct task_seen tasks_seen_of(const struct task_row *row)
{
    return (struct task_seen){
        .run = row->id,
        .name = row->name,
        .log = row->log,
        .dir = row->dir,
        .command = row->command,
        .end = tasks_end_of(row),
        .began_s = row->created_ms / 1000,
    };
}

/* ---- starting -------------------------------------------------------------------------- */

int tasks_start(const struct task_ctx *t, struct box *b, struct str box_id,
                const struct task_order *order, struct task_begun *out, struct err *e)
{
    char run[TASK_RUN_SIZE];
    struct store *store = t->services->store;
    struct err ignored = {0};
    struct task_row row = {
        .owner = t->scope->owner,
        .box_id = box_id,
        .name = order->name,
        .command = task_head(t->ctx->arena, order->command),
        .state = S("starting"),
        .exit_code = -1,
        .created_ms = clock_wall_ms(),
    };

    id_hex(run, (TASK_RUN_SIZE - 1) / 2);
    row.id = arena_str(t->ctx->arena, str_from(run));
    (void)!store_prune_tasks(store, clock_wall_ms() - TASKS_KEPT_MS, &ignored);
    if (store_add_task(store, &row, e) < 0) {
        return -1;
    }
    if (task_start(b, t->ctx, order, row.id, out, e) < 0) {
        /* Only when nobody knows whether it runs the row is of use. */
        if (e->kind != ERR_UNREACHABLE && e->kind != ERR_TIMEOUT && e->kind != ERR_CANCELLED) {
            (void)!store_drop_task(store, row.id, &ignored);
        }
        return -1;
    }
    (void)!store_task_begun(store, row.id, out->log, out->dir, &ignored);
    if (out->was_run.len > 0) {
        struct task_row was = {.id = out->was_run};

        tasks_keep_end(t, &was, &out->was);
    }
    return 0;
}

static int look(const struct task_ctx *t, struct box *b, const struct task_query *q, int64_t from,
                int64_t max, const struct task_wait *wait, struct task_view *v, struct err *e);

int tasks_adopt(const struct task_ctx *t, struct box *b, struct str box_id, struct str id,
                struct str command, struct task_seen *out, struct err *e)
{
    struct task_view v = {0};
    struct task_wait none = {0};
    struct task_query query = {.id = id};
    struct err ignored = {0};
    struct task_row row = {
        .id = id,
        .owner = t->scope->owner,
        .box_id = box_id,
        .name = id,
        .command = task_head(t->ctx->arena, command),
        .state = S("starting"),
        .exit_code = -1,
        .created_ms = clock_wall_ms(),
    };

    /* Whatever the box says, the row is there to be asked for. */
    (void)!store_add_task(t->services->store, &row, &ignored);
    if (b == NULL) {
        return 0;
    }
    if (look(t, b, &query, -1, 0, &none, &v, e) < 0) {
        return -1;
    }
    if (!v.asked) {
        return err_set(e, ERR_NOT_FOUND, "the command was left and is not to be found");
    }
    *out = v.seen;
    (void)!store_task_begun(t->services->store, id, v.seen.log, v.seen.dir, &ignored);
    return 0;
}

/* ---- finding --------------------------------------------------------------------------- */

/* The row, where there is one: of the box that is meant, else of any when none was named. */
static int find_row(const struct task_ctx *t, const struct task_query *q, struct str box_id,
                    struct task_row *out, struct err *e)
{
    struct store *store = t->services->store;
    struct arena *a = t->ctx->arena;

    if (q->id.len > 0) {
        return store_task_by_id(store, a, t->scope->owner, q->id, out, e);
    }
    if (store_task_by_name(store, a, t->scope->owner, box_id, q->name, q->log, out, e) == 0) {
        return 0;
    }
    if (e->kind != ERR_NOT_FOUND || tasks_is_named(&q->box)) {
        return -1;
    }
    return store_task_by_name(store, a, t->scope->owner, STR_EMPTY, q->name, q->log, out, e);
}

struct box *tasks_find(const struct task_ctx *t, const struct task_query *q, struct task_row *row,
                       struct str *box_id, struct err *e)
{
    struct boxes *boxes = t->services->boxes;
    struct err why = {0};
    struct box *meant = NULL;

    *row = (struct task_row){.exit_code = -1};
    *box_id = STR_EMPTY;
    if (q->id.len == 0 || tasks_is_named(&q->box)) {
        meant = boxes_find(boxes, t->ctx, t->scope, &q->box, box_id, &why);
        if (meant == NULL && tasks_is_named(&q->box)) {
            *e = why;
            return NULL;
        }
    }
    if (find_row(t, q, *box_id, row, e) < 0) {
        *row = (struct task_row){.exit_code = -1};
        if (e->kind != ERR_NOT_FOUND) {
            box_unref(meant);
            return NULL;
        }
        /* Perhaps somebody else started it: then the box may know. */
        if (meant == NULL) {
            meant = boxes_find(boxes, t->ctx, t->scope, &q->box, box_id, &why);
            *e = meant == NULL && why.kind != ERR_NOT_FOUND ? why : *e;
        }
        return meant;
    }
    if (meant != NULL && str_eq(row->box_id, *box_id)) {
        return meant;
    }
    box_unref(meant);
    *box_id = row->box_id;
    return boxes_find(boxes, t->ctx, t->scope, &(struct box_want){.id = row->box_id}, box_id, e);
}

struct task_want tasks_want(const struct task_query *q, const struct task_row *row, int64_t from,
                            int64_t max)
{
    if (row->id.len > 0) {
        return (struct task_want){.dir = row->dir,
                                  .name = row->name,
                                  .log = row->dir.len > 0 ? row->log : STR_EMPTY,
                                  .run = row->id,
                                  .from = from,
                                  .max = max};
    }
    return (struct task_want){
        .name = q->name, .log = q->log, .run = q->id, .from = from, .max = max};
}

/* ---- one task -------------------------------------------------------------------------- */

struct taking {
    const struct task_ctx *t;
    struct task_view *view;
    struct str run; /* the one that is meant, or empty: whichever comes first */
};

static int take_seen(void *arg, const struct task_seen *seen, struct err *e)
{
    struct taking *c = arg;
    struct task_view *v = c->view;

    (void)e;
    if (seen->end.state == TASK_REPLACED) {
        tasks_keep_end(c->t, &v->row, &(struct task_end){.state = TASK_REPLACED, .code = -1});
    }
    if (v->asked || seen->end.state == TASK_UNKNOWN ||
        (c->run.len > 0 && !str_eq(c->run, seen->run))) {
        return 0;
    }
    v->asked = true;
    v->seen = *seen;
    tasks_keep_end(c->t, &v->row, &seen->end);
    return 0;
}

static int not_found(const struct task_query *q, struct str box_id, struct err *e)
{
    struct str what = q->id.len > 0 ? q->id : q->name.len > 0 ? q->name : q->log;

    return err_set(e, ERR_NOT_FOUND,
                   "no task \"%.*s\" is known here%s%.*s; call check_background_task without "
                   "arguments for a list",
                   STR_ARG(str_head(what, 200)), box_id.len > 0 ? ", nor in sandbox " : "",
                   STR_ARG(box_id));
}

int tasks_from_row(const struct task_ctx *t, struct task_view *v, struct err *e)
{
    bool gone = e->kind == ERR_GONE || e->kind == ERR_NOT_FOUND;

    if (v->row.id.len == 0 || (!gone && v->row.ended_ms == 0)) {
        return -1;
    }
    v->problem = arena_str(t->ctx->arena, str_from(e->msg));
    if (v->row.ended_ms == 0) {
        tasks_keep_end(t, &v->row, &(struct task_end){.state = TASK_INTERRUPTED, .code = -1});
    }
    v->seen = tasks_seen_of(&v->row);
    return 0;
}

static int look(const struct task_ctx *t, struct box *b, const struct task_query *q, int64_t from,
                int64_t max, const struct task_wait *wait, struct task_view *v, struct err *e)
{
    struct task_want want = tasks_want(q, &v->row, from, max);
    struct taking c = {.t = t, .view = v, .run = want.run};
    bool by_id_only = want.dir.len == 0 && want.name.len == 0 && want.log.len == 0;

    /* All that is known is an id: a command that its call left, or a task of somebody else's. */
    struct task_wait how = *wait;
    how.scan = by_id_only;
    return task_look(b, t->ctx, &want, 1, &how, take_seen, &c, e);
}

int tasks_check(const struct task_ctx *t, const struct task_query *q, int64_t from, int64_t max,
                const struct task_wait *wait, struct task_view *out, struct err *e)
{
    *out = (struct task_view){0};
    struct box *b CLEANUP(box_unref_p) = tasks_find(t, q, &out->row, &out->box_id, e);

    if (b == NULL) {
        if (tasks_from_row(t, out, e) == 0) {
            return 0;
        }
        return e->kind == ERR_NOT_FOUND && out->row.id.len == 0 ? not_found(q, STR_EMPTY, e) : -1;
    }
    if (look(t, b, q, from, max, wait, out, e) < 0) {
        return tasks_from_row(t, out, e);
    }
    if (out->asked) {
        return 0;
    }
    if (out->row.id.len == 0) {
        return not_found(q, out->box_id, e);
    }
    (void)err_set(e, ERR_NOT_FOUND,
                  "its files are no longer there: a later run has its name, or they were removed");
    return tasks_from_row(t, out, e);
}

int tasks_cancel(const struct task_ctx *t, const struct task_query *q, int64_t grace_s,
                 enum task_cut *cut, struct task_view *out, struct err *e)
{
    struct task_wait wait = {0};

    *out = (struct task_view){0};
    struct box *b CLEANUP(box_unref_p) = tasks_find(t, q, &out->row, &out->box_id, e);
    if (b == NULL) {
        *cut = TASK_HAD_ENDED;
        if (tasks_from_row(t, out, e) == 0) {
            return 0;
        }
        return e->kind == ERR_NOT_FOUND && out->row.id.len == 0 ? not_found(q, STR_EMPTY, e) : -1;
    }
    struct task_want want = tasks_want(q, &out->row, -1, 0);
    if (want.dir.len == 0 && want.name.len == 0) {
        /* By its log or an id alone: the look tells where it is. */
        if (look(t, b, q, -1, 0, &wait, out, e) < 0) {
            return -1;
        }
        want =
            (struct task_want){.dir = out->seen.dir, .name = out->seen.name, .run = out->seen.run};
    }
    if (want.dir.len == 0 && want.name.len == 0) {
        return not_found(q, out->box_id, e);
    }
    if (task_cancel(b, t->ctx, &want, grace_s, cut, e) < 0) {
        return -1;
    }
    if (*cut == TASK_CUT_UNKNOWN && out->row.id.len == 0) {
        return not_found(q, out->box_id, e);
    }
    out->asked = false;
    if (look(t, b, q, -1, TASK_TEXT_MAX / 8, &wait, out, e) < 0 || !out->asked) {
        return tasks_from_row(t, out, e);
    }
    return 0;
}
