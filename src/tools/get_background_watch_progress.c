/* get_background_watch_progress.c - what the watchdog knows, and how it is now. */
#include "tools/rows.h"
#include "tools/watch_live.h"

struct args {
    int64_t id, log_lines, checkpoint_max_bytes;
    bool refresh_live;
};

static json_t *stored(const struct watch_row *w)
{
    json_t *whole own_json = watch_answer(w);
    json_t *o = json_object();
    static const char *const keys[] = {"last_state", "last_summary", "last_error", "last_log_tail"};

    for (size_t i = 0; i < COUNTOF(keys); i++) {
        (void)json_object_set(o, keys[i], js_get(whole, keys[i]));
    }
    (void)json_object_set_new(o, "checkpoint", watch_checkpoint(w, w->words.checkpoint_text));
    return o;
}

static void note_error(json_t *errors, const char *kind, const struct err *e)
{
    (void)json_array_append_new(
        errors, json_pack("{s:s, s:o}", "kind", kind, "error", js_string(str_from(e->msg))));
}

static json_t *live(struct call *c, const struct args *a, const struct watch_row *w)
{
    json_t *o = json_object();
    json_t *errors = json_array();
    json_t *task = NULL;
    struct checkpoint found;
    struct err e = {0};

    if (watch_live_task(c, w, a->log_lines, &task, &e) < 0) {
        note_error(errors, "task", &e);
    }
    (void)json_object_set_new(o, "task", task != NULL ? task : json_null());
    if (w->order.checkpoint_path.len > 0 || w->order.checkpoint_command.len > 0) {
        if (watch_live_checkpoint(c, w, a->checkpoint_max_bytes, &found, &e) < 0) {
            note_error(errors, "checkpoint", &e);
        } else {
            (void)json_object_set_new(o, "checkpoint", watch_checkpoint(w, found.text));
        }
    }
    (void)json_object_set_new(o, "errors", errors);
    return o;
}

static int run(struct call *c, const void *given, json_t **out, struct err *e)
{
    const struct args *a = given;
    struct watch_row w;

    if (watch_get(c, a->id, &w, e) < 0) {
        return -1;
    }
    *out = json_pack("{s:o, s:o}", "watch", watch_answer(&w), "stored", stored(&w));
    if (a->refresh_live) {
        (void)json_object_set_new(*out, "live", live(c, a, &w));
    }
    return 0;
}

static const struct param params[] = {
    PARAM_WATCH_ID(struct args, id),
    {
        .name = "refresh_live",
        .type = PARAM_BOOLEAN,
        .offset = offsetof(struct args, refresh_live),
        .fallback = true,
        .help = "ask the sandbox now",
    },
    {
        .name = "log_lines",
        .type = PARAM_INTEGER,
        .offset = offsetof(struct args, log_lines),
        .min = 1,
        .max = 10000,
        .fallback = 80,
        .help = "of the log",
    },
    {
        .name = "checkpoint_max_bytes",
        .type = PARAM_INTEGER,
        .offset = offsetof(struct args, checkpoint_max_bytes),
        .min = 1,
        .max = 1 << 20,
        .fallback = CHECKPOINT_MAX,
        .help = "of the checkpoint",
    },
};

const struct tool tool_get_background_watch_progress = {
    .name = "get_background_watch_progress",
    .title = "Progress of a watched task",
    .help =
        "How a watched task is: what the watchdog saw last, and by default how it is now, with log and checkpoint.",
    .params = params,
    .n_params = COUNTOF(params),
    .args_size = sizeof(struct args),
    .toolsets = TOOLSET_ADVANCED | TOOLSET_ALL,
    .hints = HINT_READ_ONLY,
    .run = run,
};
