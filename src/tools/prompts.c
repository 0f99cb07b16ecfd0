/* prompts.c - every prompt there is: none yet. */
#include "tools/prompt.h"

const struct prompt *const prompts[] = {NULL};
