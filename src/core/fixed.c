/*
 * fixed.c - boxes that a provider's configuration names: SSH hosts.
 *
 * They exist without being made and do not end, so the database knows nothing of them. Each
 * has the id "provider:ref" and a row that is made up when it is asked for. Everyone who may
 * use this anybox may use them: the operator named them for that.
 */
#include "core/boxes_own.h"

bool fixed_is_id(struct str id)
{
    return str_has(id, ':');
}

bool fixed_any(const struct boxes *bs)
{
    for (size_t i = 0; i < bs->n_providers; i++) {
        if (bs->providers[i]->ops->factory == NULL) {
            return true;
        }
    }
    return false;
}

struct telling {
    const struct ctx *ctx;
    struct str owner, provider;
    fixed_fn *each;
    void *arg;
};

static int tell(void *arg, const struct box_info *info, struct err *e)
{
    const struct telling *t = arg;
    struct arena *a = t->ctx->arena;
    const struct box_row row = {
        .id = arena_printf(a, "%.*s:%.*s", STR_ARG(t->provider), STR_ARG(info->ref)),
        .owner = t->owner,
        .name = arena_str(a, info->name),
        .provider = t->provider,
        .ref = arena_str(a, info->ref),
        .state = ROW_LIVE,
    };

    return t->each(t->arg, &row, info, e);
}

int fixed_each(struct boxes *bs, const struct ctx *ctx, struct scope *scope, fixed_fn *each,
               void *arg, struct err *e)
{
    for (size_t i = 0; i < bs->n_providers; i++) {
        struct provider *p = bs->providers[i];
        struct telling t = {ctx, scope->owner, p->name, each, arg};

        if (p->ops->factory == NULL && provider_list(p, ctx, tell, &t, e) < 0) {
            return -1;
        }
    }
    return 0;
}

struct search {
    struct str word; /* empty: the first one */
    struct fixed *out;
    bool found;
};

static int compare(void *arg, const struct box_row *row, const struct box_info *info, struct err *e)
{
    struct search *s = arg;

    if (s->word.len > 0 && !str_eq(s->word, row->id) && !str_eq(s->word, row->name)) {
        return 0;
    }
    s->out->row = *row;
    s->out->info = *info;
    s->found = true;
    return err_set(e, ERR_LIMIT, "enough");
}

bool fixed_find(struct boxes *bs, const struct ctx *ctx, struct scope *scope, struct str word,
                struct fixed *out)
{
    struct search s = {.word = word, .out = out};
    struct err ignored;

    (void)!fixed_each(bs, ctx, scope, compare, &s, &ignored);
    return s.found;
}
