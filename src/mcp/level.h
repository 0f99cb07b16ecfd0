/* level.h - the protocol's names of log levels. */
#ifndef MCP_LEVEL_H
#define MCP_LEVEL_H

#include "base/str.h"
#include "tools/tool.h"

#define LEVEL_NAMES "debug, info, notice, warning, error, critical, alert and emergency"

const char *level_name(enum call_level level);
enum call_level level_find(struct str name); /* LEVEL_NONE: no such level */

#endif
