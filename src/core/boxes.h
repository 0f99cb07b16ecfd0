/*
 * boxes.h - the boxes we know: names, ids, the selected one, and handles to them.
 *
 * What a provider says about a box (is it alive, its limits) is the truth about
 * the box; the database knows whose it is, its name, and why it ended. Handles
 * are cached, so that the exec path touches neither the database nor the disk.
 */
#ifndef CORE_BOXES_H
#define CORE_BOXES_H

#include <pthread.h>

#include "base/ctx.h"
#include "base/err.h"
#include "base/str.h"
#include "provider/provider.h"
#include "store/store.h"

struct boxes;
struct config;

/* Who asks, and what they have selected: one per stdio process, one per HTTP session or key.
 * Boxes belong to the owner that made them. Others do not see them, not by name, id or
 * "provider:ref", and may use the same names. */
struct scope {
    struct str owner;  /* "" the user at stdio and at the command line, "key:<name>" over HTTP */
    struct str folder; /* seeds the selection and names the default box */
    pthread_mutex_t lock;
    char selected[72]; /* a box id; guarded by lock */
    char implied[72];  /* used for want of a selection, until it ends; guarded by lock */
    bool seeded;       /* the database was asked; guarded by lock */
};
void scope_init(struct scope *s, struct str owner, struct str folder); /* borrows both */
void scope_fini(struct scope *s);

/* A box as the tools show it. Strings live in ctx->arena. */
struct box_view {
    struct box_row row;
    struct box_info info; /* what the provider says now; zeroed when not asked */
    bool alive;           /* its init or agent answered just now */
    struct str problem;   /* why not alive */
    bool selected;
    const struct usage *usage; /* boxes_each_busy() only; NULL: it did not tell, .usage_problem */
    struct str usage_problem;
};

struct boxes *boxes_new(const struct config *config, struct store *store, struct err *e);
void boxes_free(struct boxes *bs);

/* A box has ended, as far as this process learns of it: by itself, or it was deleted. */
typedef void box_end_fn(void *arg, struct str id, struct str why);
/* Who wants to know, on any thread; set once, before anything else is asked. */
void boxes_on_end(struct boxes *bs, box_end_fn *fn, void *arg);

/* Which box a caller means: exact id (also "provider:ref" and the first 12 digits of
 * an id), exact name, else the active one. Both empty: the active one. */
struct box_want {
    struct str id, name;
    bool make_default; /* nothing exists and nothing is configured: make a local box */
    bool *made;        /* NULL, or becomes true when boxes_find() made that box just now */
};

/* The box that is meant, with a reference for the caller to box_unref(). Unknown:
 * ERR_NOT_FOUND with a sentence that lists what exists; ended: it says why. *out_id
 * gets the id (in ctx->arena). Verifies nothing with the backend. */
struct box *boxes_find(struct boxes *bs, const struct ctx *ctx, struct scope *scope,
                       const struct box_want *want, struct str *out_id, struct err *e) MUST_CHECK;

/* Tells that the backend said this box is gone: forget the handle, end the row.
 * `why` replaces nothing that is known better. */
void boxes_lost(struct boxes *bs, const struct ctx *ctx, struct str id, struct str why);

struct box_order {
    struct str name;      /* empty: made up ("box-1a2b3c") */
    struct str provider;  /* empty: the default */
    struct box_spec spec; /* .id and .name are filled in by boxes_create() */
    bool reuse;           /* a live box of that name is the answer */
};
/* Makes it and selects it when none was selected. */
int boxes_create(struct boxes *bs, const struct ctx *ctx, struct scope *scope,
                 const struct box_order *order, struct box_view *out, bool *reused, struct err *e)
    MUST_CHECK;
/* Deletes it and everything it left; unselects it. Deleting one that ended is success. */
int boxes_delete(struct boxes *bs, const struct ctx *ctx, struct scope *scope,
                 const struct box_want *want, struct str *out_id, struct str *out_name,
                 struct err *e) MUST_CHECK;
int boxes_select(struct boxes *bs, const struct ctx *ctx, struct scope *scope,
                 const struct box_want *want, struct box_view *out, struct err *e) MUST_CHECK;
/* Asks all how busy they are and selects the one with the highest idle_score(). */
int boxes_select_idlest(struct boxes *bs, const struct ctx *ctx, struct scope *scope,
                        struct box_view *out, struct err *e) MUST_CHECK;
/* One box, asked now. ERR_GONE with the reason when it has ended. */
int boxes_show(struct boxes *bs, const struct ctx *ctx, struct scope *scope,
               const struct box_want *want, struct box_view *out, struct err *e) MUST_CHECK;
/* The active box without making one: ERR_NOT_FOUND when there is none. */
int boxes_active(struct boxes *bs, const struct ctx *ctx, struct scope *scope, struct box_view *out,
                 struct err *e) MUST_CHECK;

typedef int box_view_fn(void *arg, const struct box_view *view, struct box *box, struct err *e);
/* Every live box of the owner, asked now whether it lives; dead ones are ended and
 * what they left is swept. `box` is NULL where no handle could be had. */
int boxes_each(struct boxes *bs, const struct ctx *ctx, struct scope *scope, box_view_fn *each,
               void *arg, struct err *e) MUST_CHECK;
/* The same with how busy each is. */
int boxes_each_busy(struct boxes *bs, const struct ctx *ctx, struct scope *scope, box_view_fn *each,
                    void *arg, struct err *e) MUST_CHECK;
/* Only those that somebody made: no host is asked. */
int boxes_each_made(struct boxes *bs, const struct ctx *ctx, struct scope *scope, box_view_fn *each,
                    void *arg, struct err *e) MUST_CHECK;
typedef void box_name_fn(void *arg, struct str name);
/* The name of each, as far as they can be had; none is asked. */
void boxes_each_name(struct boxes *bs, const struct ctx *ctx, struct scope *scope,
                     box_name_fn *each, void *arg);

/* What kept outputs of a box are kept by: its id; of a host, which several owners use, an id
 * for each of them. In the arena. */
struct str boxes_output_id(const struct scope *scope, struct str id, struct arena *a);
/* Output of a command in this box is kept now. Where the box was ended before that, it goes. */
void boxes_output_kept(struct boxes *bs, const struct ctx *ctx, const struct scope *scope,
                       struct str id);
/* Is this box of the owner's, by its whole id, or by what boxes_output_id() makes of it? */
bool boxes_owns(struct boxes *bs, const struct ctx *ctx, struct scope *scope, struct str id);
/* The owners that have live boxes, in order, in ctx->arena: for the operator. */
int boxes_owners(struct boxes *bs, const struct ctx *ctx, const struct str **out, size_t *n,
                 struct err *e) MUST_CHECK;
/* How many boxes of all owners have not ended, as far as the database knows. */
int boxes_count(struct boxes *bs, int64_t *out, struct err *e) MUST_CHECK;

typedef int provider_fn(void *arg, struct provider *p, struct err *e);
/* Each configured provider, for `anybox doctor`. */
int boxes_each_provider(struct boxes *bs, provider_fn *each, void *arg, struct err *e) MUST_CHECK;

/* A name a person may give: 1 to 64 of letters, digits, '.', '_' and '-', not beginning
 * with '.' or '-'; not an id. ERR_INVALID says so. */
int boxes_check_name(struct str name, struct err *e) MUST_CHECK;

#endif
