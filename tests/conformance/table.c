/* table.c - the product's tools and the fixtures, sorted by name. */
#include "fixtures.h"
#include "tools/rows.h"

/* clang-format off */
#define ROW(name) &fixture_##name,
const struct tool *const tools[] = {
    &tool_create_sandbox,
    &tool_delete_sandbox,
    &tool_exec_bash,
    &tool_execute_python_code,
    &tool_execute_terminal_command,
    &tool_get_active_sandbox,
    &tool_list_remote_files,
    &tool_list_sandboxes,
    &tool_read_remote_file,
    &tool_run_command,
    &tool_select_sandbox,
    FIXTURES(ROW)
    &tool_write_remote_file,
    NULL,
};
