/*
 * find.c - which box a caller means.
 *
 * Named: an id, "provider:ref" or a name, in either argument; a name never looks like
 * an id (boxes_check_name()), so the order of the tries decides nothing, but that a host of
 * the configuration comes before a box that was made. Not named: the selected box; else the
 * first configured host; else the default box of this folder; else the only box, where the
 * default boxes of other folders do not count; else, for callers that want it, a default
 * box is made. What was used for want of a selection stays in use (scope.implied) until
 * it ends or something is selected.
 */
#include "base/thread.h"
#include "base/utf8.h"
#include "config/config.h"
#include "core/boxes_own.h"

#define DEFAULT_TRIES 8

/* ---- named -------------------------------------------------------------------------------- */

/* One word that means a box: 0, or -1 with ERR_NOT_FOUND or a failure of the store. */
static int row_of_word(struct boxes *bs, const struct ctx *ctx, struct scope *scope,
                       struct str word, struct box_row *out, struct err *e)
{
    struct str ref;
    struct str provider = str_cut(word, ':', &ref);
    struct fixed host;

    if (fixed_find(bs, ctx, scope, word, &host)) {
        *out = host.row;
        return 0;
    }
    if (store_box_by_id(bs->store, ctx->arena, scope->owner, word, out, e) == 0) {
        return 0;
    }
    if (e->kind == ERR_NOT_FOUND && ref.len > 0 &&
        store_box_by_ref(bs->store, ctx->arena, scope->owner, provider, ref, out, e) == 0) {
        return 0;
    }
    if (e->kind == ERR_NOT_FOUND) {
        return store_box_by_name(bs->store, ctx->arena, scope->owner, word, out, e);
    }
    return -1;
}

static int named_row(struct boxes *bs, const struct ctx *ctx, struct scope *scope,
                     const struct box_want *want, struct box_row *out, struct err *e)
{
    const struct str words[] = {want->id, want->name};
    struct box_row rows[2] = {0};

    for (size_t i = 0; i < COUNTOF(words); i++) {
        if (words[i].len == 0) {
            continue;
        }
        if (row_of_word(bs, ctx, scope, words[i], &rows[i], e) < 0) {
            return e->kind == ERR_NOT_FOUND ? name_fail_unknown(bs, ctx, scope, words[i], e) : -1;
        }
        *out = rows[i];
    }
    if (rows[0].id.len > 0 && rows[1].id.len > 0 && !str_eq(rows[0].id, rows[1].id)) {
        return err_set(e, ERR_INVALID,
                       "sandbox_id \"%.*s\" and sandbox_name \"%.*s\" are two different sandboxes: "
                       "give one of them",
                       STR_ARG(utf8_head(want->id, NAME_SHOWN)),
                       STR_ARG(utf8_head(want->name, NAME_SHOWN)));
    }
    return 0;
}

/* ---- not named ------------------------------------------------------------------------------ */

struct candidates {
    struct box_row first;
    int n;
};

static int count_candidate(void *arg, const struct box_row *row, struct err *e)
{
    struct candidates *c = arg;

    if (name_is_default(row->name)) {
        return 0; /* another folder's: ours was looked for before */
    }
    if (c->n == 0) {
        c->first = *row;
    }
    c->n++;
    return c->n < 2 ? 0 : err_set(e, ERR_LIMIT, "enough");
}

/* The id's row unless it has ended. *ended: it was there and has. */
static int live_row(struct boxes *bs, const struct ctx *ctx, struct scope *scope, struct str id,
                    struct box_row *out, bool *ended, struct err *e)
{
    *ended = false;
    if (id.len == 0) {
        return err_set(e, ERR_NOT_FOUND, "none");
    }
    if (boxes_row(bs, ctx, scope, id, out, e) < 0) {
        return -1;
    }
    *ended = out->state == ROW_ENDED;
    return *ended ? err_set(e, ERR_NOT_FOUND, "ended") : 0;
}

/* ERR_NOT_FOUND: none. A selected box that has ended is told once, then it is forgotten. */
static int selected_row(struct boxes *bs, const struct ctx *ctx, struct scope *scope,
                        struct box_row *out, struct err *e)
{
    struct str id = STR_EMPTY;
    bool ended;

