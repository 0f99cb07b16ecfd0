/* watch_background_task.c - watch a task that runs, whoever started it. */
#define WATCH_HIDDEN false

#include "tools/rows.h"
#include "tools/task_answer.h"
#include "tools/watch_answer.h"

struct args {
    struct box_args box;
    struct str session, log_file, cwd;
    struct watch_args watch_args;
};

struct job {
    struct task_view view;
    struct str box_id;
};

static int find(struct call *c, const struct args *a, struct str name, struct job *j, struct err *e)
{
    struct task_ctx t = task_call(c);
    struct task_query query = {
        .box = answer_want(&a->box), .name = name, .log = str_trim(a->log_file)};
    struct task_wait wait = {0};

    if (task_check_text(a->log_file, "log_file", e) < 0 || task_check_text(a->cwd, "cwd", e) < 0 ||
        tasks_check(&t, &query, -1, 0, &wait, &j->view, e) < 0) {
        return -1;
    }
    j->box_id = j->view.box_id;
    c->box_id = j->box_id;
    return 0;
}

static int run(struct call *c, const void *given, json_t **out, struct err *e)
{
    const struct args *a = given;
    struct watch_order order;
    struct watch_row w;
    struct job j = {0};
    struct str name;
    json_t *answer own_json = json_object();
    json_t *state;

    if (task_name(c->ctx->arena, a->session, &name, e) < 0 ||
        watch_check(c, &a->watch_args, name, str_trim(a->cwd), &order, e) < 0 ||
        find(c, a, name, &j, e) < 0 || watch_reachable(c, j.box_id, a->watch_args.persist, e) < 0) {
        return -1;
    }
    order.box_id = j.box_id;
    order.box_name = answer_box_name(j.box_id);
    order.log_file = j.view.seen.log.len > 0 ? j.view.seen.log : str_trim(a->log_file);
    order.cwd = order.cwd.len > 0 ? order.cwd : j.view.seen.cwd;
    if (watch_add(c, &a->watch_args, &order, j.view.seen.run, answer, e) < 0 ||
        watch_get(c, json_integer_value(js_get(answer, "watch_id")), &w, e) < 0) {
        return -1;
    }
    (void)json_object_set_new(answer, "watch", watch_answer(&w));
    (void)json_object_set(answer, "watch_query_id", js_get(answer, "watch_id"));
    state = watchdog_answer(c, e);
    if (state == NULL) {
        return -1;
    }
    (void)json_object_set_new(answer, "status", state);
    *out = json_incref(answer);
    return 0;
}

static const struct param params[] = {
    {
        .name = "tmux_session",
        .type = PARAM_STRING,
        .offset = offsetof(struct args, session),
        .required = true,
        .max = (int64_t)4 * TASK_NAME_MAX,
        .help = "the task's name",
    },
    {
        .name = "log_file",
        .type = PARAM_STRING,
        .offset = offsetof(struct args, log_file),
        .max = TASK_PATH_MAX,
        .help = "its log",
    },
    {
        .name = "cwd",
        .type = PARAM_STRING,
        .offset = offsetof(struct args, cwd),
        .max = TASK_PATH_MAX,
        .help = "its working folder",
    },
    PARAM_BOX(struct args),
    WATCH_TEXT(struct args, name, "name", "your name for the watch"),
    WATCH_TEXT(struct args, launch_command, "launch_command", "that started it"),
    PARAM_WATCH(struct args),
};

const struct tool tool_watch_background_task = {
    .name = "watch_background_task",
    .title = "Watch a background task",
    .help =
        "Have the watchdog look after a background task: events when it ends or is interrupted, and with auto_resume it is started again from its checkpoint. Tasks of exec_bash_background are watched already.",
    .params = params,
    .n_params = COUNTOF(params),
    .args_size = sizeof(struct args),
    .toolsets = TOOLSET_ADVANCED | TOOLSET_ALL,
    .hints = 0,
    .run = run,
};
