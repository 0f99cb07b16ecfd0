/*
 * watch_answer.h - what the tools about watches share: their arguments, making a watch, and
 * how one looks in an answer (remote-sandbox-mcp's field names).
 */
#ifndef TOOLS_WATCH_ANSWER_H
#define TOOLS_WATCH_ANSWER_H

#include "store/watches.h"
#include "tools/answer.h"
#include "watch/order.h"

/* What a caller can want of a watch. */
struct watch_args {
    struct str run_id, name, launch_command;
    struct str resume_command, resume_plan_json, metadata_json;
    struct str checkpoint_path, checkpoint_format, checkpoint_command;
    struct str webhook_url, event_command, codex_command;
    int64_t interval_s, max_log_lines;
    int64_t alert_after_failures, resume_delay_s, max_resume_attempts;
    bool auto_resume, notify_local, codex_wakeup;
    bool ensure_watchdog, persist;
};

#define WATCH_TEXT(args, field, given, text)                                                       \
    {                                                                                              \
        .name = (given), .type = PARAM_STRING, .offset = offsetof(args, watch_args.field),         \
        .max = WATCH_TEXT_MAX, .hidden = WATCH_HIDDEN, .help = (text),                             \
    }
#define WATCH_NUMBER(args, field, least, given, text)                                              \
    {                                                                                              \
        .name = #field, .type = PARAM_INTEGER, .offset = offsetof(args, watch_args.field),         \
        .min = (least), .max = (int64_t)366 * 24 * 3600, .fallback = (given),                      \
        .hidden = WATCH_HIDDEN, .help = (text),                                                    \
    }
#define WATCH_SWITCH(args, field, word, given, text)                                               \
    {                                                                                              \
        .name = (word), .type = PARAM_BOOLEAN, .offset = offsetof(args, watch_args.field),         \
        .fallback = (given), .hidden = WATCH_HIDDEN, .help = (text),                               \
    }

/* All but name and launch_command, which differ. WATCH_HIDDEN is defined by who uses it. */
#define PARAM_WATCH(args)                                                                          \
    WATCH_TEXT(args, run_id, "run_id", "your name for the run"),                                   \
        WATCH_TEXT(args, resume_command, "resume_command", "goes on from the checkpoint"),         \
        WATCH_TEXT(args, resume_plan_json, "resume_plan_json", "a JSON object, kept with events"), \
        WATCH_TEXT(args, checkpoint_path, "checkpoint_path", "file that tells how far it is"),     \
        WATCH_TEXT(args, checkpoint_format, "checkpoint_format", "text or json"),                  \
        WATCH_TEXT(args, checkpoint_command, "checkpoint_command", "instead of checkpoint_path"),  \
        WATCH_NUMBER(args, interval_s, 1, 300, "seconds between looks"),                           \
        WATCH_NUMBER(args, max_log_lines, 1, 80, "of the log in an event"),                        \
        WATCH_TEXT(args, webhook_url, "webhook_url", "gets each event, signed"),                   \
        WATCH_TEXT(args, event_command, "event_command", "run here for each event"),               \
        WATCH_SWITCH(args, auto_resume, "auto_resume", false, "start it again when interrupted"),  \
        WATCH_NUMBER(args, max_resume_attempts, 0, 1, "how often"),                                \
        WATCH_TEXT(args, metadata_json, "metadata_json", "a JSON object of yours"),                \
        WATCH_SWITCH(args, ensure_watchdog, "ensure_watchdog", true, "start the watchdog"),        \
        WATCH_SWITCH(args, notify_local, "notify_local", true, "notify on this desktop"),          \
        WATCH_NUMBER(args, alert_after_failures, 1, 2, "looks that fail before an event"),         \
        WATCH_NUMBER(args, resume_delay_s, 0, 300, "seconds before it is started again"),          \
        WATCH_SWITCH(args, codex_wakeup, "codex_wakeup", false, "wake codex by event_command"),    \
        WATCH_TEXT(args, codex_command, "codex_command", "its program"),                           \
        WATCH_SWITCH(args, persist, "persist_current_sandboxes", true,                             \
                     "keep a host of the environment for the watchdog")

/* Checks all of it before anything is started. The task's own values may still be missing. */
int watch_check(struct call *c, const struct watch_args *args, struct str session, struct str cwd,
                struct watch_order *out, struct err *e) MUST_CHECK;
/* Can the watchdog reach this box? It keeps a host for it where that is needed and allowed. */
int watch_reachable(struct call *c, struct str box_id, bool persist, struct err *e) MUST_CHECK;
/* The watches of a remote-sandbox-mcp on this machine go on here: once, for who sits at it. */
void watch_take_over(struct call *c);
/* Makes the watch, sees to a watchdog, and adds watch_id to the answer (and watchdog_setup, or
 * a warning). */
int watch_add(struct call *c, const struct watch_args *args, struct watch_order *order,
              struct str task_run, json_t *out, struct err *e) MUST_CHECK;

struct watch_id_args {
    int64_t id;
};
#define PARAM_WATCH_ID(args, member)                                                               \
    {                                                                                              \
        .name = "watch_id", .type = PARAM_INTEGER, .offset = offsetof(args, member), .min = 1,     \
        .max = INT64_MAX, .required = true, .help = "of the watch",                                \
    }
int watch_get(struct call *c, int64_t id, struct watch_row *out, struct err *e) MUST_CHECK;
json_t *watch_answer(const struct watch_row *w);
/* {raw, format, parsed} */
json_t *watch_checkpoint(const struct watch_row *w, struct str text);
/* get_watchdog_status's answer; it is part of others. */
json_t *watchdog_answer(struct call *c, struct err *e);

#endif
