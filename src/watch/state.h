/*
 * state.h - what the watchdog thinks of one task, as a pure function.
 *
 * A watch is asked about now and then; watch_step() is given what was found and says what the
 * watch is from then on, which events happened, when to look again and whether the task
 * is to be started again. It touches nothing and knows no clock but `now`. The order of
 * things for the daemon: look, watch_step(), store the watch and its events in one transaction,
 * and only then start the task again where that is wanted; watch_resumed() takes in what came
 * of it. So a daemon that dies at any point has told no event that is not stored, and has
 * started nothing that the next one would not find on the host.
 *
 * A task is started again only when this very look saw it interrupted, its time has come, and
 * the attempt could be stored before (attempts are counted first: a daemon that dies in between
 * has used one up rather than run a job twice).
 */
#ifndef WATCH_STATE_H
#define WATCH_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/watches.h"

const char *watch_status_name(enum watch_status s);
bool watch_status_parse(const char *name, enum watch_status *out);
static inline bool watch_is_over(enum watch_status s)
{
    return s != WATCH_ACTIVE;
}

const char *watch_state_name(enum watch_state s);
bool watch_state_parse(const char *name, enum watch_state *out);

/* The first seven are remote-sandbox-mcp's, with its names. */
enum watch_event {
    EVENT_UNREACHABLE, /* "ssh_unreachable" */
    EVENT_NO_CONFIG,   /* "config_missing" */
    EVENT_RESTORED,    /* "running_restored" */
    EVENT_COMPLETED,
    EVENT_INTERRUPTED,
    EVENT_RESUME_STARTED,
    EVENT_RESUME_FAILED,
    EVENT_EXHAUSTED, /* "resume_exhausted" */
    EVENT_STOPPED,   /* "task_cancelled" */
    EVENT_GONE,      /* "sandbox_gone" */
    EVENT_REPLACED,  /* "task_replaced" */
    EVENT_TYPES,
};
const char *watch_event_name(enum watch_event t);

/* What was asked for; never changes. */
struct watch_rules {
    int64_t interval_s;           /* > 0 */
    int64_t alert_after_failures; /* >= 1 */
    int64_t resume_delay_s;       /* >= 0 */
    int64_t max_resume_attempts;  /* >= 0 */
    bool auto_resume;
    bool has_resume_command;
};

/* What a look found. */
enum watch_found {
    FOUND_UNREACHABLE,
    FOUND_NO_CONFIG,
    FOUND_GONE,
    FOUND_RUNNING,
    FOUND_ENDED, /* with an exit code */
    FOUND_INTERRUPTED,
    FOUND_STOPPED,
    FOUND_REPLACED,
};

struct watch_look {
    enum watch_found found;
    bool has_exit_code; /* FOUND_ENDED; false: it ended and nobody knows how */
    int64_t exit_code;
    /* The run that was found is not the one that was seen interrupted: it was resumed. */
    bool is_new_run;
    /* Somebody else takes care of resuming: another watchdog whose heartbeat is fresh. */
    bool is_others;
};

#define STEP_EVENTS         3
#define RESUME_FAILURES_MAX 5 /* in a row; they use up no attempt, but not for ever */

struct watch_step {
    struct watch_memory memory; /* to be stored */
    enum watch_event events[STEP_EVENTS];
    size_t n_events;
    /* Start the task again once memory is stored (the attempt is counted in it), then
     * watch_resumed(). */
    bool resume;
};

/* Time to look: also when the clock was set back behind the last look. */
bool watch_is_due(const struct watch_memory *m, int64_t now_s);

void watch_step(const struct watch_rules *rules, const struct watch_memory *was,
                const struct watch_look *look, int64_t now_s, struct watch_step *out);

enum watch_resume {
    RESUME_STARTED,
    RESUME_FAILED,    /* it certainly does not run */
    RESUME_UNCERTAIN, /* the connection broke: the next look will tell */
    RESUME_NOT_NEEDED /* on the host it was found running, ended or claimed by another */
};

/* After a step that wanted a resume; out->resume is false. */
void watch_resumed(const struct watch_rules *rules, const struct watch_memory *was,
                   enum watch_resume outcome, int64_t now_s, struct watch_step *out);

#endif
