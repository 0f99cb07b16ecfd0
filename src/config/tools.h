/*
 * tools.h - tools that the operator adds: [[tool]] tables of the files, each with a command that
 * runs in the sandbox and gets the arguments as variables.
 *
 * One that is wrong is left out and said in config.tools_problem; the others are offered.
 */
#ifndef CONFIG_TOOLS_H
#define CONFIG_TOOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

#define CONFIG_TOOLS_MAX  64
#define CONFIG_PARAMS_MAX 16

enum config_param_type {
    CONFIG_PARAM_STRING,
    CONFIG_PARAM_INTEGER,
    CONFIG_PARAM_NUMBER,
    CONFIG_PARAM_BOOLEAN,
};

struct config_param {
    struct str name; /* terminated, like all that an answer shows as it is */
    struct str help;
    struct str fallback;  /* as text; empty: "", 0 or false */
    const char **choices; /* of strings; NULL: any */
    enum config_param_type type;
    bool required;
};

struct config_tool {
    struct str name, title, help;
    struct str command;
    struct str cwd;
    struct str
        resource;      /* "benchmark://{sandbox_id}/results", where its last answer is; or empty */
    int64_t timeout_s; /* 0: as any command */
    bool read_only;
    struct config_param *params;
    size_t n_params;
};

#endif
