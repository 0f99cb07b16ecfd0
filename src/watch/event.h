/*
 * event.h - what is said about something that happened to a watched task.
 *
 * The payload has remote-sandbox-mcp's fields. A log and a checkpoint come from a machine that
 * we do not trust, and an event may be put before a model: they are made harmless (base/plain.h),
 * bounded, and in the suggested prompt fenced by a marker that they cannot know, behind a
 * sentence that says what they are.
 */
#ifndef WATCH_EVENT_H
#define WATCH_EVENT_H

#include "base/arena.h"
#include "json/js.h"
#include "watch/state.h"

#define EVENT_TAIL_MAX (16u << 10) /* bytes of a log or a checkpoint in an event */

/* What a kind of event adds. */
struct event_extra {
    bool has_exit_code;
    int64_t exit_code;
    int64_t resume_attempt; /* 0: not about one */
    struct str out, err;    /* of a start that failed */
};

/* One line for people: "train-001 on gpu1 was interrupted". */
struct str event_summary(struct arena *a, const struct watch_row *watch, enum watch_event type,
                         const struct event_extra *extra);
/* The payload as JSON text, from the watch as it is after the step. */
struct str event_payload(struct arena *a, const struct watch_row *watch, enum watch_event type,
                         struct str summary, const struct event_extra *extra);
/* {id, watch_id, event_type, summary, created_ts, payload}: what files and webhooks carry. */
json_t *event_record(const struct watch_event_row *row);
/* The text that is suggested to an agent which is woken. */
struct str event_prompt(struct arena *a, const struct watch_row *watch, enum watch_event type,
                        struct str summary);

#endif
