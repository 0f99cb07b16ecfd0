#include "mcp/level.h"

static const char *const names[LEVEL_NONE] = {
    [LEVEL_DEBUG] = "debug",     [LEVEL_INFO] = "info",           [LEVEL_NOTICE] = "notice",
    [LEVEL_WARNING] = "warning", [LEVEL_ERROR] = "error",         [LEVEL_CRITICAL] = "critical",
    [LEVEL_ALERT] = "alert",     [LEVEL_EMERGENCY] = "emergency",
};

const char *level_name(enum call_level level)
{
    return names[level];
}

enum call_level level_find(struct str name)
{
    for (int i = 0; i < LEVEL_NONE; i++) {
        if (str_eq(name, str_from(names[i]))) {
            return (enum call_level)i;
        }
    }
    return LEVEL_NONE;
}
