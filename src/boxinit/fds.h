/* fds.h - which descriptors a process keeps. */
#ifndef BOXINIT_FDS_H
#define BOXINIT_FDS_H

#include <stddef.h>

#include "base/err.h"

/* Closes every descriptor above stderr but these; -1 among them is fine. Sorts them. */
int fds_close_others(int *keep, size_t n, struct err *e) MUST_CHECK;

#endif
