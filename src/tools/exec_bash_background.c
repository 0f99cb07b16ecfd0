/* exec_bash_background.c - start a job that outlives the call; takes all that
 * remote-sandbox-mcp's tool of that name does. */
#define WATCH_HIDDEN true

#include "json/js.h"
#include "tools/exec.h"
#include "tools/rows.h"
#include "tools/task_answer.h"
#include "tools/watch_answer.h"

struct args {
    struct box_args box;
    struct str command, session_name, log_file, cwd;
    bool watch;
    struct watch_args watch_args;
};

struct job {
    const struct args *args;
    struct task_order order;
    struct task_begun begun;
    struct str box_id;
    struct watch_args watch_args;
    struct watch_order watch;
};

static int start(void *arg, struct call *c, struct box *b, struct str id, struct err *e)
{
    struct job *j = arg;
    struct task_ctx t = task_call(c);

    j->box_id = id;
    if (j->args->watch && watch_reachable(c, id, j->watch_args.persist, e) < 0) {
        return -1;
    }
    return tasks_start(&t, b, id, &j->order, &j->begun, e);
}

static struct str note_of(struct call *c, const struct args *a, const struct job *j,
                          struct str box_note)
{
    struct arena *arena = c->ctx->arena;
    struct str given = str_trim(a->session_name);
    struct str note = box_note;

    if (given.len > 0 && !str_eq(given, j->order.name)) {
        note = arena_printf(arena, "%.*s%ssession_name became \"%.*s\": letters, digits, _ and -",
                            STR_ARG(note), note.len > 0 ? "; " : "", STR_ARG(j->order.name));
    }
    if (j->begun.note.len > 0) {
        note = arena_printf(arena, "%.*s%snot in tmux, which said: %.*s", STR_ARG(note),
                            note.len > 0 ? "; " : "", STR_ARG(str_head(j->begun.note, 200)));
    }
    return note;
}

static int run(struct call *c, const void *given, json_t **out, struct err *e)
{
    const struct args *a = given;
    struct arena *arena = c->ctx->arena;
    struct job j = {.args = a, .watch_args = a->watch_args};
    struct str note = STR_EMPTY;
    struct err why = {0};

    if (str_trim(a->command).len == 0) {
        return err_set(e, ERR_INVALID, "command is empty; give the shell text to run");
    }
    if (task_check_text(a->cwd, "cwd", e) < 0 || task_check_text(a->log_file, "log_file", e) < 0 ||
        task_name(arena, a->session_name, &j.order.name, e) < 0) {
        return -1;
    }
    j.order.command = a->command;
    j.order.cwd = str_trim(a->cwd);
    j.watch_args.launch_command = str_head(a->command, WATCH_TEXT_MAX);
    /* Wrong arguments of a watch are told before anything runs, also when there is to be none. */
    if (watch_check(c, &j.watch_args, j.order.name, j.order.cwd, &j.watch, e) < 0) {
        return -1;
    }
    j.order.log = task_log(arena, j.order.cwd, a->log_file, j.order.name);
    if (answer_with_box(c, &a->box, true, start, &j, &note, e) < 0) {
        return -1;
    }
    *out = json_object();
    answer_str(*out, "status", S("started"));
    answer_str(*out, "tmux_session", j.order.name);
    answer_str(*out, "log_file", j.begun.log);
    answer_str(*out, "sandbox", answer_box_name(j.box_id));
    answer_str(*out, "task_id", j.begun.run);
    j.watch.box_id = j.box_id;
    j.watch.box_name = answer_box_name(j.box_id);
    j.watch.log_file = j.begun.log;
    if (a->watch && watch_add(c, &j.watch_args, &j.watch, j.begun.run, *out, &why) < 0) {
        answer_str(*out, "watch_error", str_from(why.msg)); /* the task runs all the same */
    }
    if (j.begun.recovered) {
        (void)json_object_set_new(*out, "launch_recovered", json_true());
    }
    answer_str_if(*out, "note", note_of(c, a, &j, note));
    return 0;
}

static const struct param params[] = {
    {
        .name = "command",
        .type = PARAM_STRING,
        .offset = offsetof(struct args, command),
        .required = true,
        .max = EXEC_COMMAND_MAX,
        .help = "the shell text to run",
        .too_long = "write it into a file with write_remote_file and run that",
    },
    {
        .name = "session_name",
        .type = PARAM_STRING,
        .offset = offsetof(struct args, session_name),
        .max = (int64_t)4 * TASK_NAME_MAX,
        .help = "default: made up",
    },
    {
        .name = "log_file",
        .type = PARAM_STRING,
        .offset = offsetof(struct args, log_file),
        .max = TASK_PATH_MAX,
        .help = "default .codex_logs/<session_name>.log",
    },
    {
        .name = "cwd",
        .type = PARAM_STRING,
        .offset = offsetof(struct args, cwd),
        .max = TASK_PATH_MAX,
        .help = "folder to run in",
    },
    PARAM_BOX(struct args),
    {
        .name = "watch",
        .type = PARAM_BOOLEAN,
        .offset = offsetof(struct args, watch),
        .fallback = true,
        .hidden = true,
        .help = "have the watchdog look after it",
    },
    WATCH_TEXT(struct args, name, "watch_name", "your name for the watch"),
    PARAM_WATCH(struct args),
};

const struct tool tool_exec_bash_background = {
    .name = "exec_bash_background",
    .title = "Start a background task",
    .help =
        "Start a shell command that outlives this call and its client (in tmux on hosts). Answers "
        "task_id, tmux_session, log_file at once; then use check_background_task.",
    .params = params,
    .n_params = COUNTOF(params),
    .args_size = sizeof(struct args),
    .toolsets = TOOLSET_DEFAULT | TOOLSET_REMOTE | TOOLSET_ALL,
    .hints = 0,
    .run = run,
};

/* The same under the name by which remote-sandbox-mcp always watches. */
const struct tool tool_exec_bash_background_watch = {
    .name = "exec_bash_background_watch",
    .title = "Start a watched background task",
    .help = "exec_bash_background with watch=true.",
    .params = params,
    .n_params = COUNTOF(params),
    .args_size = sizeof(struct args),
    .toolsets = TOOLSET_ADVANCED | TOOLSET_ALL,
    .hints = 0,
    .run = run,
};
