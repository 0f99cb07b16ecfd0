/* prompt_rows.h - the prompts, for the table in prompts.c. */
#ifndef TOOLS_PROMPT_ROWS_H
#define TOOLS_PROMPT_ROWS_H

#include "tools/prompt.h"

extern const struct prompt prompt_debug_in_sandbox;
extern const struct prompt prompt_deploy_to_sandbox;
extern const struct prompt prompt_long_job;
extern const struct prompt prompt_test_in_sandbox;

#endif
