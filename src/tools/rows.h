/* rows.h - the rows of table.c, each defined in the file of its name. */
#ifndef TOOLS_ROWS_H
#define TOOLS_ROWS_H

struct tool;

extern const struct tool tool_cancel_background_task;
extern const struct tool tool_cancel_background_watch;
extern const struct tool tool_cancel_file_transfer_task;
extern const struct tool tool_check_background_task;
extern const struct tool tool_check_file_transfer_task;
extern const struct tool tool_check_package_installation_status;
extern const struct tool tool_check_packages_installation_status;
extern const struct tool tool_create_sandbox;
extern const struct tool tool_delete_sandbox;
extern const struct tool tool_deploy_app;
extern const struct tool tool_download_files;
extern const struct tool tool_exec_bash;
extern const struct tool tool_exec_bash_background;
extern const struct tool tool_exec_bash_background_watch;
extern const struct tool tool_execute_python_code;
extern const struct tool tool_execute_terminal_command;
extern const struct tool tool_get_active_sandbox;
extern const struct tool tool_get_background_watch;
extern const struct tool tool_get_background_watch_progress;
extern const struct tool tool_get_watchdog_status;
extern const struct tool tool_install_macos_watchdog;
extern const struct tool tool_install_package_in_sandbox;
extern const struct tool tool_install_packages_in_sandbox;
extern const struct tool tool_install_watchdog;
extern const struct tool tool_list_background_watch_events;
extern const struct tool tool_list_background_watches;
extern const struct tool tool_list_remote_files;
extern const struct tool tool_list_sandboxes;
extern const struct tool tool_read_background_watch_checkpoint;
extern const struct tool tool_read_background_watch_log;
extern const struct tool tool_read_remote_file;
extern const struct tool tool_run_command;
extern const struct tool tool_run_tests;
extern const struct tool tool_select_sandbox;
extern const struct tool tool_sync_local_to_remote;
extern const struct tool tool_sync_local_to_remote_background;
extern const struct tool tool_sync_remote_to_local;
extern const struct tool tool_uninstall_macos_watchdog;
extern const struct tool tool_uninstall_watchdog;
extern const struct tool tool_upload_file_to_sandbox;
extern const struct tool tool_upload_files;
extern const struct tool tool_watch_background_task;
extern const struct tool tool_write_remote_file;

#endif
