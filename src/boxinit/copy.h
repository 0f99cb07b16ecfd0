/* copy.h - boxinit as a file that nobody can change. */
#ifndef BOXINIT_COPY_H
#define BOXINIT_COPY_H

#include "boxinit/spec.h"

/* Where the payload of this box is who owns this program's file: runs a copy of it in memory
 * in its place, which reads the spec again. Else, and in the copy, just returns 0. */
int copy_for(const struct spec *spec, struct err *e) MUST_CHECK;
/* The same wherever we own the file, as `mode` of boxinit. */
int copy_run(const char *mode, struct err *e) MUST_CHECK;

#endif
