#include "base/alloc.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* No stdio: it could want memory itself. */
NORETURN static void die_out_of_memory(void)
{
    static const char message[] = "anybox: out of memory\n";

    if (write(STDERR_FILENO, message, sizeof(message) - 1) < 0) {
        abort(); /* nobody can be told, and nothing else is left to do */
    }
    abort();
}

static size_t checked_size(size_t n, size_t size)
{
    size_t total;

    if (__builtin_mul_overflow(n, size, &total) || total > PTRDIFF_MAX) {
        die_out_of_memory();
    }
    return total > 0 ? total : 1;
}

void *xmalloc(size_t size)
{
    void *p = malloc(checked_size(1, size));

    if (p == NULL) {
        die_out_of_memory();
    }
    return p;
}

void *xcalloc(size_t n, size_t size)
{
    void *p = calloc(1, checked_size(n, size));

    if (p == NULL) {
        die_out_of_memory();
    }
    return p;
}

void *xrealloc(void *old, size_t n, size_t size)
{
    void *p = realloc(old, checked_size(n, size));

    if (p == NULL) {
        die_out_of_memory();
    }
    return p;
}

char *xstrdup(const char *s)
{
    return xmemdup(s, strlen(s));
}

void *xmemdup(const void *p, size_t len)
{
    char *copy;

    if (len == SIZE_MAX) {
        die_out_of_memory();
    }
    copy = xmalloc(len + 1);
    if (len > 0) {
        memcpy(copy, p, len);
    }
    copy[len] = '\0';
    return copy;
}
