/* exec_bash.c - run a shell command in a box; the canonical one. */
#include "tools/exec.h"
#include "tools/rows.h"

static int run(struct call *c, const void *args, json_t **out, struct err *e)
{
    return exec_answer(c, args, out, e);
}

static const struct param params[] = {
    PARAM_COMMAND,
    PARAM_CWD,
    PARAM_TIMEOUT("timeout_s"),
    PARAM_CHARS,
    PARAM_ENVIRONMENT,
    PARAM_STDIN,
    PARAM_BOX(struct exec_args),
    {
        .name = "timeout",
        .type = PARAM_INTEGER,
        .offset = offsetof(struct exec_args, timeout_s),
        .hidden = true,
        .min = 1,
        .max = EXEC_TIMEOUT_MAX,
        .help = "the same as timeout_s",
    },
};

const struct tool tool_exec_bash = {
    .name = "exec_bash",
    .title = "Run a shell command",
    .help = "Run a shell command (bash -c) in a sandbox and wait. Answers exit_code, stdout, "
            "stderr, duration, timed_out, signal, limits_hit; or, without timeout_s, after 45 s "
            "running and task_id. Makes a sandbox if there is none. "
            "Files and background processes stay between calls; cwd and variables do not. Long "
            "output is cut in the middle and tells how to read it all.",
    .params = params,
    .n_params = COUNTOF(params),
    .args_size = sizeof(struct exec_args),
    .toolsets = TOOLSET_DEFAULT | TOOLSET_REMOTE | TOOLSET_ALL,
    .hints = 0,
    .run = run,
};
