/* prompt_rows.h - the prompts, for the table in prompts.c. */
#ifndef TOOLS_PROMPT_ROWS_H
#define TOOLS_PROMPT_ROWS_H

#include "tools/prompt.h"

extern const struct prompt prompt_long_job;

#endif
