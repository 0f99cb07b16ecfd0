/* exec_bash_background.c - start a job that outlives the call; takes all that
 * remote-sandbox-mcp's tool of that name does. */
#include "json/js.h"
#include "tools/exec.h"
#include "tools/rows.h"
#include "tools/task_answer.h"

#define WORD_MAX 4096

struct args {
    struct box_args box;
    struct str command, session_name, log_file, cwd;
    /* for watches */
    bool watch, ensure_watchdog, auto_resume, notify_local, codex_wakeup;
    struct str run_id, watch_name, resume_command, resume_plan_json, checkpoint_path;
    struct str checkpoint_format, checkpoint_command, webhook_url, event_command, metadata_json;
    struct str codex_command;
    int64_t interval_s, max_log_lines, max_resume_attempts, alert_after_failures, resume_delay_s;
};

struct job {
    struct task_order order;
    struct task_begun begun;
    struct str box_id;
};

static int check_json(struct str text, const char *name, struct err *e)
{
    json_t *v own_json = NULL;
    struct err why = {0};

    if (str_trim(text).len == 0) {
        return 0;
    }
    v = js_parse(text.p, text.len, &why);
    if (v == NULL) {
        return err_set(e, ERR_INVALID, "%s is no JSON: %s", name, why.msg);
    }
    if (!json_is_object(v)) {
        return err_set(e, ERR_INVALID, "%s must be a JSON object, as text", name);
    }
    return 0;
}

/* What only a watch would use is checked as if there were one, and not dropped silently. */
static int check_watch(const struct args *a, struct err *e)
{
    if (check_json(a->resume_plan_json, "resume_plan_json", e) < 0 ||
        check_json(a->metadata_json, "metadata_json", e) < 0) {
        return -1;
    }
    bool plan = a->resume_plan_json.len > 0;
    if (a->auto_resume &&
        ((a->resume_command.len == 0 && !plan) ||
         (a->checkpoint_path.len == 0 && a->checkpoint_command.len == 0 && !plan))) {
        return err_set(e, ERR_INVALID,
                       "auto_resume needs a resume_command, and a checkpoint_path or a "
                       "checkpoint_command");
    }
    const char *asked = a->watch                   ? "watch=true"
                        : a->auto_resume           ? "auto_resume"
                        : a->codex_wakeup          ? "codex_wakeup"
                        : a->webhook_url.len > 0   ? "webhook_url"
                        : a->event_command.len > 0 ? "event_command"
                                                   : NULL;
    if (asked != NULL) {
        return err_set(e, ERR_UNSUPPORTED,
                       "%s needs the watchdog, which this version does not have yet: nothing was "
                       "started. Leave it out; check_background_task tells how the task is, and "
                       "can wait for its end",
                       asked);
    }
    return 0;
}

static int start(void *arg, struct call *c, struct box *b, struct str id, struct err *e)
{
    struct job *j = arg;
    struct task_ctx t = task_call(c);

    j->box_id = id;
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
    struct job j = {0};
    struct str note = STR_EMPTY;

    if (str_trim(a->command).len == 0) {
        return err_set(e, ERR_INVALID, "command is empty; give the shell text to run");
    }
    if (check_watch(a, e) < 0 || task_check_text(a->cwd, "cwd", e) < 0 ||
        task_check_text(a->log_file, "log_file", e) < 0 ||
        task_name(arena, a->session_name, &j.order.name, e) < 0) {
        return -1;
    }
    j.order.command = a->command;
    j.order.cwd = str_trim(a->cwd);
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
    if (j.begun.recovered) {
        (void)json_object_set_new(*out, "launch_recovered", json_true());
    }
    answer_str_if(*out, "note", note_of(c, a, &j, note));
    return 0;
}

#define HIDDEN_TEXT(field)                                                                         \
    {                                                                                              \
        .name = #field, .type = PARAM_STRING, .offset = offsetof(struct args, field),              \
        .max = WORD_MAX, .hidden = true, .help = "for watches",                                    \
    }
#define HIDDEN_SWITCH(field, given)                                                                \
    {                                                                                              \
        .name = #field, .type = PARAM_BOOLEAN, .offset = offsetof(struct args, field),             \
        .fallback = (given), .hidden = true, .help = "for watches",                                \
    }
#define HIDDEN_NUMBER(field, least, given)                                                         \
    {                                                                                              \
        .name = #field, .type = PARAM_INTEGER, .offset = offsetof(struct args, field),             \
        .min = (least), .max = INT32_MAX, .fallback = (given), .hidden = true,                     \
        .help = "for watches",                                                                     \
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
        .max = 4 * TASK_NAME_MAX,
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
    HIDDEN_SWITCH(watch, false),
    HIDDEN_SWITCH(ensure_watchdog, true),
    HIDDEN_TEXT(run_id),
    HIDDEN_TEXT(watch_name),
    HIDDEN_TEXT(resume_command),
    HIDDEN_TEXT(resume_plan_json),
    HIDDEN_TEXT(checkpoint_path),
    HIDDEN_TEXT(checkpoint_format),
    HIDDEN_TEXT(checkpoint_command),
    HIDDEN_NUMBER(interval_s, 1, 300),
    HIDDEN_NUMBER(max_log_lines, 1, 80),
    HIDDEN_TEXT(webhook_url),
    HIDDEN_TEXT(event_command),
    HIDDEN_SWITCH(auto_resume, false),
    HIDDEN_NUMBER(max_resume_attempts, 0, 1),
    HIDDEN_TEXT(metadata_json),
    HIDDEN_SWITCH(notify_local, true),
    HIDDEN_NUMBER(alert_after_failures, 1, 2),
    HIDDEN_NUMBER(resume_delay_s, 0, 300),
    HIDDEN_SWITCH(codex_wakeup, false),
    HIDDEN_TEXT(codex_command),
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
