/*
 * scope.c - what a client has selected.
 *
 * The selection lives in the process. The database remembers it only to seed the next
 * process of the same owner and folder, so a failure to write it there is no failure
 * of the call. Beside it the box that is used for want of a selection is remembered:
 * commands in it then need no database either.
 */
#include <stdio.h>
#include <string.h>

#include "base/thread.h"
#include "core/boxes_own.h"

void scope_init(struct scope *s, struct str owner, struct str folder)
{
    *s = (struct scope){.owner = owner, .folder = folder};
    (void)pthread_mutex_init(&s->lock, NULL);
}

void scope_fini(struct scope *s)
{
    (void)pthread_mutex_destroy(&s->lock);
}

static void keep_id(char *to, size_t size, struct str id)
{
    (void)snprintf(to, size, "%.*s", STR_ARG(id));
}

/* What the last process of this folder had selected, unless it has ended. */
static int seed(struct boxes *bs, const struct ctx *ctx, struct scope *scope, struct err *e)
{
    struct str id = STR_EMPTY;
    struct box_row row;

    if (store_get_selected(bs->store, ctx->arena, scope->owner, scope->folder, &id, e) < 0) {
        return -1;
    }
    if (id.len > 0 && boxes_row(bs, ctx, scope, id, &row, e) < 0) {
        if (e->kind != ERR_NOT_FOUND) {
            return -1;
        }
        id = STR_EMPTY;
    } else if (id.len > 0 && row.state == ROW_ENDED) {
        id = STR_EMPTY;
    }
    LOCKED(&scope->lock);
    if (!scope->seeded && scope->selected[0] == '\0') {
        keep_id(scope->selected, sizeof(scope->selected), id);
    }
    scope->seeded = true;
    return 0;
}

int scope_selected(struct boxes *bs, const struct ctx *ctx, struct scope *scope, struct str *out,
                   struct err *e)
{
    bool seeded;

    lock(&scope->lock);
    seeded = scope->seeded || scope->selected[0] != '\0';
    unlock(&scope->lock);
    if (!seeded && seed(bs, ctx, scope, e) < 0) {
        return -1;
    }
    LOCKED(&scope->lock);
    *out = arena_str(ctx->arena, str_from(scope->selected));
    return 0;
}

void scope_select(struct boxes *bs, struct scope *scope, struct str id)
{
    struct err ignored;

    lock(&scope->lock);
    keep_id(scope->selected, sizeof(scope->selected), id);
    scope->seeded = true;
    unlock(&scope->lock);
    (void)!store_set_selected(bs->store, scope->owner, scope->folder, id, &ignored);
}

void scope_forget(struct boxes *bs, struct scope *scope, struct str id)
{
    bool was_selected;

    lock(&scope->lock);
    was_selected = str_eq(str_from(scope->selected), id);
    if (str_eq(str_from(scope->implied), id)) {
        scope->implied[0] = '\0';
    }
    unlock(&scope->lock);
    if (was_selected) {
        scope_select(bs, scope, STR_EMPTY);
    }
}

struct str scope_implied(const struct ctx *ctx, struct scope *scope)
{
    LOCKED(&scope->lock);
    return arena_str(ctx->arena, str_from(scope->implied));
}

void scope_imply(struct scope *scope, struct str id)
{
    LOCKED(&scope->lock);
    keep_id(scope->implied, sizeof(scope->implied), id);
}
