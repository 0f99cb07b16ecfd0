/* execute_terminal_command.c - exec_bash under MCP Sandbox's name. */
#include "tools/exec.h"
#include "tools/rows.h"

static int run(struct call *c, const void *args, json_t **out, struct err *e)
{
    return exec_answer(c, args, out, e);
}

static const struct param params[] = {
    PARAM_BOX(struct exec_args),
    PARAM_COMMAND,
};

const struct tool tool_execute_terminal_command = {
    .name = "execute_terminal_command",
    .title = "Run a terminal command",
    .help = "Run a shell command in a sandbox and wait for it. Answers stdout, stderr, exit_code.",
    .params = params,
    .n_params = COUNTOF(params),
    .args_size = sizeof(struct exec_args),
    .toolsets = TOOLSET_MCP | TOOLSET_ALL,
    .hints = 0,
    .run = run,
};
