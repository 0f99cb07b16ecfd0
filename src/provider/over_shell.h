/*
 * over_shell.h - files, trees and figures by scripts in the box's own sh (shell.h).
 *
 * Implemented once for every provider whose boxes can run a script with exact bytes in and out.
 * Its provider_ops name its way as `shell`, and these.
 */
#ifndef PROVIDER_OVER_SHELL_H
#define PROVIDER_OVER_SHELL_H

#include "provider/provider.h"

extern const struct file_ops files_over_shell; /* shell_files.c */
extern const struct tree_ops trees_over_shell;
extern const struct meter_ops meter_over_shell;

#endif
