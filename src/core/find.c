/*
 * find.c - which box a caller means.
 *
 * Named: an id, "provider:ref" or a name, in either argument; a name never looks like
 * an id (boxes_check_name()), so the order of the tries decides nothing. Not named: the
 * selected box; else the default box of this folder; else the only box, where the
 * default boxes of other folders do not count; else, for callers that want it, a default
 * box is made. What was used for want of a selection stays in use (scope.implied) until
 * it ends or something is selected.
 */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/path.h"
#include "base/thread.h"
#include "base/utf8.h"
#include "core/boxes_own.h"

#define NAMES_SHOWN   10
#define WORD_SHOWN    80
#define DEFAULT_TRIES 8

/* ---- the default box's name ----------------------------------------------------------- */

static uint32_t hash_of(struct str s)
{
    uint64_t h = 14695981039346656037ull;

    for (size_t i = 0; i < s.len; i++) {
        h = (h ^ (unsigned char)s.p[i]) * 1099511628211ull;
    }
    return (uint32_t)((h ^ (h >> 32)) & 0xffffff);
}

struct str find_default_name(struct str folder, char to[DEFAULT_NAME_SIZE])
{
    struct str base = str_head(path_base(folder), 24);
    char safe[25] = "";
    int n;

    for (size_t i = 0; i < base.len; i++) {
        char c = base.p[i];
        bool ok = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  c == '.' || c == '_' || c == '-';

        safe[i] = ok ? c : '-';
    }
    if (base.len == 0 || str_eq(base, S("/"))) {
        (void)snprintf(safe, sizeof(safe), "root");
    }
    n = snprintf(to, DEFAULT_NAME_SIZE, "default-%s-%06x", safe, hash_of(folder));
    return (struct str){to, (size_t)n};
}

/* default-<anything>-<6 hex digits> */
static bool is_default_name(struct str name)
{
    struct str hex = name.len > 7 ? str_skip(name, name.len - 6) : STR_EMPTY;

    if (!str_starts(name, S("default-")) || name.len < 16 || name.p[name.len - 7] != '-') {
        return false;
    }
    for (size_t i = 0; i < hex.len; i++) {
        if (strchr("0123456789abcdef", hex.p[i]) == NULL) {
            return false;
        }
    }
    return true;
}

/* ---- sentences --------------------------------------------------------------------------- */

struct names {
    struct buf text;
    int64_t n;
};

static int add_name(void *arg, const struct box_row *row, struct err *e)
{
    struct names *names = arg;

    if (names->n == NAMES_SHOWN) {
        return err_set(e, ERR_LIMIT, "enough");
    }
    buf_addf(&names->text, "%s%.*s", names->n > 0 ? ", " : "", STR_ARG(row->name));
    names->n++;
    return 0;
}

struct str find_names(struct boxes *bs, const struct ctx *ctx, struct str owner)
{
    struct names names = {0};
    struct str text;
    struct err ignored;
    int64_t all = 0;

    buf_init(&names.text, 1024);
    (void)!store_each_box(bs->store, ctx->arena, owner, false, add_name, &names, &ignored);
    if (store_count_boxes(bs->store, owner, &all, &ignored) == 0 && all > names.n) {
        buf_addf(&names.text, " and %lld more", (long long)(all - names.n));
    }
    text = arena_str(ctx->arena, buf_str(&names.text));
    buf_fini(&names.text);
    return text;
}

int find_fail_ended(const struct box_row *row, struct err *e)
{
    return err_set(e, ERR_GONE,
                   "sandbox \"%.*s\" has ended: %.*s; call create_sandbox to make a new one",
                   STR_ARG(row->name), STR_ARG(row->ended));
}

static int fail_unknown(struct boxes *bs, const struct ctx *ctx, struct scope *scope,
                        struct str word, struct err *e)
{
    struct str names = find_names(bs, ctx, scope->owner);

