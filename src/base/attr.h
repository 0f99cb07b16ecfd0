/* attr.h - compiler attributes and the two macros everyone needs. */
#ifndef BASE_ATTR_H
#define BASE_ATTR_H

#include <stddef.h>

#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args), nonnull(fmt)))
#define MUST_CHECK             __attribute__((warn_unused_result))
#define NORETURN               __attribute__((noreturn))
#define UNUSED                 __attribute__((unused))
#define CLEANUP(fn)            __attribute__((cleanup(fn)))

#define COUNTOF(array)                  (sizeof(array) / sizeof((array)[0]))
#define CONTAINER_OF(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

#endif