    if (scope_selected(bs, ctx, scope, &id, e) < 0) {
        return -1;
    }
    if (live_row(bs, ctx, scope, id, out, &ended, e) == 0) {
        return 0;
    }
    if (e->kind != ERR_NOT_FOUND) {
        return -1;
    }
    if (id.len > 0) {
        scope_forget(bs, scope, id);
    }
    return ended ? name_fail_ended(out, e) : -1;
}

static int implied_row(struct boxes *bs, const struct ctx *ctx, struct scope *scope,
                       struct box_row *out, struct err *e)
{
    struct str id = scope_implied(ctx, scope);
    bool ended;

    if (live_row(bs, ctx, scope, id, out, &ended, e) == 0) {
        return 0;
    }
    if (id.len > 0 && e->kind == ERR_NOT_FOUND) {
        scope_forget(bs, scope, id);
    }
    return -1;
}

static int default_row(struct boxes *bs, const struct ctx *ctx, struct scope *scope,
                       struct box_row *out, struct err *e)
{
    char name[DEFAULT_NAME_SIZE];

    if (store_box_by_name(bs->store, ctx->arena, scope->owner, name_default(scope->folder, name),
                          out, e) < 0) {
        return -1;
    }
    return out->state != ROW_ENDED ? 0 : err_set(e, ERR_NOT_FOUND, "ended");
}

/* The only box there is. *several: there are more, so that none can be made by itself. */
static int only_row(struct boxes *bs, const struct ctx *ctx, struct scope *scope,
                    struct box_row *out, bool *several, struct err *e)
{
    struct candidates c = {0};

    if (store_each_box(bs->store, ctx->arena, scope->owner, false, count_candidate, &c, e) < 0 &&
        c.n < 2) {
        return -1;
    }
    *several = c.n > 1;
    if (c.n != 1) {
        return err_set(e, ERR_NOT_FOUND, "none");
    }
    *out = c.first;
    return 0;
}

static int active_row(struct boxes *bs, const struct ctx *ctx, struct scope *scope,
                      struct box_row *out, bool *several, struct err *e)
{
    struct fixed first;

    *several = false;
    if (selected_row(bs, ctx, scope, out, e) == 0) {
        return 0;
    }
    if (e->kind != ERR_NOT_FOUND) {
        return -1;
    }
    if (fixed_find(bs, ctx, scope, STR_EMPTY, &first)) {
        *out = first.row;
        return 0;
    }
    if (implied_row(bs, ctx, scope, out, e) == 0) {
        return 0;
    }
    if (e->kind != ERR_NOT_FOUND) {
        return -1;
    }
    if (default_row(bs, ctx, scope, out, e) == 0) {
        return 0;
    }
    return e->kind == ERR_NOT_FOUND ? only_row(bs, ctx, scope, out, several, e) : -1;
}

static bool is_named(const struct box_want *want)
{
    return want->id.len > 0 || want->name.len > 0;
}

int find_row(struct boxes *bs, const struct ctx *ctx, struct scope *scope,
             const struct box_want *want, struct box_row *out, struct err *e)
{
    bool several;

    if (is_named(want)) {
        return named_row(bs, ctx, scope, want, out, e);
    }
    if (active_row(bs, ctx, scope, out, &several, e) == 0) {
        return 0;
    }
    return e->kind == ERR_NOT_FOUND ? name_fail_none(bs, ctx, scope, e) : -1;
}

/* ---- with a handle ----------------------------------------------------------------------------- */

/* Without the database: a box that this process knows. */
static bool find_cached(struct boxes *bs, const struct ctx *ctx, struct scope *scope,
                        const struct box_want *want, struct cached *out)
{
    struct str word = want->id.len > 0 ? want->id : want->name;
    struct fixed host;

    if (!is_named(want)) {
        lock(&scope->lock);
        word = arena_str(ctx->arena, str_from(scope->selected));
        if (word.len == 0 && scope->seeded && !fixed_any(bs)) {
            word = arena_str(ctx->arena, str_from(scope->implied));
        }
        unlock(&scope->lock);
    }
    if (word.len == 0 || fixed_find(bs, ctx, scope, word, &host)) {
        return false;
    }
    if ((!cache_by_id(&bs->cache, scope->owner, word, out) &&
         !cache_by_name(&bs->cache, scope->owner, word, out))) {
        return false;
    }
    if (want->id.len > 0 && want->name.len > 0 && !str_eq(want->name, str_from(out->name))) {
        box_unref(out->box);
        return false;
    }
    return true;
}

