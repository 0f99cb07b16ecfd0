/*
 * watches.h - the watchdog's interest in tasks, what happened to them, and who is still to be
 * told.
 *
 * A watch has what was asked for, which never changes, and what is remembered from look to
 * look. Who looked stores what follows from it in one transaction: the memory, the events and
 * the deliveries that each event owes. Each such change names the revision of the row that it
 * was made from: of two who looked at the same time one is told 0 and drops what it found.
 * An event's number is its name for ever; a delivery is tried until it is done or given up.
 */
#ifndef STORE_WATCHES_H
#define STORE_WATCHES_H

#include "store/store.h"

/* Of the watch. The first three are remote-sandbox-mcp's. */
enum watch_status {
    WATCH_ACTIVE,
    WATCH_COMPLETED, /* the task ended by itself, with whatever exit code */
    WATCH_CANCELLED, /* somebody cancelled the watch */
    WATCH_STOPPED,   /* somebody cancelled the task */
    WATCH_EXHAUSTED, /* interrupted, and every attempt to resume it is used up */
    WATCH_GONE,      /* its sandbox has ended */
    WATCH_REPLACED,  /* a later run has the name */
    WATCH_STATUSES,
};

/* Of the task, as it was found last. */
enum watch_state {
    STATE_NEW, /* not looked yet */
    STATE_RUNNING,
    STATE_INTERRUPTED,
    STATE_UNREACHABLE,
    STATE_NO_CONFIG, /* no such sandbox is configured here */
    STATE_COMPLETED,
    STATE_STOPPED,
    STATE_GONE,
    STATE_REPLACED,
    STATE_STATES,
};

/* What was asked for. */
struct watch_order {
    struct str owner;
    struct str box_id, box_name;
    struct str run_id, name;           /* the caller's own words for the run and the watch */
    struct str session, log_file, cwd; /* of the task */
    struct str launch_command, resume_command;
    struct str resume_plan, metadata; /* JSON texts, "{}" at least */
    struct str checkpoint_path, checkpoint_format, checkpoint_command;
    struct str webhook_url, event_command;
    int64_t interval_s, max_log_lines;
    int64_t alert_after_failures, resume_delay_s, max_resume_attempts;
    bool auto_resume, notify_local;
};

/* What is remembered from look to look. Times are unix seconds, 0: none. */
struct watch_memory {
    enum watch_status status;
    enum watch_state state;
    bool has_exit_code;
    int64_t exit_code;
    int64_t failures; /* looks in a row that did not reach the sandbox */
    bool alert_sent;  /* of those */
    int64_t interrupted_s, resume_due_s;
    int64_t resume_attempts;
    int64_t resume_failures; /* in a row: starts of which it is certain that nothing ran */
    bool resume_uncertain;   /* an attempt was stored, and nobody knows what came of it */
    int64_t last_checked_s, next_check_s;
};

/* The words that go with it. */
struct watch_words {
    struct str task_run; /* the run of the task that is watched, as task.h has it; empty: any */
    struct str next_run; /* that an attempt to resume it has or would have; empty: none */
    struct str summary, error;
    struct str log_tail, checkpoint_text;
};

struct watch_row {
    int64_t id;
    int64_t revision;
    struct watch_order order;
    struct watch_memory memory;
    struct watch_words words;
    int64_t created_s, updated_s, last_event_s, checkpoint_s;
};

enum delivery_kind {
    DELIVERY_FILE,
    DELIVERY_NOTIFY,
    DELIVERY_WEBHOOK,
    DELIVERY_COMMAND,
    DELIVERY_KINDS,
};

struct watch_event_row {
    int64_t id, watch_id;
    struct str type, summary;
    struct str payload; /* JSON */
    int64_t created_s;
};

struct new_event {
    struct str type, summary, payload;
    bool owes[DELIVERY_KINDS];
    int64_t id; /* out */
};

struct delivery_row {
    int64_t id;
    enum delivery_kind kind;
    int64_t tries; /* made so far */
    struct watch_event_row event;
    struct str url, command; /* of its watch */
};

