/* tasks_list.c - all tasks, each box asked once; see tasks.h. */
#include "core/tasks_own.h"
#include "store/store.h"

struct listing {
    const struct task_ctx *t;
    task_view_fn *each;
    void *arg;
    struct task_view views[TASKS_LIST_MAX];
    size_t n;
    struct str boxes[TASKS_LIST_MAX]; /* that are asked */
    size_t n_boxes;
};

static void ask_box(struct listing *l, struct str box_id)
{
    for (size_t i = 0; i < l->n_boxes; i++) {
        if (str_eq(l->boxes[i], box_id)) {
            return;
        }
    }
    if (l->n_boxes < COUNTOF(l->boxes)) {
        l->boxes[l->n_boxes++] = box_id;
    }
}

static int add_row(void *arg, const struct task_row *row, struct err *e)
{
    struct listing *l = arg;
    struct task_view *v = &l->views[l->n];

    (void)e;
    *v = (struct task_view){.row = *row, .box_id = row->box_id};
    v->seen = tasks_seen_of(row);
    l->n++;
    if (row->ended_ms == 0) {
        ask_box(l, row->box_id);
    }
    return 0;
}

struct asked {
    struct listing *l;
    struct str box_id;
};

static int list_seen(void *arg, const struct task_seen *seen, struct err *e)
{
    struct asked *a = arg;
    struct listing *l = a->l;

    (void)e;
    if (seen->end.state == TASK_UNKNOWN || seen->run.len == 0) {
        return 0;
    }
    for (size_t i = 0; i < l->n; i++) {
        struct task_view *v = &l->views[i];

        if (seen->end.state == TASK_REPLACED && str_eq(v->row.id, seen->wanted)) {
            tasks_keep_end(l->t, &v->row, &(struct task_end){.state = TASK_REPLACED, .code = -1});
            v->seen.end = tasks_end_of(&v->row);
            return 0;
        }
        if (seen->end.state != TASK_REPLACED && str_eq(v->seen.run, seen->run)) {
            v->seen = *seen;
            v->asked = true;
            tasks_keep_end(l->t, &v->row, &seen->end);
            return 0;
        }
    }
    if (seen->end.state == TASK_REPLACED) {
        return 0;
    }
    if (l->n < COUNTOF(l->views)) {
        l->views[l->n++] = (struct task_view){
            .row = {.exit_code = -1}, .seen = *seen, .asked = true, .box_id = a->box_id};
    }
    return 0;
}

static void box_failed(struct listing *l, struct str box_id, const struct err *e)
{
    for (size_t i = 0; i < l->n; i++) {
        struct task_view *v = &l->views[i];
        struct err why = *e;

        if (str_eq(v->box_id, box_id) && v->row.ended_ms == 0) {
            v->problem = arena_str(l->t->ctx->arena, str_from(e->msg));
            (void)!tasks_from_row(l->t, v, &why);
        }
    }
}

static void look_at_box(struct listing *l, struct str box_id)
{
    const struct task_ctx *t = l->t;
    struct asked a = {.l = l, .box_id = box_id};
    struct task_want wants[TASKS_LIST_MAX];
    struct task_wait wait = {.scan = true};
    struct str id = box_id;
    struct err e = {0};
    size_t n = 0;
    struct box *b CLEANUP(box_unref_p) =
        boxes_find(t->services->boxes, t->ctx, t->scope, &(struct box_want){.id = box_id}, &id, &e);

    for (size_t i = 0; i < l->n; i++) {
        if (str_eq(l->views[i].box_id, box_id) && l->views[i].row.ended_ms == 0) {
            wants[n++] = tasks_want(&(struct task_query){0}, &l->views[i].row, -1, 0);
        }
    }
    if (b == NULL || task_look(b, t->ctx, wants, n, &wait, list_seen, &a, &e) < 0) {
        box_failed(l, box_id, &e);
    }
}

int tasks_each(const struct task_ctx *t, const struct box_want *want, task_view_fn *each, void *arg,
               struct err *e)
{
    struct listing *l = arena_new(t->ctx->arena, struct listing);
    struct str meant = STR_EMPTY;
    struct err why = {0};
    struct box *b CLEANUP(box_unref_p) =
        boxes_find(t->services->boxes, t->ctx, t->scope, want, &meant, &why);

    if (b == NULL && tasks_is_named(want)) {
        *e = why;
        return -1;
    }
    *l = (struct listing){.t = t, .each = each, .arg = arg};
    if (b != NULL) {
        ask_box(l, meant);
    }
    if (store_each_task(t->services->store, t->ctx->arena, t->scope->owner,
                        tasks_is_named(want) ? meant : STR_EMPTY, TASKS_LIST_MAX, add_row, l,
                        e) < 0) {
        return -1;
    }
    for (size_t i = 0; i < l->n_boxes; i++) {
        if (ctx_check(t->ctx, e) < 0) {
            return -1;
        }
        look_at_box(l, l->boxes[i]);
    }
    for (size_t i = 0; i < l->n; i++) {
        if (each(arg, &l->views[i], e) < 0) {
            return -1;
        }
    }
    return 0;
}
