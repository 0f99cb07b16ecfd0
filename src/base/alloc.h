/* alloc.h - memory that cannot fail: out of memory ends the program with a message. */
#ifndef BASE_ALLOC_H
#define BASE_ALLOC_H

#include <stddef.h>

#include "base/attr.h"

void *xmalloc(size_t size) MUST_CHECK;
void *xcalloc(size_t n, size_t size) MUST_CHECK; /* zeroed; checks n * size */
void *xrealloc(void *old, size_t n, size_t size) MUST_CHECK;
char *xstrdup(const char *s) MUST_CHECK;
void *xmemdup(const void *p, size_t len) MUST_CHECK; /* terminated with an extra '\0' */

#endif
