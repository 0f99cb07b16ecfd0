/*
 * boxes_own.h - what the files behind boxes.h share: boxes.c (lifetime, handles), fixed.c
 * (SSH hosts), scope.c (selections), names.c, find.c (which box), create.c, manage.c (delete,
 * select), look.c (list). Nobody else but their tests includes it.
 */
#ifndef CORE_BOXES_OWN_H
#define CORE_BOXES_OWN_H

#include "core/boxes.h"
#include "core/cache.h"

#define DEFAULT_NAME_SIZE 48
#define NAME_SHOWN        80 /* bytes of a name that we did not make, in a sentence */

struct boxes {
    const struct config *config;
    struct store *store;
    struct provider **providers;
    size_t n_providers;
    char *problem; /* why there is no provider, or NULL */
    struct cache cache;
    pthread_mutex_t lock;
    int64_t swept_ms; /* on clock_mono_ms(), 0: never; guarded by lock */
    bool has_left;    /* a box ended by itself: its remains are still there; guarded by lock */
    box_end_fn *on_end;
    void *on_end_arg;
};

/* Takes over the providers, which it closes. */
struct boxes *boxes_new_with(const struct config *config, struct store *store,
                             struct provider *const *providers, size_t n, const char *problem);

/* ---- boxes.c ------------------------------------------------------------------ */

/* By its configured name, empty: the default. ERR_INVALID lists what there is. */
struct provider *boxes_provider(struct boxes *bs, struct str name, struct err *e) MUST_CHECK;
/* A handle for the row's box, from the cache or attached. Waits for a box that is being
 * made. ERR_GONE when it has ended; the row then says so too. *row is brought up to date. */
struct box *boxes_attach(struct boxes *bs, const struct ctx *ctx, struct box_row *row,
                         struct err *e) MUST_CHECK;
/* attach, and ask it: fills in out->info, alive and problem. -1 with ERR_GONE when it has
 * ended, ERR_NOT_FOUND when it was never finished. *box gets a reference, or NULL where none could be had. */
int boxes_look(struct boxes *bs, const struct ctx *ctx, const struct box_row *row,
               struct box_view *out, struct box **box, struct err *e) MUST_CHECK;
/* Ends the row and forgets the handle. */
void boxes_end(struct boxes *bs, struct str id, struct str why);
/* The process that began to make this box is dead: remove what it left, and the row. */
void boxes_abandon(struct boxes *bs, const struct ctx *ctx, const struct box_row *row);
bool boxes_starter_is_dead(const struct box_row *row);
/* Sweeps what dead boxes left and prunes old rows: at most once a minute, and at once
 * when this process saw a box end by itself. */
void boxes_sweep(struct boxes *bs, const struct ctx *ctx);
/* Only the latter, for the paths that must cost nothing otherwise. */
void boxes_sweep_left(struct boxes *bs, const struct ctx *ctx);

/* ---- fixed.c: boxes that a provider's configuration names, which are in no database ------- */

struct fixed {
    struct box_row row;
    struct box_info info; /* as configured: nobody was asked */
};
typedef int fixed_fn(void *arg, const struct box_row *row, const struct box_info *info,
                     struct err *e);
bool fixed_is_id(struct str id); /* "provider:ref" */
bool fixed_any(const struct boxes *bs);
/* In the configured order. */
int fixed_each(struct boxes *bs, const struct ctx *ctx, struct scope *scope, fixed_fn *each,
               void *arg, struct err *e) MUST_CHECK;
/* By its id or name; an empty word: the first one. */
bool fixed_find(struct boxes *bs, const struct ctx *ctx, struct scope *scope, struct str word,
                struct fixed *out);
/* The row of an id, in the configuration or the database. ERR_NOT_FOUND. */
int boxes_row(struct boxes *bs, const struct ctx *ctx, struct scope *scope, struct str id,
              struct box_row *out, struct err *e) MUST_CHECK;

/* ---- scopes ------------------------------------------------------------------- */

/* The selected id, in the arena; empty: none. Asks the database once. */
int scope_selected(struct boxes *bs, const struct ctx *ctx, struct scope *scope, struct str *out,
                   struct err *e) MUST_CHECK;
/* Empty: none. Remembered for the next process too, as well as that goes. */
void scope_select(struct boxes *bs, struct scope *scope, struct str id);
/* No longer the selected one, nor the one that is used for want of a selection. */
void scope_forget(struct boxes *bs, struct scope *scope, struct str id);
struct str scope_implied(const struct ctx *ctx, struct scope *scope);
void scope_imply(struct scope *scope, struct str id);

/* ---- names.c ------------------------------------------------------------------ */

/* "default-<folder>-<hash>" of a scope's folder. */
struct str name_default(struct str folder, char to[DEFAULT_NAME_SIZE]);
bool name_is_default(struct str name); /* of any folder */
/* "a, b and 3 more" in the arena; empty: there is none. */
struct str name_list(struct boxes *bs, const struct ctx *ctx, struct scope *scope);
/* ERR_GONE with the sentence for a row that has ended. */
int name_fail_ended(const struct box_row *row, struct err *e);
/* ERR_NOT_FOUND with the sentence for a word that means no box, and for no word at all. */
int name_fail_unknown(struct boxes *bs, const struct ctx *ctx, struct scope *scope, struct str word,
                      struct err *e);
int name_fail_none(struct boxes *bs, const struct ctx *ctx, struct scope *scope, struct err *e);

/* ---- find.c ------------------------------------------------------------------- */

/* The row that is meant. Makes nothing. ERR_NOT_FOUND with the sentence. The row may be an
 * ended one when it was named. */
int find_row(struct boxes *bs, const struct ctx *ctx, struct scope *scope,
             const struct box_want *want, struct box_row *out, struct err *e) MUST_CHECK;

/* ---- create.c ----------------------------------------------------------------- */

/* A new id and the rest of a STARTING row for it. */
void create_row(const struct ctx *ctx, struct scope *scope, struct str name, struct box_row *out);
/* Puts the row into the database; the name is ours then. ERR_EXISTS when it is taken,
 * ERR_LIMIT when there are too many boxes. */
int create_claim(struct boxes *bs, const struct ctx *ctx, struct scope *scope,
                 const struct box_spec *spec, struct box_row *row, struct err *e) MUST_CHECK;
/* Makes the box of a claimed row; a failure takes the row back. NULL is the failure. */
struct box *create_start(struct boxes *bs, const struct ctx *ctx, const struct box_spec *spec,
                         struct box_row *row, struct err *e) MUST_CHECK;

#endif
