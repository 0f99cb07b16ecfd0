/* task_answer.h - how a task looks in an answer, and which one is meant. */
#ifndef TOOLS_TASK_ANSWER_H
#define TOOLS_TASK_ANSWER_H

#include "core/tasks.h"
#include "tools/answer.h"

#define TASK_PATH_MAX 4096

/* What the tools that name a task share. */
struct task_args {
    struct box_args box;
    struct str id, session, log;
    int64_t watch_id;
};

#define PARAM_TASK(args)                                                                           \
    {                                                                                              \
        .name = "task_id",                                                                         \
        .type = PARAM_STRING,                                                                      \
        .offset = offsetof(args, task.id),                                                         \
        .max = 64,                                                                                 \
        .help = "of the start",                                                                    \
    },                                                                                             \
        {                                                                                          \
            .name = "tmux_session",                                                                \
            .type = PARAM_STRING,                                                                  \
            .offset = offsetof(args, task.session),                                                \
            .max = BOX_WORD_MAX,                                                                   \
            .help = "or its name",                                                                 \
        },                                                                                         \
        {                                                                                          \
            .name = "log_file",                                                                    \
            .type = PARAM_STRING,                                                                  \
            .offset = offsetof(args, task.log),                                                    \
            .max = TASK_PATH_MAX,                                                                  \
            .hidden = true,                                                                        \
            .help = "or its log's path",                                                           \
        },                                                                                         \
        {                                                                                          \
            .name = "watch_id",                                                                    \
            .type = PARAM_INTEGER,                                                                 \
            .offset = offsetof(args, task.watch_id),                                               \
            .hidden = true,                                                                        \
            .min = 0,                                                                              \
            .max = INT64_MAX,                                                                      \
            .help = "or its watch's id",                                                           \
        },                                                                                         \
        {                                                                                          \
            .name = "sandbox_id",                                                                  \
            .type = PARAM_STRING,                                                                  \
            .offset = offsetof(args, task.box.id),                                                 \
            .max = BOX_WORD_MAX,                                                                   \
            .hidden = true,                                                                        \
            .help = "of this sandbox",                                                             \
        },                                                                                         \
    {                                                                                              \
        .name = "sandbox_name", .type = PARAM_STRING, .offset = offsetof(args, task.box.name),     \
        .max = BOX_WORD_MAX, .hidden = true, .help = "the same",                                   \
    }

struct task_ctx task_call(struct call *c);
/* True: no task is named. */
bool task_is_any(const struct task_args *args);
int task_query(struct call *c, const struct task_args *args, struct task_query *out, struct err *e)
    MUST_CHECK;

/* A path or a text for a script: control characters would break its lines. */
int task_check_text(struct str text, const char *what, struct err *e) MUST_CHECK;

/* May regcomp() be asked about this regular expression? It unfolds repetitions, so that a few
 * brackets inside each other take all memory. (pure) */
bool task_regex_is_small(struct str regex);

/* All that is known but the text. */
json_t *task_answer(struct call *c, const struct task_view *v);
/* log_tail and what goes with it: the last `lines`, or with from >= 0 what is from there on. */
void task_answer_text(json_t *o, const struct task_view *v, int64_t from, int64_t lines);
/* Puts log_incomplete where it is; a sentence about it, or empty. */
struct str task_answer_gaps(json_t *o, const struct task_seen *s, struct arena *a);
/* "SIGKILL". */
json_t *answer_signal(int number);
/* The name that its user knows a box by: a host's own, else the id. */
struct str answer_box_name(struct str box_id);

#endif
