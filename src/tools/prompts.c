/* prompts.c - every prompt there is. */
#include "tools/prompt_rows.h"

const struct prompt *const prompts[] = {
    &prompt_debug_in_sandbox,
    &prompt_deploy_to_sandbox,
    &prompt_long_job,
    &prompt_test_in_sandbox,
    NULL,
};
