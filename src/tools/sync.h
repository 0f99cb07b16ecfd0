/*
 * sync.h - what the two sync tools share: arguments, the way from a plan to an answer, and when
 * a sync goes on in the background.
 */
#ifndef TOOLS_SYNC_H
#define TOOLS_SYNC_H

#include "sync/sync.h"
#include "tools/files.h"

struct sync_args {
    struct box_args box;
    struct str local_path, remote_path, exclude_file, exclude_style;
    struct str_list excludes;
    bool delete_extras, respect_gitignore, checksum, dry_run, force;
};

extern const char *const sync_styles[]; /* "git", "legacy" */

#define SYNC_PARAMS_UP(args)                                                                       \
    {                                                                                              \
        .name = "local_path",                                                                      \
        .type = PARAM_STRING,                                                                      \
        .offset = offsetof(args, local_path),                                                      \
        .max = FILES_PATH_MAX,                                                                     \
        .fallback_text = ".",                                                                      \
        .help = "local folder or file",                                                            \
    },                                                                                             \
    {                                                                                              \
        .name = "remote_path", .type = PARAM_STRING, .offset = offsetof(args, remote_path),        \
        .max = FILES_PATH_MAX, .fallback_text = ".", .help = "where it goes",                      \
    }

/* All but the paths. What is seldom needed is not shown: each list costs its reader. */
#define SYNC_PARAMS(args)                                                                          \
    {                                                                                              \
        .name = "delete_extras",                                                                   \
        .type = PARAM_BOOLEAN,                                                                     \
        .offset = offsetof(args, delete_extras),                                                   \
        .help = "delete what the source lacks",                                                    \
    },                                                                                             \
        {.name = "excludes",                                                                       \
         .type = PARAM_STRINGS,                                                                    \
         .offset = offsetof(args, excludes),                                                       \
         .max = 4096,                                                                              \
         .help = "gitignore patterns"},                                                            \
        {.name = "dry_run",                                                                        \
         .type = PARAM_BOOLEAN,                                                                    \
         .offset = offsetof(args, dry_run),                                                        \
         .help = "only tell the plan"},                                                            \
        PARAM_BOX_SHORT(args),                                                                     \
        {.name = "respect_gitignore",                                                              \
         .type = PARAM_BOOLEAN,                                                                    \
         .offset = offsetof(args, respect_gitignore),                                              \
         .help = "leave out what .gitignore files name",                                           \
         .hidden = true},                                                                          \
        {.name = "exclude_file",                                                                   \
         .type = PARAM_STRING,                                                                     \
         .offset = offsetof(args, exclude_file),                                                   \
         .max = 4096,                                                                              \
         .help = "local file with patterns, one on a line, before those of excludes",              \
         .hidden = true},                                                                          \
        {.name = "exclude_style",                                                                  \
         .type = PARAM_STRING,                                                                     \
         .offset = offsetof(args, exclude_style),                                                  \
         .choices = sync_styles,                                                                   \
         .fallback_text = "git",                                                                   \
         .help = "legacy: patterns mean what they do in remote-sandbox-mcp",                       \
         .hidden = true},                                                                          \
        {.name = "checksum",                                                                       \
         .type = PARAM_BOOLEAN,                                                                    \
         .offset = offsetof(args, checksum),                                                       \
         .help = "compare contents, not size and time",                                            \
         .hidden = true},                                                                          \
    {                                                                                              \
        .name = "force", .type = PARAM_BOOLEAN, .offset = offsetof(args, force),                   \
        .help = "do not ask the user before delete_extras deletes", .hidden = true,                \
    }

/* What is wanted, with paths resolved. *later: see local_path(). */
int sync_prepare(struct call *c, const struct sync_args *args, enum sync_direction direction,
                 struct sync_job *job, bool *later, struct err *e) MUST_CHECK;
/* run() of both tools. */
int sync_tool(struct call *c, const struct sync_args *args, enum sync_direction direction,
              json_t **out, struct err *e) MUST_CHECK;

/* One file up, in the call whatever its size; a folder is ERR_INVALID. *out stays NULL when the
 * client has to be asked first. */
int sync_file_up(struct call *c, const struct sync_args *args, json_t **out, struct err *e)
    MUST_CHECK;

/* Up, and in the background whatever its size. */
int sync_in_background(struct call *c, const struct sync_args *args, json_t **out, struct err *e)
    MUST_CHECK;

/* ---- sync_answer.c --------------------------------------------------------------------- */

/* The plan as the answer of dry_run. */
json_t *sync_answer_plan(const struct sync_plan *p, const struct sync_job *job, bool background);
/* What was done. */
json_t *sync_answer_done(const struct sync_plan *p, const struct sync_job *job,
                         const struct sync_result *r, int64_t ms);
/* Files among those of a plan that this machine would run by itself; NULL: none. */
json_t *sync_answer_warnings(const struct sync_plan *p);

#endif
