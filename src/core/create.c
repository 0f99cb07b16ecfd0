/*
 * create.c - boxes made to order.
 *
 * The row comes first, in state STARTING and with our pid and start time: the name is
 * then ours, over all processes, and whoever wants the same box waits for us or, when we
 * die, clears up (boxes_abandon()). Then the provider makes the box, then the row
 * becomes LIVE. Whatever fails in between takes back what was there before.
 */
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/proc.h"
#include "config/config.h"
#include "core/boxes_own.h"

#define NAME_TRIES 4

void create_row(const struct ctx *ctx, struct scope *scope, struct str name, struct box_row *out)
{
    char id[STORE_ID_LEN + 1];
    int64_t now = clock_wall_ms();

    id_hex(id, STORE_ID_LEN / 2);
    *out = (struct box_row){
        .id = arena_str(ctx->arena, str_from(id)),
        .owner = scope->owner,
        .name = arena_str(ctx->arena, name),
        .state = ROW_STARTING,
        .created_ms = now,
        .used_ms = now,
        .starter_pid = getpid(),
        .starter_start = proc_start_time(getpid()),
    };
    out->ref = out->id;
}

static int64_t expiry(const struct boxes *bs, const struct box_spec *spec, int64_t now_ms)
{
    int64_t lifetime_s =
        spec->limits.lifetime_s > 0 ? spec->limits.lifetime_s : bs->config->lifetime_s;

    return lifetime_s > 0 ? now_ms + lifetime_s * 1000 : 0;
}

/* The box's row is LIVE, or the box is gone again. */
static int publish(struct boxes *bs, const struct ctx *ctx, struct box_row *row, struct box *box,
                   struct err *e)
{
    struct err ignored;

    row->ref = arena_str(ctx->arena, box->ref);
    if (store_box_live(bs->store, row->id, row->ref, row->expires_ms, e) < 0) {
        (void)!box_destroy(box, ctx, &ignored);
        return -1;
    }
    row->state = ROW_LIVE;
    cache_put(&bs->cache, row, box);
    return 0;
}

static int look_only(void *arg, const struct box_view *view, struct box *box, struct err *e)
{
    (void)arg;
    (void)view;
    (void)box;
    (void)e;
    return 0;
}

static int look_at_all(struct boxes *bs, const struct ctx *ctx, struct err *e)
{
    const struct str *owners;
    size_t n;

    if (boxes_owners(bs, ctx, &owners, &n, e) < 0) {
        return -1;
    }
    for (size_t i = 0; i < n; i++) {
        struct scope theirs;
        int rc;

        scope_init(&theirs, owners[i], STR_EMPTY);
        rc = boxes_each_made(bs, ctx, &theirs, look_only, NULL, e);
        scope_fini(&theirs);
        if (rc < 0) {
            return -1;
        }
    }
    return 0;
}

static int fail_full(struct boxes *bs, const struct ctx *ctx, struct scope *scope, struct err *e)
{
    struct str yours = name_list(bs, ctx, scope);

    if (yours.len == 0) {
        return err_set(e, ERR_LIMIT,
                       "there are already %lld sandboxes, as many as local.max_boxes allows, and "
                       "none of them is yours: try again later, or ask the operator",
                       (long long)bs->config->max_boxes);
    }
    return err_set(e, ERR_LIMIT,
                   "there are already %lld sandboxes, as many as local.max_boxes allows: delete "
                   "one with delete_sandbox; existing: %.*s",
                   (long long)bs->config->max_boxes, STR_ARG(yours));
}