/* The default box of this folder, made when it is not there: two processes that come here
 * at once make one box. */
static struct box *make_default(struct boxes *bs, const struct ctx *ctx, struct scope *scope,
                                const struct box_want *want, struct box_row *row, struct err *e)
{
    char name[DEFAULT_NAME_SIZE];
    struct str called = name_default(scope->folder, name);
    const struct box_spec spec = {0};
    struct box *box = NULL;

    for (int i = 0; i < DEFAULT_TRIES; i++) {
        create_row(ctx, scope, called, row);
        if (create_claim(bs, ctx, scope, &spec, row, e) == 0) {
            box = create_start(bs, ctx, &spec, row, e);
            if (box != NULL && want->made != NULL) {
                *want->made = true;
            }
            return box;
        }
        if (e->kind != ERR_EXISTS) {
            return NULL;
        }
        /* Somebody else was faster, or their box has ended without anyone having seen it:
         * boxes_attach() waits for the one and ends the other. */
        if (default_row(bs, ctx, scope, row, e) == 0) {
            box = boxes_attach(bs, ctx, row, e);
            if (box != NULL) {
                return box;
            }
        }
        if (e->kind != ERR_NOT_FOUND && e->kind != ERR_GONE) {
            return NULL;
        }
    }
    return NULL;
}

/* Whoever configured another machine does not expect commands to run on this one. */
static int refuse_other(const struct config *c, struct err *e)
{
    if (c->elsewhere.len > 0) {
        return err_set(e, ERR_NOT_FOUND,
                       "there is no sandbox yet: call create_sandbox, which makes one on the "
                       "OpenSandbox platform (%.*s), or on this machine with provider=local",
                       STR_ARG(c->elsewhere));
    }
    if (c->hosts_problem.len > 0) {
        return err_set(e, ERR_INVALID,
                       "Sandbox configuration error: %.*s. Commands do not run on this machine "
                       "instead unless you call create_sandbox",
                       STR_ARG(c->hosts_problem));
    }
    if (c->n_hosts > 0) {
        return err_set(e, ERR_UNSUPPORTED,
                       "SSH hosts are configured, but this anybox was built without SSH, and it "
                       "does not run your commands on this machine instead unless you call "
                       "create_sandbox");
    }
    return 0;
}

static struct box *find_active(struct boxes *bs, const struct ctx *ctx, struct scope *scope,
                               const struct box_want *want, struct box_row *row, struct err *e)
{
    bool several;
    struct box *box = NULL;
    bool is_found = active_row(bs, ctx, scope, row, &several, e) == 0;

    if (is_found) {
        box = boxes_attach(bs, ctx, row, e);
        if (box != NULL || (e->kind != ERR_GONE && e->kind != ERR_NOT_FOUND)) {
            return box;
        }
        scope_forget(bs, scope, row->id);
        if (!(want->make_default && name_is_default(row->name))) {
            return NULL; /* told once: files that were in it are gone */
        }
    } else if (e->kind != ERR_NOT_FOUND) {
        return NULL;
    }
    if (!want->make_default || several) {
        (void)name_fail_none(bs, ctx, scope, e);
        return NULL;
    }
    if (refuse_other(bs->config, e) < 0) {
        return NULL;
    }
    return make_default(bs, ctx, scope, want, row, e);
}

struct box *boxes_find(struct boxes *bs, const struct ctx *ctx, struct scope *scope,
                       const struct box_want *want, struct str *out_id, struct err *e)
{
    struct cached found;
    struct box_row row;
    struct box *box;

    if (find_cached(bs, ctx, scope, want, &found)) {
        *out_id = arena_str(ctx->arena, str_from(found.id));
        return found.box;
    }
    if (is_named(want)) {
        box = find_row(bs, ctx, scope, want, &row, e) == 0 ? boxes_attach(bs, ctx, &row, e) : NULL;
    } else {
        box = find_active(bs, ctx, scope, want, &row, e);
    }
    boxes_sweep_left(bs, ctx);
    if (box == NULL) {
        return NULL;
    }
    if (!is_named(want)) {
        scope_imply(scope, row.id);
    }
    *out_id = row.id;
    return box;
}
