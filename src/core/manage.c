/* manage.c - delete, select and name boxes that exist. */
#include "base/sha256.h"
#include "core/boxes_own.h"
#include "core/idle.h"

#define HOST_OUTPUT_LEN 24 /* digits: no box has an id of that length */

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
    if (fixed_is_id(row.id)) {
        return err_set(
            e, ERR_UNSUPPORTED,
            "\"%.*s\" is a host of the configuration, not a sandbox that anybox made: it "
            "is not deleted; remove it from the configuration instead",
            STR_ARG(row.name));
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
    struct fixed host;

    if (find_row(bs, ctx, scope, want, &row, e) < 0) {
        return -1;
    }
    /* Whether a host answers is the next call's business, as remote-sandbox-mcp has it. */
    if (fixed_is_id(row.id) && fixed_find(bs, ctx, scope, row.id, &host)) {
        *out = (struct box_view){.row = host.row, .info = host.info, .selected = true};
        scope_select(bs, scope, row.id);
        return 0;
    }
    if (look_at(bs, ctx, &row, out, e) < 0) {
        return -1;
    }
    scope_select(bs, scope, row.id);
    out->selected = true;
    (void)!store_box_used(bs->store, row.id, &ignored);
    return 0;
}

int boxes_show(struct boxes *bs, const struct ctx *ctx, struct scope *scope,
               const struct box_want *want, struct box_view *out, struct err *e)
{
    struct box_row row;

    if (find_row(bs, ctx, scope, want, &row, e) < 0) {
        return -1;
    }
    return row.state == ROW_ENDED ? name_fail_ended(&row, e) : look_at(bs, ctx, &row, out, e);
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

/* ---- the idlest ----------------------------------------------------------------------- */

struct idlest {
    const struct ctx *ctx;
    struct box_view best;
    double score;
};

static int compare_score(void *arg, const struct box_view *view, struct box *box, struct err *e)
{
    struct idlest *i = arg;
    double score = view->alive && view->usage != NULL ? idle_score(view->usage) : -1;

    (void)box;
    (void)e;
    if (score > i->score) {
        i->score = score;
        i->best = *view;
    }
    return 0;
}

int boxes_select_idlest(struct boxes *bs, const struct ctx *ctx, struct scope *scope,
                        struct box_view *out, struct err *e)
{
    struct idlest i = {.ctx = ctx, .score = -1};

    if (boxes_each_busy(bs, ctx, scope, compare_score, &i, e) < 0) {
        return -1;
    }
    if (i.score < 0) {
        return err_set(e, ERR_NOT_FOUND,
                       "no sandbox answered how busy it is: list_sandboxes with "
                       "check_resources=true says why");
    }
    scope_select(bs, scope, i.best.row.id);
    i.best.selected = true;
    *out = i.best;
    return 0;
}

/* ---- names ---------------------------------------------------------------------------- */

struct naming {
    box_name_fn *each;
    void *arg;
};

static int tell_name(void *arg, const struct box_row *row, struct err *e)
{
    const struct naming *n = arg;

    (void)e;
    n->each(n->arg, row->name);
    return 0;
}

static int tell_fixed(void *arg, const struct box_row *row, const struct box_info *info,
                      struct err *e)
{
    (void)info;
    return tell_name(arg, row, e);
}

void boxes_each_name(struct boxes *bs, const struct ctx *ctx, struct scope *scope,
                     box_name_fn *each, void *arg)
{
    struct naming n = {each, arg};
    struct err ignored;

    (void)!fixed_each(bs, ctx, scope, tell_fixed, &n, &ignored);
    (void)!store_each_box(bs->store, ctx->arena, scope->owner, false, tell_name, &n, &ignored);
}

/* ---- whose ----------------------------------------------------------------------------- */

struct str boxes_output_id(const struct scope *scope, struct str id, struct arena *a)
{
    unsigned char hash[SHA256_SIZE];
    char hex[SHA256_HEX_SIZE];
    struct sha256 h;

    if (!fixed_is_id(id)) {
        return id;
    }
    sha256_init(&h);
    sha256_add(&h, scope->owner);
    sha256_add(&h, S("\0"));
    sha256_add(&h, id);
    sha256_end(&h, hash);
    return arena_str(a, str_head(str_from(sha256_hex(hash, hex)), HOST_OUTPUT_LEN));
}

struct output_search {
    const struct scope *scope;
    struct arena *arena;
    struct str id;
    bool found;
};

static int compare_output(void *arg, const struct box_row *row, const struct box_info *info,
                          struct err *e)
{
    struct output_search *s = arg;

    (void)info;
    (void)e;
    s->found = s->found || str_eq(boxes_output_id(s->scope, row->id, s->arena), s->id);
    return 0;
}

bool boxes_owns(struct boxes *bs, const struct ctx *ctx, struct scope *scope, struct str id)
{
    struct cached found;
    struct box_row row;
    struct output_search host = {scope, ctx->arena, id, false};
    struct err ignored;

    if (fixed_is_id(id)) {
        return boxes_row(bs, ctx, scope, id, &row, &ignored) == 0;
    }
    if (id.len == HOST_OUTPUT_LEN) {
        return fixed_each(bs, ctx, scope, compare_output, &host, &ignored) == 0 && host.found;
    }
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
