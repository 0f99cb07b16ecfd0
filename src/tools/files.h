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

/* The same for a file that is to be written. ERR_INVALID when it cannot be one. */
int files_target(struct call *c, struct str path, struct str *out, struct err *e) MUST_CHECK;
/* "755", "0755" and "0o755"; empty is 0. */
int files_mode(struct str text, mode_t *out, struct err *e) MUST_CHECK;
/* box_file_write() of bytes that we have; *size is the file's then. */
int files_write(struct call *c, struct box *b, struct str path, struct str bytes, mode_t mode,
                enum write_flags flags, int64_t *size, struct err *e) MUST_CHECK;

/* When an operation on `path` failed because it is not what the tool works on, the sentence
 * says so and what to use: `want` is FILE_REGULAR or FILE_DIR. Returns -1. */
int files_explain(struct call *c, struct box *b, struct str path, enum file_type want,
                  struct err *e);

#endif
