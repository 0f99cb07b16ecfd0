/* cancel_background_watch.c - stop watching; the task goes on. */
#include "tools/rows.h"
#include "tools/watch_answer.h"

struct args {
    int64_t id;
};

static int run(struct call *c, const void *given, json_t **out, struct err *e)
{
    const struct args *a = given;
    json_t *state = NULL;
    struct watch_row w;

    if (watch_get(c, a->id, &w, e) < 0 ||
        store_cancel_watch(c->services->store, c->scope->owner, a->id, e) < 0 ||
        watch_get(c, a->id, &w, e) < 0) {
        return -1;
    }
    state = watchdog_answer(c, e);
    if (state == NULL) {
        return -1;
    }
    *out = json_pack("{s:o, s:o}", "watch", watch_answer(&w), "status", state);
    return 0;
}

static const struct param params[] = {
    PARAM_WATCH_ID(struct args, id),
};

const struct tool tool_cancel_background_watch = {
    .name = "cancel_background_watch",
    .title = "Stop a watch",
    .help = "Stop watching a background task. The task goes on; cancel_background_task ends it.",
    .params = params,
    .n_params = COUNTOF(params),
    .args_size = sizeof(struct args),
    .toolsets = TOOLSET_ADVANCED | TOOLSET_ALL,
    .hints = HINT_IDEMPOTENT,
    .run = run,
};
