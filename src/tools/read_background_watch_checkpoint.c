/* read_background_watch_checkpoint.c - a watched task's checkpoint, as it is now. */
#include "tools/rows.h"
#include "tools/watch_live.h"

struct args {
    int64_t id, max_bytes;
};

static int run(struct call *c, const void *given, json_t **out, struct err *e)
{
    const struct args *a = given;
    struct checkpoint found;
    struct watch_row w;
    json_t *result;

    if (watch_get(c, a->id, &w, e) < 0 ||
        watch_live_checkpoint(c, &w, a->max_bytes, &found, e) < 0) {
        return -1;
    }
    *out = json_pack("{s:o, s:o}", "watch", watch_answer(&w), "checkpoint",
                     watch_checkpoint(&w, found.text));
    result = json_object();
    if (found.from_command) {
        (void)json_object_set_new(result, "exit_code",
                                  found.result.end == EXEC_EXITED ? json_integer(found.result.code)
                                                                  : json_null());
        (void)json_object_set_new(result, "timed_out", json_boolean(found.result.timed_out));
    }
    answer_str_if(result, "error", found.problem);
    (void)json_object_set_new(*out, found.from_command ? "command_result" : "file_result", result);
    return 0;
}

static const struct param params[] = {
    PARAM_WATCH_ID(struct args, id),
    {
        .name = "max_bytes",
        .type = PARAM_INTEGER,
        .offset = offsetof(struct args, max_bytes),
        .min = 1,
        .max = 1 << 20,
        .fallback = CHECKPOINT_MAX,
        .help = "of it",
    },
};

const struct tool tool_read_background_watch_checkpoint = {
    .name = "read_background_watch_checkpoint",
    .title = "Checkpoint of a watched task",
    .help = "A watched task's checkpoint, as it is now: the file, or what its command says.",
    .params = params,
    .n_params = COUNTOF(params),
    .args_size = sizeof(struct args),
    .toolsets = TOOLSET_ADVANCED | TOOLSET_ALL,
    .hints = HINT_READ_ONLY,
    .run = run,
};
