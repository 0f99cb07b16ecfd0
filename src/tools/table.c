/* table.c - every tool there is, sorted by name. A new tool is one file and one line here. */
#include "tools/rows.h"
#include "tools/tool.h"

/* clang-format off */
const struct tool *const tools[] = {
    &tool_cancel_background_task,
    &tool_cancel_file_transfer_task,
    &tool_check_background_task,
    &tool_check_file_transfer_task,
    &tool_create_sandbox,
    &tool_delete_sandbox,
    &tool_download_files,
    &tool_exec_bash,
    &tool_exec_bash_background,
    &tool_execute_terminal_command,
    &tool_get_active_sandbox,
    &tool_list_remote_files,
    &tool_list_sandboxes,
    &tool_read_remote_file,
    &tool_run_command,
    &tool_select_sandbox,
    &tool_sync_local_to_remote,
    &tool_sync_local_to_remote_background,
    &tool_sync_remote_to_local,
    &tool_upload_file_to_sandbox,
    &tool_upload_files,
    &tool_write_remote_file,
    NULL,
};
