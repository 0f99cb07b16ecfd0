/* command.h - what a command is given: environment, folder, program. Text only. */
#ifndef BOXINIT_COMMAND_H
#define BOXINIT_COMMAND_H

#include <stddef.h>

#include "base/arena.h"
#include "base/str.h"
#include "boxinit/spec.h"

/* A NULL-terminated environment: the variables of `first`, then those of `second`, which
 * win; within one list the later one wins. Order of first mention. */
char **command_env(struct arena *a, const struct str *first, size_t n_first,
                   const struct str *second, size_t n_second);
/* The value of a variable, or empty. */
struct str command_var(char *const *env, struct str name);
/* Where a program may lie, in order, NULL-terminated: itself when it has a '/', else
 * once for each folder of `path`. */
const char **command_files(struct arena *a, struct str program, struct str path);
/* An absolute path for what a client calls a path: "", "~", relative to the work folder. */
const char *command_path(const struct spec *spec, struct arena *a, struct str path);

#endif
