/* list_background_watches.c - the caller's watches, the newest first. */
#include "tools/rows.h"
#include "tools/watch_answer.h"
#include "watch/state.h"

#define WATCHES_MAX 200

struct args {
    struct str status;
};

static int add(void *arg, const struct watch_row *row, struct err *e)
{
    (void)e;
    (void)json_array_append_new(arg, watch_answer(row));
    return 0;
}

static int status_of(struct call *c, struct str text, int *out, struct err *e)
{
    enum watch_status status;

    *out = -1;
    if (str_trim(text).len == 0) {
        return 0;
    }
    if (!watch_status_parse(arena_cstr(c->ctx->arena, str_trim(text)), &status)) {
        return err_set(e, ERR_INVALID,
                       "status must be active, completed, cancelled, task_cancelled, exhausted, "
                       "gone or replaced, or be left out for all");
    }
    *out = (int)status;
    return 0;
}

static int run(struct call *c, const void *given, json_t **out, struct err *e)
{
    const struct args *a = given;
    json_t *watches own_json = json_array();
    json_t *state own_json = NULL;
    int status;

    watch_take_over(c);
    if (status_of(c, a->status, &status, e) < 0 ||
        store_each_watch(c->services->store, &c->scope->owner, status, WATCHES_MAX, add, watches,
                         e) < 0) {
        return -1;
    }
    state = watchdog_answer(c, e);
    if (state == NULL) {
        return -1;
    }
    *out = json_pack("{s:O, s:O}", "watches", watches, "status", state);
    return 0;
}

static const struct param params[] = {
    {
        .name = "status",
        .type = PARAM_STRING,
        .offset = offsetof(struct args, status),
        .max = 40,
        .help = "active, completed, cancelled...; default: all",
    },
};

const struct tool tool_list_background_watches = {
    .name = "list_background_watches",
    .title = "List watches",
    .help = "The watches of background tasks, newest first, and how the watchdog is.",
    .params = params,
    .n_params = COUNTOF(params),
    .args_size = sizeof(struct args),
    .toolsets = TOOLSET_ADVANCED | TOOLSET_ALL,
    .hints = HINT_READ_ONLY,
    .run = run,
};
