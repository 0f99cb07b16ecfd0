/* get_background_watch.c - one watch, all that is known of it. */
#include "tools/rows.h"
#include "tools/watch_answer.h"

struct args {
    int64_t id;
};

static int run(struct call *c, const void *given, json_t **out, struct err *e)
{
    const struct args *a = given;
    struct watch_row w;

    if (watch_get(c, a->id, &w, e) < 0) {
        return -1;
    }
    *out = json_pack("{s:o}", "watch", watch_answer(&w));
    return 0;
}

static const struct param params[] = {
    PARAM_WATCH_ID(struct args, id),
};

const struct tool tool_get_background_watch = {
    .name = "get_background_watch",
    .title = "Show a watch",
    .help =
        "One watch of a background task: what was asked for, and how the task was when the watchdog looked last.",
    .params = params,
    .n_params = COUNTOF(params),
    .args_size = sizeof(struct args),
    .toolsets = TOOLSET_ADVANCED | TOOLSET_ALL,
    .hints = HINT_READ_ONLY,
    .run = run,
};
