/* transfer_own.h - what the files of transfers share (and their tests). */
#ifndef CORE_TRANSFER_OWN_H
#define CORE_TRANSFER_OWN_H

#include "core/transfer.h"

#define TRANSFER_LEASE_MS 60000 /* a worker renews it every few seconds */
#define TRANSFERS_AT_ONCE 32    /* of all owners */

/* This process. `boot` in the arena. */
struct transfer_proc transfer_self(struct arena *a);
/* Nothing of it runs any more. */
bool transfer_is_dead(const struct transfer_proc *proc, struct str boot);
/* QUEUED or RUNNING, and nobody works on it. */
bool transfer_is_stale(const struct transfer_row *row, struct arena *a);
/* Back to QUEUED, held by `self`; refuses one that is under way or complete. */
int transfer_requeue(const struct services *s, struct arena *a, const struct transfer_row *row,
                     const struct transfer_proc *self, struct err *e) MUST_CHECK;

/* transfer_job.c: the options of a job as text, and the job of a row (views into the row, lists in
 * the arena). ERR_LIMIT when they are too many. */
int transfer_pack_job(const struct sync_job *job, struct arena *a, struct str *out, struct err *e)
    MUST_CHECK;
int transfer_unpack_job(const struct transfer_row *row, struct arena *a, struct sync_job *out,
                        struct err *e) MUST_CHECK;

/* transfer_spawn.c: starts `program` as the worker of this row, which is QUEUED by us. *pid is for the
 * caller to wait for, also after a failure when it is not 0: then half of a configuration is what
 * ends the worker. */
int transfer_spawn(const struct services *s, const struct ctx *ctx, const char *program,
                   const struct transfer_row *row, int log_fd, pid_t *pid, struct err *e)
    MUST_CHECK;
/* The log file, 0600, below the state folder: a new one with its head, or the old one to go on
 * with. Its descriptor. */
int transfer_open_log(const struct config *config, const struct transfer_row *row, bool again,
                      struct err *e) MUST_CHECK;

/* What the worker's threads share: transfer_report.c. */
struct report;
struct report *report_start(const struct services *s, const struct transfer_proc *self, int64_t id,
                            struct cancel *cancel, struct err *e);
/* From now on the box is asked for something now and then, so that it is not idle. */
void report_box(struct report *r, struct box *box);
void report_phase(struct report *r, const char *phase);
void report_plan(struct report *r, const struct sync_counts *counts, bool is_file);
void report_now(struct report *r, const struct sync_progress *now);
void report_result(struct report *r, const struct sync_result *result);
void report_note(struct report *r, struct str note);
/* Ends the thread; what was reported last, in the arena. Frees. */
struct transfer_progress report_stop(struct report *r, struct arena *a);

/* One line of the log, which is the worker's stdout: "[transfer] ...". */
void transfer_say(const char *fmt, ...) PRINTF_LIKE(1, 2);

#endif
