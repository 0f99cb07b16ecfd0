#include "base/arena.h"

#include <stdalign.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define BLOCK_MIN ((size_t)4096)
#define BLOCK_MAX ((size_t)64 << 10)
#define ALIGN     alignof(max_align_t)

struct arena_block {
    struct arena_block *next;
    size_t size, used;
    alignas(max_align_t) char bytes[];
};

void arena_init(struct arena *a, size_t limit)
{
    *a = (struct arena){.limit = limit};
}

void arena_fini(struct arena *a)
{
    struct arena_block *block = a->blocks;

    while (block != NULL) {
        struct arena_block *next = block->next;

        free(block);
        block = next;
    }
    *a = (struct arena){.limit = a->limit};
}

NORETURN static void die_over_limit(const struct arena *a)
{
    (void)fprintf(stderr, "anybox: bug: a call wanted more than its %zu bytes of memory\n",
                  a->limit);
    abort();
}

/* Memory comes zeroed from calloc() and is handed out only once, so nothing has to
 * be cleared here. */
static struct arena_block *new_block(size_t size)
{
    struct arena_block *block = xcalloc(1, sizeof(*block) + size);

    block->size = size;
    return block;
}

/* A block with room for size bytes. What is bigger than a usual block gets one of
 * its own behind the first, whose rest stays in use. */
static struct arena_block *block_for(struct arena *a, size_t size)
{
    struct arena_block *first = a->blocks;
    struct arena_block *block;
    size_t usual;

    if (first != NULL && first->size - first->used >= size) {
        return first;
    }
    usual = first ? first->size * 2 : BLOCK_MIN;
    if (usual > BLOCK_MAX) {
        usual = BLOCK_MAX;
    }
    if (size > usual && first != NULL) {
        block = new_block(size);
        block->next = first->next;
        first->next = block;
        return block;
    }
    block = new_block(size > usual ? size : usual);
    block->next = first;
    a->blocks = block;
    return block;
}

void *arena_alloc(struct arena *a, size_t n, size_t size)
{
    struct arena_block *block;
    size_t total;
    void *p;

    if (__builtin_mul_overflow(n, size, &total) || total > a->limit - a->used ||
        a->limit - a->used - total < ALIGN) {
        die_over_limit(a);
    }
    total = total > 0 ? (total + ALIGN - 1) / ALIGN * ALIGN : ALIGN;
    block = block_for(a, total);
    p = block->bytes + block->used;
    block->used += total;
    a->used += total;
    return p;
}

struct str arena_str(struct arena *a, struct str s)
{
    char *copy = arena_alloc(a, s.len + 1, 1);

    if (s.len > 0) {
        memcpy(copy, s.p, s.len);
    }
    return (struct str){copy, s.len};
}

const char *arena_cstr(struct arena *a, struct str s)
{
    const char *nul = s.len > 0 ? memchr(s.p, '\0', s.len) : NULL;

    return arena_str(a, nul ? str_head(s, (size_t)(nul - s.p)) : s).p;
}

PRINTF_LIKE(3, 0)
static struct str print(struct arena *a, size_t len, const char *fmt, va_list args)
{
    char *text = arena_alloc(a, len + 1, 1);

    if (vsnprintf(text, len + 1, fmt, args) < 0) {
        len = 0;
    }
    return (struct str){text, len};
}

struct str arena_printf(struct arena *a, const char *fmt, ...)
{
    struct str text;
    va_list args, again;
    int len;

    va_start(args, fmt);
    va_copy(again, args);
    len = vsnprintf(NULL, 0, fmt, args);
    text = print(a, len > 0 ? (size_t)len : 0, fmt, again);
    va_end(again);
    va_end(args);
    return text;
}
