/* exec.h - run a shell command in a box and answer for it: the one way for every tool
 * that does, whatever its name. */
#ifndef TOOLS_EXEC_H
#define TOOLS_EXEC_H

#include "tools/answer.h"

#define EXEC_COMMAND_MAX (1 << 20) /* bytes */
#define EXEC_TIMEOUT_MAX 86400     /* seconds */
#define EXEC_CHARS_MAX   200000    /* characters of each stream in an answer; more is cut to it */

/* What the exec tools share; each embeds it in its argument struct or is it. */
struct exec_args {
    struct box_args box;
    struct str command, cwd, input;
    int64_t timeout_s;        /* 0: the configured default, or handed over after a while */
    int64_t max_output_chars; /* 0: the configured default */
    struct str_list env;
    struct str id;            /* of the task that it may become; empty: any */
    struct str label;         /* what the journal calls it; empty: the command */
    const struct sink *whole; /* NULL, or: gets all of the output as well */
};

int exec_answer(struct call *c, const struct exec_args *given, json_t **out, struct err *e)
    MUST_CHECK;
#define STREAM_BYTES_MAX (200u << 10) /* escaped twice over, two of them stay below TOOL_TEXT_MAX */
struct output;
/* Puts the stream's text, ending with `line` where there is one. True when it was cut. */
bool exec_put_stream(struct output *output, json_t *o, const char *key, enum stream which,
                     struct str line);
/* Keeps it in the journal of the call's box. */
void exec_note_down(struct call *c, struct str command, const json_t *answer);

/* Rows for the parameter tables. */
#define PARAM_COMMAND                                                                              \
    {                                                                                              \
        .name = "command", .type = PARAM_STRING, .offset = offsetof(struct exec_args, command),    \
        .required = true, .max = EXEC_COMMAND_MAX, .help = "the shell text to run",                \
        .too_long = "write it into a file with write_remote_file and run that",                    \
    }
#define PARAM_CWD                                                                                  \
    {                                                                                              \
        .name = "cwd", .type = PARAM_STRING, .offset = offsetof(struct exec_args, cwd),            \
        .max = 4096, .help = "folder to run in",                                                   \
    }
#define PARAM_TIMEOUT(spelling)                                                                    \
    {                                                                                              \
        .name = (spelling), .type = PARAM_INTEGER,                                                 \
        .offset = offsetof(struct exec_args, timeout_s), .min = 1, .max = EXEC_TIMEOUT_MAX,        \
        .help = "seconds until it is killed; default: after 45 s it goes on as a task",            \
    }
#define PARAM_CHARS                                                                                \
    {                                                                                              \
        .name = "max_output_chars", .type = PARAM_INTEGER,                                         \
        .offset = offsetof(struct exec_args, max_output_chars), .min = 1, .max = INT64_MAX,        \
        .help = "of each stream in the answer (default 20000)",                                    \
    }
#define PARAM_ENVIRONMENT                                                                          \
    {                                                                                              \
        .name = "env", .type = PARAM_ENV, .offset = offsetof(struct exec_args, env),               \
        .help = "variables to add",                                                                \
    }
#define PARAM_STDIN                                                                                \
    {                                                                                              \
        .name = "stdin", .type = PARAM_STRING, .offset = offsetof(struct exec_args, input),        \
        .max = 4 << 20, .help = "text for standard input",                                         \
    }

#endif
