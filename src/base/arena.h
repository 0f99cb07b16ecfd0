/*
 * arena.h - memory with the lifetime of a call.
 *
 * Allocation is zeroed, aligned for any type and cannot fail: an arena over its
 * limit, or out of memory, ends the program (limits are far above what bounded
 * inputs can need). Nothing is freed before arena_fini(). Not thread-safe: an
 * arena belongs to one call and so to one thread.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>

#include "base/attr.h"
#include "base/str.h"

struct arena {
    struct arena_block *blocks;
    size_t used, limit;
};

void arena_init(struct arena *a, size_t limit); /* allocates nothing yet */
void arena_fini(struct arena *a);
void *arena_alloc(struct arena *a, size_t n, size_t size) MUST_CHECK;
#define arena_new(a, type) ((type *)arena_alloc((a), 1, sizeof(type)))

/* Copies; the result is terminated as well, so .p can go to a C interface. */
struct str arena_str(struct arena *a, struct str s);
/* The bytes up to the first NUL, terminated. */
const char *arena_cstr(struct arena *a, struct str s);
struct str arena_printf(struct arena *a, const char *fmt, ...) PRINTF_LIKE(2, 3);

#define own_arena CLEANUP(arena_fini)

#endif
