/*
 * run_tests.c - finds a project's test runner, runs it, and answers what it found.
 *
 * A script (run_tests.sh) does the finding and running in the box, as one command like any
 * other: the same time-outs, the same hand-over of what takes long. It leaves the runner's
 * report in a folder that is named by the id of the task that the command becomes if it is
 * handed over, so that a later call with task_id finds it.
 */
#include "tools/run_tests.h"

#include <string.h>

#include "base/id.h"
#include "tools/exec.h"
#include "tools/rows.h"
#include "tools/run_tests_script.h"
#include "tools/task_answer.h"

#define VARIABLES 7

struct args {
    struct box_args box;
    struct str path, framework, command, markers, cwd, task_id;
    struct str_list args, env;
    int64_t timeout_s;
    bool coverage;
};

static const char *const frameworks[] = {"auto", "pytest", "unittest", "npm",   "vitest", "jest",
                                         "node", "go",     "cargo",    "ctest", "make",   NULL};

/* ---- what it prints ------------------------------------------------------------------------- */

/* Runners say at the end how it went: of a flood the end is kept. */
static int keep(void *arg, enum stream from, struct str bytes, struct err *e)
{
    struct buf *to = &((struct tests_output *)arg)->streams[from];

    (void)e;
    bytes = str_skip(bytes, bytes.len > TESTS_TEXT_MAX / 2 ? bytes.len - TESTS_TEXT_MAX / 2 : 0);
    if (to->len + bytes.len > TESTS_TEXT_MAX) {
        buf_drop(to, to->len / 2 > bytes.len ? to->len / 2 : bytes.len);
    }
    buf_add(to, bytes);
    return 0;
}

static void output_init(struct tests_output *o)
{
    buf_init(&o->streams[STREAM_OUT], TESTS_TEXT_MAX);
    buf_init(&o->streams[STREAM_ERR], TESTS_TEXT_MAX);
}

static void output_fini(struct tests_output *o)
{
    buf_fini(&o->streams[STREAM_OUT]);
    buf_fini(&o->streams[STREAM_ERR]);
}

/* ---- collecting ------------------------------------------------------------------------------ */

struct collecting {
    struct tests_run run;
    json_t *answer;
};

static int collect(void *arg, struct call *c, struct box *b, struct str id, struct err *e)
{
    struct collecting *o = arg;

    (void)id;
    return tests_collect(c, b, &o->run, o->answer, e);
}

static struct str folder(struct call *c, struct str id)
{
    return arena_printf(c->ctx->arena, "/tmp/anybox-tests-%.*s", STR_ARG(id));
}

/* ---- a run that was handed over ---------------------------------------------------------------- */

static int look_again(struct call *c, const struct args *a, json_t **out, struct err *e)
{
    struct task_args which = {.box = a->box, .id = a->task_id};
    struct task_ctx t = task_call(c);
    struct task_wait wait = {0};
    struct tests_output output CLEANUP(output_fini) = {0};
    struct collecting o = {.run = {.output = &output, .coverage = a->coverage}};
    struct box_args box;
    struct task_query query;
    struct task_view view;

    output_init(&output);
    if (task_query(c, &which, &query, e) < 0 ||
        tasks_check(&t, &query, -1, TASK_TEXT_MAX, &wait, &view, e) < 0) {
        return -1;
    }
    c->box_id = view.box_id;
    *out = task_answer(c, &view);
    task_answer_text(*out, &view, -1, 200);
    if (task_goes_on(view.seen.end.state)) {
        answer_str(*out, "note", S("it still runs: call run_tests with this task_id again later"));
        return 0;
    }
    (void)json_object_set_new(*out, "exit_code", json_integer(view.seen.end.code));
    buf_add(&output.streams[STREAM_OUT], view.seen.text);
    buf_add(&output.streams[STREAM_ERR], view.seen.errors);
    o.run.dir = folder(c, a->task_id);
    o.answer = *out;
    box = (struct box_args){.id = view.box_id};
    if (answer_with_box(c, &box, false, collect, &o, NULL, e) < 0) {
        json_decref(*out);
        *out = NULL;
        return -1;
    }
    return 0;
}

/* ---- a new run ----------------------------------------------------------------------------------- */

static struct str joined(struct call *c, const struct str_list *args, struct err *e)
{
    struct buf text own_buf = {0};

    buf_init(&text, 64u << 10);
    for (size_t i = 0; i < args->n; i++) {
        if (str_has(args->items[i], '\n')) {
            (void)err_set(e, ERR_INVALID, "an argument in args must not have a line break in it");
            return STR_EMPTY;
        }
        buf_add(&text, args->items[i]);
        buf_addc(&text, '\n');
    }
    return arena_str(c->ctx->arena, buf_str(&text));
}

static struct str_list variables(struct call *c, const struct args *a, struct str dir,
                                 struct str words)
{
    struct arena *m = c->ctx->arena;
    struct str *items = arena_alloc(m, a->env.n + VARIABLES, sizeof(*items));
    size_t n = a->env.n;

