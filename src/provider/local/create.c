/*
 * Making a box: what was asked for is checked, a blank is taken from the pool or made, and
 * gets its order. Up to the order the box dies with us; from then on it belongs to nobody
 * and outlives us.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/own.h"
#include "provider/local/facts.h"
#include "provider/local/image.h"
#include "provider/local/pool.h"
#include "provider/talk.h"

#define NAME_MAX_LEN 128

/* ---- what was asked for --------------------------------------------------------------- */

bool local_id_ok(struct str id)
{
    if (id.len != BOX_ID_SIZE - 1) {
        return false;
    }
    for (size_t i = 0; i < id.len; i++) {
        bool digit = id.p[i] >= '0' && id.p[i] <= '9';
        bool letter = id.p[i] >= 'a' && id.p[i] <= 'f';
        if (!digit && !letter) {
            return false;
        }
    }
    return true;
}

static int check_name(struct str name, struct err *e)
{
    if (name.len > NAME_MAX_LEN) {
        return err_set(e, ERR_INVALID, "the name has %zu bytes; at most %d are accepted", name.len,
                       NAME_MAX_LEN);
    }
    for (size_t i = 0; i < name.len; i++) {
        if ((unsigned char)name.p[i] < 0x20 || name.p[i] == 0x7f) {
            return err_set(e, ERR_INVALID, "the name contains a control character");
        }
    }
    return 0;
}

static int check_spec(const struct local *l, const struct box_spec *spec, struct arena *a,
                      struct err *e)
{
    if (!local_id_ok(spec->id)) {
        return err_set(e, ERR_BUG, "a sandbox id is 32 hex digits, not \"%.*s\"",
                       STR_ARG(str_head(spec->id, 40)));
    }
    if (network_check(l, spec->network, facts_landlock(), a, e) < 0) {
        return -1;
    }
    if (check_name(spec->name, e) < 0) {
        return -1;
    }
    return talk_check_env(spec->env, spec->n_env, e);
}

int local_find_boxinit(const struct local *l, struct arena *a, const char **out, struct err *e)
{
    const char *beside = arena_printf(a, "%s/%s", l->program_dir, BOXINIT).p;
    const char *installed = arena_printf(a, "%s/../libexec/anybox/%s", l->program_dir, BOXINIT).p;
    if (access(beside, X_OK) == 0) {
        *out = beside;
        return 0;
    }
    if (access(installed, X_OK) == 0) {
        *out = installed;
        return 0;
    }
    return err_set(e, ERR_NOT_FOUND,
                   "the program boxinit, which runs inside local sandboxes, was found neither at "
                   "%s nor at %s; build or install anybox again",
                   beside, installed);
}

/* ---- making ------------------------------------------------------------------------------- */

static struct box *claim(struct blank *b, const struct ctx *ctx, const struct box_spec *spec,
                         const struct limits *limits, struct err *e)
{
    struct meta m = {0};
    int folder = -1;
    if (blank_claim(b, ctx, spec, limits, &m, e) == 0) {
        folder = openat(b->folder, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (folder < 0) {
            (void)err_sys(e, errno, "cannot open the sandbox's folder");
        }
    }
    struct box *box = folder >= 0 ? local_box_new(b->local, spec->id, folder, &m) : NULL;
    if (box == NULL) {
        blank_undo(b);
    }
    blank_free(b);
    return box;
}

/* NULL with ERR_UNREACHABLE: there is none, or it died. */
static struct box *from_pool(struct local *l, const struct ctx *ctx, const struct box_spec *spec,
                             const struct limits *limits, struct err *e)
{
    struct blank *b = NULL;
    if (l->pool != NULL && spec->network == NETWORK_NONE && spec->image.len == 0) {
        b = blank_pool_take(l->pool, limits);
    }
    if (b == NULL) {
        (void)err_set(e, ERR_UNREACHABLE, "no sandbox is prepared");
        return NULL;
    }
    return claim(b, ctx, spec, limits, e);
}

static int find_image(struct local *l, const struct ctx *ctx, struct str wanted, struct str *out,
                      struct err *e)
{
    return wanted.len > 0 ? image_resolve(l, NULL, ctx->arena, wanted, out, e) : 0;
}

static struct box *make(struct local *l, const struct ctx *ctx, const struct box_spec *spec,
                        const struct blank_kind *kind, struct err *e)
{
    struct blank *b = blank_make(l, ctx, kind, l->boxes_dir, spec->id, e);
    return b != NULL ? claim(b, ctx, spec, &kind->limits, e) : NULL;
}

static struct box *afresh(struct local *l, const struct ctx *ctx, const struct box_spec *spec,
                          const struct limits *limits, struct err *e)
{
    struct blank_kind kind = {.network = spec->network, .limits = *limits};
    if (find_image(l, ctx, spec->image, &kind.image, e) < 0) {
        return NULL;
    }
    struct box *box = make(l, ctx, spec, &kind, e);
    if (box == NULL && e->kind == ERR_UNREACHABLE) {
        log_line(LOG_INFO, "local", "a sandbox is made once more, without the maker: %s", e->msg);
        kind.alone = true;
        box = make(l, ctx, spec, &kind, e);
    }
    if (box == NULL && e->kind == ERR_UNREACHABLE) {
        (void)err_set(e, ERR_SYSTEM, "the sandbox ended as soon as it was made");
    }
    return box;
}

struct box *local_create(struct provider *p, const struct ctx *ctx, const struct box_spec *spec,
                         struct err *e)
{
    struct local *l = local_of(p);
    struct limits limits;
    if (check_spec(l, spec, ctx->arena, e) < 0 ||
        limits_settle(l, &spec->limits, ctx->arena, &limits, e) < 0) {
        return NULL;
    }
    struct box *box = from_pool(l, ctx, spec, &limits, e);
    if (box == NULL && e->kind == ERR_UNREACHABLE) {
        box = afresh(l, ctx, spec, &limits, e);
    }
    if (box != NULL && l->pool != NULL) {
        blank_pool_fill(l->pool);
    }
    return box;
}