int create_claim(struct boxes *bs, const struct ctx *ctx, struct scope *scope,
                 const struct box_spec *spec, struct box_row *row, struct err *e)
{
    struct provider *p = boxes_provider(bs, row->provider, e);
    int64_t max = bs->config->max_boxes;

    if (p == NULL) {
        return -1;
    }
    row->provider = p->name;
    row->image = arena_str(ctx->arena, spec->image);
    row->expires_ms = expiry(bs, spec, row->created_ms);
    if (store_add_box(bs->store, row, max, e) == 0) {
        return 0;
    }
    if (e->kind != ERR_LIMIT || max == 0) {
        return -1;
    }
    /* Boxes that died unseen count until somebody looks, whoever's they were. */
    if (look_at_all(bs, ctx, e) < 0) {
        return -1;
    }
    if (store_add_box(bs->store, row, max, e) == 0) {
        return 0;
    }
    return e->kind == ERR_LIMIT ? fail_full(bs, ctx, scope, e) : -1;
}

struct box *create_start(struct boxes *bs, const struct ctx *ctx, const struct box_spec *spec,
                         struct box_row *row, struct err *e)
{
    struct provider *p = boxes_provider(bs, row->provider, e);
    struct box_spec order = *spec;
    struct box *box = NULL;
    struct err ignored;

    order.id = row->id;
    order.name = row->name;
    if (order.limits.idle_s == 0 && bs->config->cleanup != 0) {
        order.limits.idle_s = (int32_t)bs->config->cleanup_s;
    }
    if (p != NULL) {
        box = provider_create(p, ctx, &order, e);
    }
    if (box == NULL || publish(bs, ctx, row, box, e) < 0) {
        (void)!store_drop_box(bs->store, row->id, &ignored);
        box_unref(box);
        return NULL;
    }
    return box;
}

/* ---- when the name is taken ---------------------------------------------------------------- */

/* Who has the name: a box that exists (1, and *holder is it), or a row whose box is dead,
 * which has now ended (0: try again). */
static int settle_name(struct boxes *bs, const struct ctx *ctx, struct str owner, struct str name,
                       struct box_view *holder, struct err *e)
{
    struct box *box CLEANUP(box_unref_p) = NULL;
    struct box_row row;

    if (store_box_by_name(bs->store, ctx->arena, owner, name, &row, e) < 0) {
        return e->kind == ERR_NOT_FOUND ? 0 : -1;
    }
    if (row.state == ROW_ENDED) {
        return 0;
    }
    if (boxes_look(bs, ctx, &row, holder, &box, e) == 0) {
        return 1;
    }
    return e->kind == ERR_GONE || e->kind == ERR_NOT_FOUND ? 0 : -1;
}

/* 1: the name belongs to *holder; 0: the row is claimed. */
static int claim_or_meet(struct boxes *bs, const struct ctx *ctx, struct scope *scope,
                         const struct box_order *order, struct box_row *row,
                         struct box_view *holder, struct err *e)
{
    for (int i = 0; i < NAME_TRIES; i++) {
        int rc;

        if (create_claim(bs, ctx, scope, &order->spec, row, e) == 0) {
            return 0;
        }
        if (e->kind != ERR_EXISTS) {
            return -1;
        }
        rc = settle_name(bs, ctx, scope->owner, row->name, holder, e);
        if (rc != 0) {
            return rc;
        }
    }
    return err_set(e, ERR_EXISTS, "the name \"%.*s\" is wanted by several at once: try again",
                   STR_ARG(row->name));
}

/* ---- the way in ------------------------------------------------------------------------------ */

static int choose_name(const struct ctx *ctx, struct str wanted, struct str *out, struct err *e)
{
    char hex[7];

    if (wanted.len > 0) {
        *out = wanted;
        return boxes_check_name(wanted, e);
    }
    id_hex(hex, 3);
    *out = arena_printf(ctx->arena, "box-%s", hex);
    return 0;
}

/* A box is selected that somebody can still use. */
static bool has_selected(struct boxes *bs, const struct ctx *ctx, struct scope *scope,
                         struct str *id)
{
    struct box_row row;
    struct err ignored;

    return scope_selected(bs, ctx, scope, id, &ignored) == 0 && id->len > 0 &&
           boxes_row(bs, ctx, scope, *id, &row, &ignored) == 0 && row.state != ROW_ENDED;
}