    if (n > 0) {
        memcpy(items, a->env.items, n * sizeof(*items));
    }
    items[n++] = arena_printf(m, "AT_OUT=%.*s", STR_ARG(dir));
    items[n++] = arena_printf(m, "AT_PATH=%.*s", STR_ARG(str_trim(a->path)));
    items[n++] = arena_printf(m, "AT_FRAMEWORK=%.*s", STR_ARG(a->framework));
    items[n++] = arena_printf(m, "AT_COMMAND=%.*s", STR_ARG(a->command));
    items[n++] = arena_printf(m, "AT_MARKERS=%.*s", STR_ARG(a->markers));
    items[n++] = arena_printf(m, "AT_COVERAGE=%d", a->coverage ? 1 : 0);
    items[n++] = arena_printf(m, "AT_ARGS=%.*s", STR_ARG(words));
    return (struct str_list){items, n};
}

static int run_anew(struct call *c, const struct args *a, json_t **out, struct err *e)
{
    struct tests_output output CLEANUP(output_fini) = {0};
    const struct sink whole = {.write = keep, .arg = &output};
    struct collecting o = {.run = {.output = &output, .coverage = a->coverage}};
    struct exec_args exec = {.box = a->box, .cwd = a->cwd, .timeout_s = a->timeout_s};
    struct box_args box;
    struct str words;
    char id[17];

    e->kind = ERR_NONE;
    words = joined(c, &a->args, e);
    if (e->kind != ERR_NONE) {
        return -1;
    }
    output_init(&output);
    id_hex(id, 8);
    o.run.dir = folder(c, str_from(id));
    exec.command = str_from(script_run_tests);
    exec.id = str_from(id);
    exec.env = variables(c, a, o.run.dir, words);
    exec.label = arena_printf(c->ctx->arena, "run_tests %.*s", STR_ARG(str_head(a->path, 1000)));
    exec.whole = &whole;
    if (exec_answer(c, &exec, out, e) < 0) {
        return -1;
    }
    if (json_is_true(js_get(*out, "connection_error"))) {
        return 0; /* its own words say whether it ran */
    }
    if (js_get(*out, "exit_code") == NULL) {
        answer_str(*out, "note",
                   S("the tests still run: call run_tests with this task_id for the results, "
                     "cancel_background_task ends them; timeout makes a call wait longer"));
        return 0;
    }
    o.answer = *out;
    box = (struct box_args){.id = c->box_id};
    if (answer_with_box(c, &box, false, collect, &o, NULL, e) < 0) {
        json_decref(*out);
        *out = NULL;
        return -1;
    }
    return 0;
}

static int run(struct call *c, const void *given, json_t **out, struct err *e)
{
    const struct args *a = given;

    return a->task_id.len > 0 ? look_again(c, a, out, e) : run_anew(c, a, out, e);
}

static const struct param params[] = {
    PARAM_BOX(struct args),
    {
        .name = "path",
        .type = PARAM_STRING,
        .offset = offsetof(struct args, path),
        .max = 4096,
        .help =
            "folder of the project, or a test file, in the sandbox (default: the working folder)",
    },
    {
        .name = "framework",
        .type = PARAM_STRING,
        .offset = offsetof(struct args, framework),
        .choices = frameworks,
        .fallback_text = "auto",
        .help = "auto finds it",
    },
    {
        .name = "command",
        .type = PARAM_STRING,
        .offset = offsetof(struct args, command),
        .help = "shell text to run instead of a runner that is found",
    },
    {
        .name = "args",
        .type = PARAM_STRINGS,
        .offset = offsetof(struct args, args),
        .help = "more arguments for the runner, such as [\"-k\", \"name\"]",
    },
    {
        .name = "markers",
        .type = PARAM_STRING,
        .offset = offsetof(struct args, markers),
        .max = 4096,
        .help = "of pytest: -m",
    },
    {
        .name = "coverage",
        .type = PARAM_BOOLEAN,
        .offset = offsetof(struct args, coverage),
        .help = "also coverage_percent, where the runner can",
    },
    {
        .name = "timeout",
        .type = PARAM_INTEGER,
        .offset = offsetof(struct args, timeout_s),
        .min = 1,
        .max = EXEC_TIMEOUT_MAX,
        .help = "seconds; without it what takes longer than a while is handed over",
    },
    {
        .name = "env",
        .type = PARAM_ENV,
        .offset = offsetof(struct args, env),
        .help = "variables to add",
    },
    {
        .name = "task_id",
        .type = PARAM_STRING,
        .offset = offsetof(struct args, task_id),
        .max = 64,
        .help = "of a run that was handed over: its results",
    },
    {
        .name = "cwd",
        .type = PARAM_STRING,
        .offset = offsetof(struct args, cwd),
        .max = 4096,
        .hidden = true,
        .help = "where path begins",
    },
    {
        .name = "timeout_s",
        .type = PARAM_INTEGER,
        .offset = offsetof(struct args, timeout_s),
        .min = 1,
        .max = EXEC_TIMEOUT_MAX,
        .hidden = true,
        .help = "the same as timeout",
    },
};

const struct tool tool_run_tests = {
    .name = "run_tests",
    .title = "Run a project's tests",
    .help =
        "Run the tests of a project in a sandbox: finds the runner (pytest, unittest, npm test with "
        "vitest, jest or node, go, cargo, ctest, make check) and answers success, summary (passed, "
        "failed, skipped, errors), failures with file, line and message, coverage_percent, stdout, stderr.",
    .params = params,
    .n_params = COUNTOF(params),
    .args_size = sizeof(struct args),
    .toolsets = TOOLSET_OPEN | TOOLSET_ALL,
    .hints = 0,
    .run = run,
};
