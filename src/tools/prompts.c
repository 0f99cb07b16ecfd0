/* prompts.c - every prompt there is. */
#include "tools/prompt_rows.h"

const struct prompt *const prompts[] = {&prompt_long_job, NULL};
