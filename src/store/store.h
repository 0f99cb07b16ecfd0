/*
 * store.h - the one database: SQLite in WAL mode, shared by every running anybox.
 *
 * Opened lazily, by the first operation that needs it. Migrations are additive,
 * under BEGIN IMMEDIATE with a second look at the version; `min_reader` lets older
 * running instances go on. One connection per process behind a lock, short
 * transactions, busy_timeout; no SQL outside this folder. A network file system is
 * refused with the variable to set. Strings in results live in the given arena.
 */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

struct store;

/* Remembers the folder (0700, made when first needed); opens nothing. */
struct store *store_new(struct str state_dir);
void store_free(struct store *s);

/* The SQLite that is linked: "3.40.1". */
const char *store_library(void);

/* ---- boxes: what we know about a box beyond what its provider does ---------- */

#define STORE_ID_LEN       32
#define STORE_SHORT_ID_LEN 12 /* its first digits, where they are unique */

enum row_state {
    ROW_STARTING, /* inserted first, so that two first calls make one box */
    ROW_LIVE,
    ROW_ENDED, /* kept for a day, so that an error can say why; frees the name */
};

struct box_row {
    struct str id;       /* 32 hex digits: the sandbox_id */
    struct str owner;    /* "" for the user, "key:<name>" for who has that HTTP key */
    struct str name;     /* unique among the owner's rows that are not ended */
    struct str provider; /* the configured name, "local" */
    struct str ref;      /* for provider_attach() */
    struct str image;
    enum row_state state;
    struct str ended;                      /* why, as a phrase */
    int64_t created_ms, ended_ms, used_ms; /* wall clock */
    int64_t expires_ms;                    /* 0: no hard end */
    int64_t starter_pid, starter_start;    /* of the process that inserted a STARTING row */
};

typedef int box_row_fn(void *arg, const struct box_row *row, struct err *e);

/* ERR_EXISTS when the name is taken by a row that is not ended. max_boxes > 0: ERR_LIMIT
 * when so many rows of all owners are not ended (checked in the same transaction). */
int store_add_box(struct store *s, const struct box_row *row, int64_t max_boxes, struct err *e)
    MUST_CHECK;
int store_box_live(struct store *s, struct str id, struct str ref, int64_t expires_ms,
                   struct err *e) MUST_CHECK;
int store_box_ended(struct store *s, struct str id, struct str why, struct err *e) MUST_CHECK;
int store_box_used(struct store *s, struct str id, struct err *e) MUST_CHECK;
int store_drop_box(struct store *s, struct str id, struct err *e) MUST_CHECK;
/* ERR_NOT_FOUND. An id is all 32 digits or exactly its first 12 (ERR_INVALID when several
 * begin so). Ended rows are found by id, and by name where no other has it. */
int store_box_by_id(struct store *s, struct arena *a, struct str owner, struct str id,
                    struct box_row *out, struct err *e) MUST_CHECK;
int store_box_by_name(struct store *s, struct arena *a, struct str owner, struct str name,
                      struct box_row *out, struct err *e) MUST_CHECK;
int store_box_by_ref(struct store *s, struct arena *a, struct str owner, struct str provider,
                     struct str ref, struct box_row *out, struct err *e) MUST_CHECK;
int store_count_boxes(struct store *s, struct str owner, int64_t *out, struct err *e)
    MUST_CHECK; /* that are not ended */
int store_count_all_boxes(struct store *s, int64_t *out, struct err *e) MUST_CHECK; /* of all */
/* In order of creation, in pages: the database is not locked while `each` runs, which may
 * end the loop by failing. */
int store_each_box(struct store *s, struct arena *a, struct str owner, bool with_ended,
                   box_row_fn *each, void *arg, struct err *e) MUST_CHECK;
/* Who has boxes that are not ended, in order, in the arena. */
int store_owners(struct store *s, struct arena *a, const struct str **out, size_t *n, struct err *e)
    MUST_CHECK;
int store_prune(struct store *s, int64_t ended_before_ms, struct err *e) MUST_CHECK;

/* ---- tasks: what we know of jobs; the truth is in their boxes (core/task.h) ----- */

struct task_row {
    struct str id;       /* the run's */
    struct str owner;    /* as of boxes */
    struct str box_id;   /* the sandbox_id, or "provider:ref" */
    struct str name;     /* of the session */
    struct str log, dir; /* in the box; empty until it has started */
    struct str command;  /* its head */
    struct str state;    /* what was last seen of it */
    int64_t exit_code;   /* -1: not known */
    int64_t signal;
    int64_t created_ms, ended_ms; /* wall clock; 0: it goes on, as far as we know */
};

typedef int task_row_fn(void *arg, const struct task_row *row, struct err *e);

int store_add_task(struct store *s, const struct task_row *row, struct err *e) MUST_CHECK;
/* It has started: where its files are. */
int store_task_begun(struct store *s, struct str id, struct str log, struct str dir, struct err *e)
    MUST_CHECK;
/* .state, .exit_code, .signal and .ended_ms of that id. An end that is known stays. */
int store_task_seen(struct store *s, const struct task_row *row, struct err *e) MUST_CHECK;
int store_drop_task(struct store *s, struct str id, struct err *e) MUST_CHECK;
/* ERR_NOT_FOUND. */
int store_task_by_id(struct store *s, struct arena *a, struct str owner, struct str id,
                     struct task_row *out, struct err *e) MUST_CHECK;
/* The latest that has this name and log; an empty one, and an empty box_id, means any. */
int store_task_by_name(struct store *s, struct arena *a, struct str owner, struct str box_id,
                       struct str name, struct str log, struct task_row *out, struct err *e)
    MUST_CHECK;
/* The latest ones first, at most max; an empty box_id means any. As store_each_box(). */
int store_each_task(struct store *s, struct arena *a, struct str owner, struct str box_id,
                    int64_t max, task_row_fn *each, void *arg, struct err *e) MUST_CHECK;
/* Forgets tasks that were started before, whatever became of them. */
int store_prune_tasks(struct store *s, int64_t created_before_ms, struct err *e) MUST_CHECK;

/* ---- selections: seeds the next process of the same user and folder ---------- */

int store_set_selected(struct store *s, struct str owner, struct str folder, struct str box_id,
                       struct err *e) MUST_CHECK; /* empty box_id: none */
int store_get_selected(struct store *s, struct arena *a, struct str owner, struct str folder,
                       struct str *box_id, struct err *e) MUST_CHECK; /* empty: none */

#endif
