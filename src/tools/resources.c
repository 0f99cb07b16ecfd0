/* resources.c - every resource there is. The first that matches an address has it. */
#include "tools/resource_rows.h"

const struct resource *const resources[] = {
    &resource_list,  &resource_watches, &resource_status, &resource_logs,
    &resource_watch, &resource_file,    &resource_result, NULL,
};
