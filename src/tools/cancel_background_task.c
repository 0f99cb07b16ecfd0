/* cancel_background_task.c - end a task with all that it started. */
#include "tools/rows.h"
#include "tools/task_answer.h"

#define GRACE_S_MAX 600

struct args {
    struct task_args task;
    int64_t grace_s;
};

static const char *word_for(enum task_cut cut)
{
    switch (cut) {
    case TASK_CUT:
    case TASK_CUT_LEFT: return "cancelled";
    case TASK_HAD_ENDED:
    case TASK_CUT_UNKNOWN:
    case TASK_CUT_REPLACED: break;
    }
    return "already_ended";
}

static int run(struct call *c, const void *given, json_t **out, struct err *e)
{
    const struct args *a = given;
    struct task_ctx t = task_call(c);
    struct task_query query;
    struct task_view view;
    enum task_cut cut;

    if (task_is_any(&a->task)) {
        return err_set(e, ERR_INVALID,
                       "which task? Give task_id, tmux_session or log_file; check_background_task "
                       "without arguments lists all");
    }
    if (task_query(c, &a->task, &query, e) < 0 ||
        tasks_cancel(&t, &query, a->grace_s, &cut, &view, e) < 0) {
        return -1;
    }
    c->box_id = view.box_id;
    *out = task_answer(c, &view);
    (void)json_object_set_new(*out, "result", json_string(word_for(cut)));
    if (cut == TASK_CUT_LEFT) {
        answer_str(*out, "note",
                   S("some of its processes did not end even when killed: they hang in the "
                     "kernel, or belong to another user"));
    }
    return 0;
}

static const struct param params[] = {
    PARAM_TASK(struct args),
    {
        .name = "grace_s",
        .type = PARAM_INTEGER,
        .offset = offsetof(struct args, grace_s),
        .min = 0,
        .max = GRACE_S_MAX,
        .fallback = 5,
        .hidden = true,
        .help = "from TERM to KILL",
    },
};

const struct tool tool_cancel_background_task = {
    .name = "cancel_background_task",
    .title = "End a background task",
    .help = "End a task with all that it started: TERM, then KILL. Answers its last status.",
    .params = params,
    .n_params = COUNTOF(params),
    .args_size = sizeof(struct args),
    .toolsets = TOOLSET_DEFAULT | TOOLSET_ALL,
    .hints = HINT_DESTRUCTIVE | HINT_IDEMPOTENT,
    .run = run,
};
