/*
 * value.h - JSON as the Engine speaks it: a small reader of what it answers, and the one
 * function that writes text into what we ask.
 *
 * A daemon is not trusted more than any other peer: depth and number of values are bounded,
 * strings are decoded to UTF-8 and may hold anything. A member that is missing, or of another
 * type, reads as empty, zero or false, so that callers name what they want and check that.
 */
#ifndef PROVIDER_DOCKER_VALUE_H
#define PROVIDER_DOCKER_VALUE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"

#define VALUE_DEPTH 64
#define VALUES_MAX  400000

enum value_type {
    VALUE_NULL,
    VALUE_BOOLEAN,
    VALUE_NUMBER,
    VALUE_STRING,
    VALUE_ARRAY,
    VALUE_OBJECT,
};

struct value {
    enum value_type type;
    struct str key;      /* of a member */
    struct str text;     /* VALUE_STRING: decoded; VALUE_NUMBER: as it came */
    bool is_true;        /* VALUE_BOOLEAN */
    struct value *first; /* of an array or object */
    struct value *next;  /* beside it */
};

/* One value and nothing after it. ERR_PROTOCOL; all that is found lives in the arena. */
struct value *value_parse(struct arena *a, struct str text, struct err *e) MUST_CHECK;

/* A path of members with dots between them: "State.Status". NULL is fine, and may be the answer. */
const struct value *value_at(const struct value *v, const char *path);
struct str value_text(const struct value *v, const char *path); /* a string */
int64_t value_int(const struct value *v, const char *path);     /* a whole number */
bool value_bool(const struct value *v, const char *path);
/* A member whose name may have dots in it. */
struct str value_member(const struct value *v, struct str name);

/* Appends `s` with its quotes; what is no UTF-8 becomes U+FFFD. */
void value_quote(struct buf *to, struct str s);

#endif
