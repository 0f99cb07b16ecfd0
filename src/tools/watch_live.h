/* watch_live.h - a watched task as it is now, not as the watchdog saw it. */
#ifndef TOOLS_WATCH_LIVE_H
#define TOOLS_WATCH_LIVE_H

#include "tools/task_answer.h"
#include "tools/watch_answer.h"
#include "watch/checkpoint.h"

/* How the task is, with the last lines of its log. */
int watch_live_task(struct call *c, const struct watch_row *w, int64_t lines, json_t **out,
                    struct err *e) MUST_CHECK;
/* Its checkpoint. ERR_NOT_FOUND: the watch has none. */
int watch_live_checkpoint(struct call *c, const struct watch_row *w, int64_t max,
                          struct checkpoint *out, struct err *e) MUST_CHECK;

#endif
