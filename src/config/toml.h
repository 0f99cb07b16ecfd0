/*
 * toml.h - a strict subset of TOML 1.0, into a tree in an arena.
 *
 * Tables, arrays of tables, bare, quoted and dotted keys, basic and literal strings,
 * integers, floats, booleans, flat arrays of strings or of integers, comments. What
 * the subset leaves out (dates, multi-line strings, inline tables, nested arrays,
 * inf and nan) is refused with a sentence, so that a file never means something else
 * here than elsewhere. Errors begin with "<file>:<line>:<column>: ".
 */
#ifndef CONFIG_TOML_H
#define CONFIG_TOML_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

#define TOML_MAX_BYTES  (1u << 20)
#define TOML_MAX_VALUES 8192 /* keys, tables and array items in one file */
#define TOML_MAX_PARTS  16   /* of a dotted key */

enum toml_type {
    TOML_STRING,
    TOML_INTEGER,
    TOML_FLOAT,
    TOML_BOOLEAN,
    TOML_ARRAY,  /* items, each a value without a key */
    TOML_TABLE,  /* items by key */
    TOML_TABLES, /* [[x]]: items are tables */
};

/* Where something stands in the file, from 1 on; columns count characters. */
struct toml_place {
    int line, column;
};

enum toml_made {                 /* how a table came to be, which decides who may add to it */
                 TOML_BY_PATH,   /* on the way to [a.b] */
                 TOML_BY_HEADER, /* by its own [a.b] */
                 TOML_BY_DOTS,   /* by a.b = 1 */
};

struct toml_value {
    enum toml_type type;
    enum toml_made made;
    struct str key; /* empty for the root and for items of arrays */
    struct toml_place key_at, at;
    struct str string;
    int64_t integer;
    double real;
    bool boolean;
    struct toml_value *first, *last, *next; /* items in the order of the file */
};

/* The root table, in the arena; its strings are there too or point into `text`. `file`
 * is what errors call it. NULL: ERR_INVALID or ERR_LIMIT. */
struct toml_value *toml_parse(struct arena *a, struct str file, struct str text, struct err *e)
    MUST_CHECK;

/* "a string", "an integer"...: for sentences. */
const char *toml_type_name(enum toml_type type);

/* ERR_INVALID with the place in front: "<file>:<line>:<column>: ...". */
int toml_fail(struct err *e, struct str file, struct toml_place at, const char *fmt, ...)
    PRINTF_LIKE(4, 5);

#endif
