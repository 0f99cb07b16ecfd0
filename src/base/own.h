/*
 * own.h - locals that own something and let go of it when the scope ends.
 *
 * Only on a local that owns, and initialized on the same line. take() and
 * take_fd() hand the thing on and leave the local empty.
 */
#ifndef BASE_OWN_H
#define BASE_OWN_H

#include <stdlib.h>
#include <unistd.h>

#include "base/attr.h"

static inline void own_free_(void *p)
{
    free(*(void **)p);
}

static inline void own_close_(const int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd);
    }
}

static inline int take_fd(int *fd)
{
    int taken = *fd;
    *fd = -1;
    return taken;
}

#define own_mem CLEANUP(own_free_)
#define own_fd  CLEANUP(own_close_)
#define take(ptr)                                                                                  \
    (__extension__({                                                                               \
        __typeof__(ptr) taken_ = (ptr);                                                            \
        (ptr) = NULL;                                                                              \
        taken_;                                                                                    \
    }))

#endif
