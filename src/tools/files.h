/* files.h - what the file tools share: how a path is read. */
#ifndef TOOLS_FILES_H
#define TOOLS_FILES_H

#include "tools/answer.h"

#define FILES_PATH_MAX 4096

/*
 * The path as it is used and answered: trimmed and normalised as POSIX paths are ("a//b/../c"
 * is "a/c", "" is "."), relative when it came relative. "~" stays in front, and what follows
 * it is normalised on its own.
 */
struct str files_path(struct arena *a, struct str typed);

/* When an operation on `path` failed because it is not what the tool works on, the sentence
 * says so and what to use: `want` is FILE_REGULAR or FILE_DIR. Returns -1. */
int files_explain(struct call *c, struct box *b, struct str path, enum file_type want,
                  struct err *e);

#endif
