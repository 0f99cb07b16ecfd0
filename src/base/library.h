/* library.h - libraries that are opened when they are first needed: linked, they would cost every
 * start, and who does not use them could not even install us without them. */
#ifndef BASE_LIBRARY_H
#define BASE_LIBRARY_H

#include <stddef.h>

#include "base/err.h"

#define LIBRARY_NAMES 3

struct library {
    const char *names[LIBRARY_NAMES]; /* files, tried in this order; NULL: no more */
    const char *who;     /* "SSH hosts need": begins the sentence when it is not there */
    const char *package; /* what to install */
    const char *version; /* that has all functions */
};

/* A function of the library, and where its pointer goes in the caller's table. */
struct library_function {
    const char *name;
    size_t offset;
};

/* Fills the table in. The library stays open. ERR_UNSUPPORTED with what to install. */
int library_open(const struct library *l, const struct library_function *functions, size_t n,
                 void *table, struct err *e) MUST_CHECK;

#endif