#define STORE_PAGE        16 /* rows that are in memory at a time */
#define STORE_PAGE_MEMORY ((size_t)256 << 20)

typedef int watch_row_fn(void *arg, const struct watch_row *row, struct err *e);
typedef int watch_event_fn(void *arg, const struct watch_event_row *row, struct err *e);

/* An active watch that is due at once. *out gets its number. */
int store_add_watch(struct store *s, const struct watch_order *order, struct str task_run,
                    int64_t *out, struct err *e) MUST_CHECK;
/* ERR_NOT_FOUND. Without an owner (NULL): whoever it belongs to. */
int store_get_watch(struct store *s, struct arena *a, const struct str *owner, int64_t id,
                    struct watch_row *out, struct err *e) MUST_CHECK;
/* The newest first, at most max; status -1: all. Not locked while `each` runs, and a row is gone
 * when that returns. */
int store_each_watch(struct store *s, const struct str *owner, int status, int max,
                     watch_row_fn *each, void *arg, struct err *e) MUST_CHECK;
/* Active ones whose time has come, the longest overdue first; else as store_each_watch(). */
int store_due_watches(struct store *s, int64_t now_s, int max, watch_row_fn *each, void *arg,
                      struct err *e) MUST_CHECK;
int store_count_watches(struct store *s, const struct str *owner, int64_t counts[WATCH_STATUSES],
                        struct err *e) MUST_CHECK;

/* Stores a look. 1; 0 when the row is no longer as `seen`, and then nothing was stored. */
int store_step_watch(struct store *s, const struct watch_row *seen,
                     const struct watch_memory *memory, const struct watch_words *words,
                     struct new_event *events, size_t n, struct err *e) MUST_CHECK;
/* 1; 0 when it was over already. */
int store_cancel_watch(struct store *s, struct str owner, int64_t id, struct err *e) MUST_CHECK;

/* The newest first; watch_id 0: of all of the owner's watches. As store_each_watch(). */
int store_each_event(struct store *s, const struct str *owner, int64_t watch_id, int max,
                     watch_event_fn *each, void *arg, struct err *e) MUST_CHECK;

/* Deliveries whose time has come, in the order of events; at most max, and fewer where they are
 * long: then the rest is due still. A time that is further
 * off than DELIVERY_FAR_S was set by a clock that has been set back: it has come, too. */
#define DELIVERY_FAR_S ((int64_t)24 * 3600)
typedef int delivery_fn(void *arg, const struct delivery_row *row, struct err *e);
int store_due_deliveries(struct store *s, struct arena *a, int64_t now_s, int max,
                         delivery_fn *each, void *arg, struct err *e) MUST_CHECK;
int store_delivered(struct store *s, int64_t id, struct err *e) MUST_CHECK;
/* It failed; next_s 0: given up, the reason is kept. */
int store_not_delivered(struct store *s, int64_t id, int64_t next_s, struct str why, struct err *e)
    MUST_CHECK;

/* When the next watch or delivery is due; 0: there is none. */
int store_next_due(struct store *s, int64_t *out_s, struct err *e) MUST_CHECK;

/* The watchdog's own facts: a text by a name. Missing: empty, and *set_s 0. */
int store_set_watchdog(struct store *s, struct str key, struct str value, struct err *e) MUST_CHECK;
int store_get_watchdog(struct store *s, struct arena *a, struct str key, struct str *value,
                       int64_t *set_s, struct err *e) MUST_CHECK;

/* Removes watches that were over before `before_s`, events older than that, and all but the
 * newest `keep` events; each event that is gone is told by its number, for its file. Some
 * thousand events at most: 1 when there may be more. */
typedef void event_gone_fn(void *arg, int64_t id);
int store_prune_watches(struct store *s, int64_t before_s, int64_t keep, event_gone_fn *gone,
                        void *arg, struct err *e) MUST_CHECK;

#endif