static void select_if_none(struct boxes *bs, const struct ctx *ctx, struct scope *scope,
                           struct box_view *view)
{
    struct str selected = STR_EMPTY;

    if (!has_selected(bs, ctx, scope, &selected)) {
        scope_select(bs, scope, view->row.id);
        selected = view->row.id;
    }
    view->selected = str_eq(selected, view->row.id);
}

/* What the box was to be and is not; NULL: it is what is asked for. What nobody asked for is as the
 * box has it. */
static const char *differs(const struct box_view *holder, const struct box_order *order)
{
    const struct limits *is = &holder->info.limits;
    const struct limits *asked = &order->spec.limits;
    const struct {
        const char *name;
        int64_t asked, is;
    } numbers[] = {
        {"memory", asked->memory_bytes, is->memory_bytes},
        {"disk", asked->disk_bytes, is->disk_bytes},
        {"cpus", asked->cpu_millis, is->cpu_millis},
        {"pids", asked->pids, is->pids},
    };

    if (order->provider.len > 0 && !str_eq(order->provider, holder->row.provider)) {
        return "provider";
    }
    if (order->spec.image.len > 0 && !str_eq(order->spec.image, holder->row.image)) {
        return "image";
    }
    if (order->spec.network != NETWORK_NONE && order->spec.network != holder->info.network) {
        return "network";
    }
    for (size_t i = 0; i < COUNTOF(numbers); i++) {
        if (numbers[i].asked > 0 && numbers[i].is > 0 && numbers[i].asked != numbers[i].is) {
            return numbers[i].name;
        }
    }
    return NULL;
}

static int check_reuse(const struct box_view *holder, const struct box_order *order, struct err *e)
{
    if (!order->reuse) {
        return err_set(e, ERR_EXISTS,
                       "there is already a sandbox \"%.*s\": use reuse=true or another name",
                       STR_ARG(holder->row.name));
    }
    if (!holder->alive) {
        return err_set(e, ERR_UNREACHABLE, "sandbox \"%.*s\" exists and does not answer: %.*s",
                       STR_ARG(holder->row.name), STR_ARG(holder->problem));
    }
    const char *other = differs(holder, order);
    if (other != NULL) {
        return err_set(
            e, ERR_EXISTS,
            "there is already a sandbox \"%.*s\", with another %s: leave %s out to use it as "
            "it is, delete it, or choose another name",
            STR_ARG(holder->row.name), other, other);
    }
    return 0;
}

static int start_and_look(struct boxes *bs, const struct ctx *ctx, const struct box_spec *spec,
                          struct box_row *row, struct box_view *out, struct err *e)
{
    struct box *looked CLEANUP(box_unref_p) = NULL;
    struct box *box CLEANUP(box_unref_p) = create_start(bs, ctx, spec, row, e);

    return box != NULL ? boxes_look(bs, ctx, row, out, &looked, e) : -1;
}

int boxes_create(struct boxes *bs, const struct ctx *ctx, struct scope *scope,
                 const struct box_order *order, struct box_view *out, bool *reused, struct err *e)
{
    struct box_view view = {0};
    struct str name = STR_EMPTY;
    struct box_row row;
    struct fixed taken;
    int met;

    if (choose_name(ctx, order->name, &name, e) < 0) {
        return -1;
    }
    if (fixed_find(bs, ctx, scope, name, &taken)) {
        return err_set(e, ERR_EXISTS,
                       "\"%.*s\" is the name of a host that the configuration has: choose another",
                       STR_ARG(name));
    }
    create_row(ctx, scope, name, &row);
    row.provider = order->provider;
    met = claim_or_meet(bs, ctx, scope, order, &row, &view, e);
    if (met < 0) {
        return -1;
    }
    if ((met > 0 ? check_reuse(&view, order, e)
                 : start_and_look(bs, ctx, &order->spec, &row, &view, e)) < 0) {
        return -1;
    }
    select_if_none(bs, ctx, scope, &view);
    *out = view;
    *reused = met > 0;
    boxes_sweep(bs, ctx);
    return 0;
}
