/* check_background_task.c - how a task is, or all of them. */
#include <regex.h>

#include "base/arena.h"
#include "tools/rows.h"
#include "tools/task_answer.h"

#define LINES_MAX  10000
#define LINE_GUESS 1024 /* bytes of a line that are fetched for it */
#define TEXT_LEAST (64 << 10)

struct args {
    struct task_args task;
    int64_t last_n_lines, from, wait_s;
    struct str until;
};

static int add_view(void *arg, const struct task_view *v, struct err *e)
{
    struct call *c = ((struct call **)arg)[0];
    json_t *list = ((json_t **)arg)[1];

    (void)e;
    (void)json_array_append_new(list, task_answer(c, v));
    return 0;
}

static int list_all(struct call *c, const struct args *a, json_t **out, struct err *e)
{
    struct task_ctx t = task_call(c);
    struct box_want want = answer_want(&a->task.box);
    json_t *list own_json = json_array();
    void *arg[] = {c, list};

    if (tasks_each(&t, &want, add_view, arg, e) < 0) {
        return -1;
    }
    *out = json_object();
    (void)json_object_set(*out, "tasks", list);
    return 0;
}

static int check_until(struct call *c, struct str until, struct err *e)
{
    regex_t re;
    char why[200];
    int rc;

    if (until.len == 0) {
        return 0;
    }
    if (task_check_text(until, "until", e) < 0) {
        return -1;
    }
    if (!task_regex_is_small(until)) {
        return 0; /* grep in the sandbox says what it thinks of it */
    }
    rc = regcomp(&re, arena_cstr(c->ctx->arena, until), REG_EXTENDED | REG_NOSUB);
    if (rc != 0) {
        (void)regerror(rc, &re, why, sizeof(why));
        return err_set(e, ERR_INVALID,
                       "until is no regular expression (POSIX, extended, as grep -E takes it): %s",
                       why);
    }
    regfree(&re);
    return 0;
}

static int64_t bytes_for(int64_t lines)
{
    int64_t bytes = lines * LINE_GUESS;

    return bytes < TEXT_LEAST ? TEXT_LEAST : bytes > TASK_TEXT_MAX ? TASK_TEXT_MAX : bytes;
}

static int run(struct call *c, const void *given, json_t **out, struct err *e)
{
    const struct args *a = given;
    struct task_ctx t = task_call(c);
    struct task_wait wait = {.seconds = a->wait_s, .until = a->until};
    struct task_query query;
    struct task_view view;

    if (task_is_any(&a->task)) {
        return list_all(c, a, out, e);
    }
    if (a->until.len > 0 && a->wait_s == 0) {
        return err_set(e, ERR_INVALID,
                       "until is a regular expression to wait for: give wait_s, too");
    }
    if (task_query(c, &a->task, &query, e) < 0 || check_until(c, a->until, e) < 0 ||
        tasks_check(&t, &query, a->from, bytes_for(a->last_n_lines), &wait, &view, e) < 0) {
        return -1;
    }
    c->box_id = view.box_id;
    *out = task_answer(c, &view);
    task_answer_text(*out, &view, a->from, a->last_n_lines);
    return 0;
}

static const struct param params[] = {
    PARAM_TASK(struct args),
    {
        .name = "last_n_lines",
        .type = PARAM_INTEGER,
        .offset = offsetof(struct args, last_n_lines),
        .min = 1,
        .max = LINES_MAX,
        .fallback = 50,
        .help = "of the log (default 50)",
    },
    {
        .name = "from",
        .type = PARAM_INTEGER,
        .offset = offsetof(struct args, from),
        .min = -1,
        .max = INT64_MAX,
        .fallback = -1,
        .help = "instead: log from this byte; the answer's cursor is the next",
    },
    {
        .name = "wait_s",
        .type = PARAM_INTEGER,
        .offset = offsetof(struct args, wait_s),
        .min = 0,
        .max = TASK_WAIT_S_MAX,
        .help = "wait so long for its end",
    },
    {
        .name = "until",
        .type = PARAM_STRING,
        .offset = offsetof(struct args, until),
        .max = 1000,
        .help = "or for a new line that matches (grep -E)",
    },
};

const struct tool tool_check_background_task = {
    .name = "check_background_task",
    .title = "Check a background task",
    .help = "How a task is: running, status, exit_code, signal, log_tail, cursor, runtime_s. "
            "Without arguments: all tasks.",
    .params = params,
    .n_params = COUNTOF(params),
    .args_size = sizeof(struct args),
    .toolsets = TOOLSET_DEFAULT | TOOLSET_REMOTE | TOOLSET_ALL,
    .hints = HINT_READ_ONLY | HINT_IDEMPOTENT,
    .run = run,
};
