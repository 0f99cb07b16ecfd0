/*
 * transfers.h - syncs in the background: a row each, shared by the servers that ask and the one
 * worker process that does it.
 *
 * A row is QUEUED by a server, claimed by its worker (RUNNING), and ended by it. Each change
 * names the state, and of a worker also the process, that it expects: who comes too late, or
 * was replaced meanwhile, changes nothing and is told so. Whether a process lives is not
 * known here.
 */
#ifndef STORE_TRANSFERS_H
#define STORE_TRANSFERS_H

#include "store/store.h"

enum transfer_state {
    TRANSFER_QUEUED,
    TRANSFER_RUNNING,
    TRANSFER_COMPLETED,
    TRANSFER_FAILED,
    TRANSFER_CANCELLED,
};

/* A process, for ever: pid and start time are its own only within one boot. */
struct transfer_proc {
    int64_t pid, start;
    struct str boot;
};

/* How far it is; at the end, what was done. Counters never go back. */
struct transfer_progress {
    struct str phase; /* "uploading" */
    struct str path;  /* under way */
    bool is_file;     /* one file, not a folder; known once both sides were looked at */
    int64_t dirs, files, files_total;
    int64_t unchanged; /* were the same already */
    int64_t bytes, bytes_total;
    int64_t deleted_files, deleted_dirs;
    int64_t failed;  /* files that could not be read or written for themselves alone */
    struct str note; /* "path: why" of the first of them, or another remark; may be empty */
    int64_t rate;    /* bytes a second, of late */
    int64_t used_ms; /* since the worker began */
};

struct transfer_row {
    int64_t id;
    struct str owner;
    bool down; /* remote_to_local */
    struct str box_id, box_name;
    struct str local, remote;
    struct str options; /* of the sync; packed by who knows them */
    enum transfer_state state;
    struct transfer_proc proc; /* of the worker; while QUEUED at first of who starts it */
    int64_t lease_ms;          /* on clock_mono_ms() of that boot: dead when it is over */
    struct transfer_progress progress;
    struct str error;
    struct str log_file;
    int64_t created_ms, started_ms, finished_ms, updated_ms; /* wall clock; 0: not yet */
};

/* Adds a QUEUED row, with the totals of its progress; its log_file is `log_dir`/transfer-<id>.log. *out gets its number. */
int store_add_transfer(struct store *s, const struct transfer_row *row, struct str log_dir,
                       int64_t *out, struct err *e) MUST_CHECK;
/* ERR_NOT_FOUND. */
int store_get_transfer(struct store *s, struct arena *a, struct str owner, int64_t id,
                       struct transfer_row *out, struct err *e) MUST_CHECK;
/* For a worker, which knows the number only. */
int store_any_transfer(struct store *s, struct arena *a, int64_t id, struct transfer_row *out,
                       struct err *e) MUST_CHECK;
typedef int transfer_row_fn(void *arg, const struct transfer_row *row, struct err *e);
/* The newest first, at most `max`. The database is not locked while `each` runs. */
int store_each_transfer(struct store *s, struct arena *a, struct str owner, int max,
                        transfer_row_fn *each, void *arg, struct err *e) MUST_CHECK;

/* How many of all owners are QUEUED or RUNNING with a lease that is not over: `now_ms` on
 * clock_mono_ms() of this boot. */
int store_count_transfers(struct store *s, struct str boot, int64_t now_ms, int64_t *out,
                          struct err *e) MUST_CHECK;

/* Changes: 1, or 0 when the row was not as expected (or is not there). */

/* A server has started this worker for a row that is still QUEUED. */
int store_transfer_spawned(struct store *s, int64_t id, const struct transfer_proc *worker,
                           int64_t lease_ms, struct err *e) MUST_CHECK;
/* The worker takes a QUEUED row. */
int store_claim_transfer(struct store *s, int64_t id, const struct transfer_proc *worker,
                         int64_t lease_ms, struct err *e) MUST_CHECK;
/* Of the worker that holds the row while it is RUNNING. */
int store_transfer_progress(struct store *s, int64_t id, const struct transfer_proc *worker,
                            const struct transfer_progress *progress, int64_t lease_ms,
                            struct err *e) MUST_CHECK;
/* The worker's last word. A row that was cancelled meanwhile stays so and gets the counters. */
int store_end_transfer(struct store *s, int64_t id, const struct transfer_proc *worker,
                       enum transfer_state state, const struct transfer_progress *progress,
                       struct str error, struct err *e) MUST_CHECK;
/* A QUEUED row whose worker could not be started. */
int store_fail_transfer(struct store *s, int64_t id, struct str error, struct err *e) MUST_CHECK;
/* A row that is QUEUED or RUNNING. */
int store_cancel_transfer(struct store *s, struct str owner, int64_t id, struct err *e) MUST_CHECK;
/* Back to QUEUED, for another worker: a row that is just as `seen`. */
int store_requeue_transfer(struct store *s, const struct transfer_row *seen,
                           const struct transfer_proc *starter, int64_t lease_ms, struct err *e)
    MUST_CHECK;

/* Removes rows that nobody wrote to since `before_ms`, and all but the newest `keep` of those that
 * are finished. Each log file that is left over is told. */
typedef void transfer_gone_fn(void *arg, struct str log_file);
int store_prune_transfers(struct store *s, struct arena *a, int64_t before_ms, int64_t keep,
                          transfer_gone_fn *gone, void *arg, struct err *e) MUST_CHECK;

#endif
