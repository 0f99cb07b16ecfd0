/*
 * json_file.h - a configuration file in JSON, as the OpenSandbox MCP server has it: sections
 * with keys, into the tree that toml.h describes. Of its keys those are taken that mean something
 * here; others are left alone.
 */
#ifndef CONFIG_JSON_FILE_H
#define CONFIG_JSON_FILE_H

#include "config/toml.h"

/* In the arena. NULL: ERR_INVALID with line and column. */
struct toml_value *json_file_parse(struct arena *a, struct str file, struct str text, struct err *e)
    MUST_CHECK;

#endif