    word = utf8_head(word, WORD_SHOWN);
    if (names.len == 0) {
        return err_set(e, ERR_NOT_FOUND,
                       "no sandbox \"%.*s\"; there is none at all: call create_sandbox to make one",
                       STR_ARG(word));
    }
    return err_set(e, ERR_NOT_FOUND, "no sandbox \"%.*s\"; existing: %.*s", STR_ARG(word),
                   STR_ARG(names));
}

static int fail_none(struct boxes *bs, const struct ctx *ctx, struct scope *scope, struct err *e)
{
    struct str names = find_names(bs, ctx, scope->owner);

    if (names.len == 0) {
        return err_set(e, ERR_NOT_FOUND,
                       "there is no sandbox yet: call create_sandbox to make one");
    }
    return err_set(e, ERR_NOT_FOUND,
                   "no sandbox is selected: name one by sandbox_id or sandbox_name, or call "
                   "select_sandbox or create_sandbox; existing: %.*s",
                   STR_ARG(names));
}

/* ---- named -------------------------------------------------------------------------------- */

/* One word that means a box: 0, or -1 with ERR_NOT_FOUND or a failure of the store. */
static int row_of_word(struct boxes *bs, const struct ctx *ctx, struct scope *scope,
                       struct str word, struct box_row *out, struct err *e)
{
    struct str ref;
    struct str provider = str_cut(word, ':', &ref);

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
            return e->kind == ERR_NOT_FOUND ? fail_unknown(bs, ctx, scope, words[i], e) : -1;
        }
        *out = rows[i];
    }
    if (rows[0].id.len > 0 && rows[1].id.len > 0 && !str_eq(rows[0].id, rows[1].id)) {
        return err_set(e, ERR_INVALID,
                       "sandbox_id \"%.*s\" and sandbox_name \"%.*s\" are two different sandboxes: "
                       "give one of them",
                       STR_ARG(utf8_head(want->id, WORD_SHOWN)),
                       STR_ARG(utf8_head(want->name, WORD_SHOWN)));
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

    if (is_default_name(row->name)) {
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
    if (store_box_by_id(bs->store, ctx->arena, scope->owner, id, out, e) < 0) {
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
    return ended ? find_fail_ended(out, e) : -1;
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

    if (store_box_by_name(bs->store, ctx->arena, scope->owner,
                          find_default_name(scope->folder, name), out, e) < 0) {
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
    *several = false;
    if (selected_row(bs, ctx, scope, out, e) == 0) {
        return 0;
    }
    if (e->kind != ERR_NOT_FOUND) {
        return -1;
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
    return e->kind == ERR_NOT_FOUND ? fail_none(bs, ctx, scope, e) : -1;
}

/* ---- with a handle ----------------------------------------------------------------------------- */

/* Without the database: a box that this process knows. */
static bool find_cached(struct boxes *bs, const struct ctx *ctx, struct scope *scope,
                        const struct box_want *want, struct cached *out)
{
    struct str word = want->id.len > 0 ? want->id : want->name;

    if (!is_named(want)) {
        lock(&scope->lock);
        word = arena_str(ctx->arena, str_from(scope->selected));
        if (word.len == 0 && scope->seeded) {
            word = arena_str(ctx->arena, str_from(scope->implied));
        }
        unlock(&scope->lock);
    }
    if (word.len == 0 || (!cache_by_id(&bs->cache, scope->owner, word, out) &&
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
    struct str called = find_default_name(scope->folder, name);
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
        if (!(want->make_default && is_default_name(row->name))) {
            return NULL; /* told once: files that were in it are gone */
        }
    } else if (e->kind != ERR_NOT_FOUND) {
        return NULL;
    }
    if (!want->make_default || several) {
        (void)fail_none(bs, ctx, scope, e);
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
    if (box == NULL) {
        return NULL;
    }
    if (!is_named(want)) {
        scope_imply(scope, row.id);
    }
    *out_id = row.id;
    return box;
}
