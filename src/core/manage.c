/* manage.c - delete, select, and look at boxes that exist. */
#include "core/boxes_own.h"

/* ---- delete -------------------------------------------------------------------------- */

int boxes_delete(struct boxes *bs, const struct ctx *ctx, struct scope *scope,
                 const struct box_want *want, struct str *out_id, struct str *out_name,
                 struct err *e)
{
    struct box_row row;
    struct box *box CLEANUP(box_unref_p) = NULL;

    if (find_row(bs, ctx, scope, want, &row, e) < 0) {
        return -1;
    }
    if (row.state != ROW_ENDED) {
        box = boxes_attach(bs, ctx, &row, e);
        if (box == NULL && e->kind != ERR_GONE && e->kind != ERR_NOT_FOUND) {
            return -1;
        }
    }
    if (box != NULL) {
        if (box_destroy(box, ctx, e) < 0) {
            return -1;
        }
        boxes_end(bs, row.id, S("it was deleted"));
    }
    scope_forget(bs, scope, row.id);
    *out_id = row.id;
    *out_name = row.name;
    boxes_sweep(bs, ctx);
    return 0;
}

/* ---- select -------------------------------------------------------------------------- */

static int look_at(struct boxes *bs, const struct ctx *ctx, const struct box_row *row,
                   struct box_view *out, struct err *e)
{
    struct box *box CLEANUP(box_unref_p) = NULL;

    return boxes_look(bs, ctx, row, out, &box, e);
}

int boxes_select(struct boxes *bs, const struct ctx *ctx, struct scope *scope,
                 const struct box_want *want, struct box_view *out, struct err *e)
{
    struct err ignored;
    struct box_row row;

    if (find_row(bs, ctx, scope, want, &row, e) < 0 || look_at(bs, ctx, &row, out, e) < 0) {
        return -1;
    }
    scope_select(bs, scope, row.id);
    out->selected = true;
    (void)!store_box_used(bs->store, row.id, &ignored);
    return 0;
}

int boxes_active(struct boxes *bs, const struct ctx *ctx, struct scope *scope, struct box_view *out,
                 struct err *e)
{
    const struct box_want want = {0};
    struct box_row row;

    if (find_row(bs, ctx, scope, &want, &row, e) < 0 || look_at(bs, ctx, &row, out, e) < 0) {
        return -1;
    }
    out->selected = true;
    return 0;
}

/* ---- list ----------------------------------------------------------------------------- */

struct looking {
    struct boxes *bs;
    const struct ctx *ctx;
    struct str active;
    box_view_fn *each;
    void *arg;
};

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
    return l->each(l->arg, &view, box, e);
}

int boxes_each(struct boxes *bs, const struct ctx *ctx, struct scope *scope, box_view_fn *each,
               void *arg, struct err *e)
{
    struct looking l = {.bs = bs, .ctx = ctx, .each = each, .arg = arg};

    if (scope_selected(bs, ctx, scope, &l.active, e) < 0) {
        return -1;
    }
    if (l.active.len == 0) {
        l.active = scope_implied(ctx, scope);
    }
    if (store_each_box(bs->store, ctx->arena, scope->owner, false, look_and_tell, &l, e) < 0) {
        return -1;
    }
    boxes_sweep(bs, ctx);
    return 0;
}

/* ---- whose ----------------------------------------------------------------------------- */

bool boxes_owns(struct boxes *bs, const struct ctx *ctx, struct scope *scope, struct str id)
{
    struct cached found;
    struct box_row row;
    struct err ignored;

    if (id.len != STORE_ID_LEN) {
        return false;
    }
    if (cache_by_id(&bs->cache, scope->owner, id, &found)) {
        box_unref(found.box);
        return true;
    }
    return store_box_by_id(bs->store, ctx->arena, scope->owner, id, &row, &ignored) == 0;
}

int boxes_owners(struct boxes *bs, const struct ctx *ctx, const struct str **out, size_t *n,
                 struct err *e)
{
    return store_owners(bs->store, ctx->arena, out, n, e);
}
