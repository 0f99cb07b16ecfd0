/* run_command.c - exec_bash under OpenSandbox's name and parameter names. */
#include "tools/exec.h"
#include "tools/rows.h"

static int run(struct call *c, const void *args, json_t **out, struct err *e)
{
    return exec_answer(c, args, out, e);
}

static const struct param params[] = {
    PARAM_BOX(struct exec_args),
    PARAM_COMMAND,
    PARAM_TIMEOUT("timeout"),
    PARAM_CWD,
    PARAM_ENVIRONMENT,
    PARAM_STDIN,
    {
        .name = "timeout_s",
        .type = PARAM_INTEGER,
        .offset = offsetof(struct exec_args, timeout_s),
        .hidden = true,
        .min = 1,
        .max = EXEC_TIMEOUT_MAX,
        .help = "the same as timeout",
    },
    {
        .name = "max_output_chars",
        .type = PARAM_INTEGER,
        .offset = offsetof(struct exec_args, max_output_chars),
        .hidden = true,
        .min = 1,
        .max = INT64_MAX,
        .help = "of each stream in the answer (default 20000)",
    },
};

const struct tool tool_run_command = {
    .name = "run_command",
    .title = "Run a command in a sandbox",
    .help = "Run a shell command in a sandbox and wait for it. Answers exit_code, stdout, stderr, "
            "duration, timed_out.",
    .params = params,
    .n_params = COUNTOF(params),
    .args_size = sizeof(struct exec_args),
    .toolsets = TOOLSET_OPEN | TOOLSET_ALL,
    .hints = 0,
    .run = run,
};
