/*
 * order.h - what a caller asks of a watch, checked and put together.
 *
 * A resume plan is a JSON object of the caller's. What the arguments name stands above what the
 * plan has, and is written into it, so that who reads the plan later has the whole.
 * Wrong arguments are errors here, before anything is started: a watch is never dropped in silence.
 */
#ifndef WATCH_ORDER_H
#define WATCH_ORDER_H

#include "base/arena.h"
#include "base/err.h"
#include "store/watches.h"

#define WATCH_TEXT_MAX (64u << 10) /* bytes of any one text */

/* As the tool was called; an empty text was not given. */
struct watch_ask {
    struct str run_id, name, session, log_file, cwd;
    struct str launch_command, resume_command;
    struct str resume_plan_json, metadata_json;
    struct str checkpoint_path, checkpoint_format, checkpoint_command;
    struct str webhook_url, event_command, codex_command;
    int64_t interval_s, max_log_lines;
    int64_t alert_after_failures, resume_delay_s, max_resume_attempts;
    bool auto_resume, notify_local, codex_wakeup;
};

/* Fills in all but owner and box. ERR_INVALID names the argument and what is accepted. */
int watch_order_make(struct arena *a, const struct watch_ask *ask, struct watch_order *out,
                     struct err *e) MUST_CHECK;

/* What starts the task again; empty: nothing does. */
struct str watch_resume_command(const struct watch_order *order, struct arena *a);

#endif
