/* read_background_watch_log.c - the end of a watched task's log, as it is now. */
#include "tools/rows.h"
#include "tools/watch_live.h"

struct args {
    int64_t id, lines;
};

static int run(struct call *c, const void *given, json_t **out, struct err *e)
{
    const struct args *a = given;
    struct watch_row w;
    json_t *log = NULL;

    if (watch_get(c, a->id, &w, e) < 0 || watch_live_task(c, &w, a->lines, &log, e) < 0) {
        return -1;
    }
    *out = json_pack("{s:o, s:o}", "watch", watch_answer(&w), "log", log);
    return 0;
}

static const struct param params[] = {
    PARAM_WATCH_ID(struct args, id),
    {
        .name = "last_n_lines",
        .type = PARAM_INTEGER,
        .offset = offsetof(struct args, lines),
        .min = 1,
        .max = 10000,
        .fallback = 200,
        .help = "of the log",
    },
};

const struct tool tool_read_background_watch_log = {
    .name = "read_background_watch_log",
    .title = "Log of a watched task",
    .help = "The end of a watched task's log, as it is now.",
    .params = params,
    .n_params = COUNTOF(params),
    .args_size = sizeof(struct args),
    .toolsets = TOOLSET_ADVANCED | TOOLSET_ALL,
    .hints = HINT_READ_ONLY,
    .run = run,
};
