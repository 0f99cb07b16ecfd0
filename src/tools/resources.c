/* resources.c - every resource there is: none yet. */
#include "tools/resource.h"

const struct resource *const resources[] = {NULL};
