/*
 * toml_reader.h - what toml.c (keys and tables) and toml_value.c (strings, numbers and
 * arrays) share. Nobody else includes it.
 */
#ifndef CONFIG_TOML_READER_H
#define CONFIG_TOML_READER_H

#include "config/toml.h"

struct reader {
    struct arena *arena;
    struct str file;
    struct str text;
    size_t pos;
    int line;
    size_t column_pos; /* where `column` was counted last, on this line */
    int column;
    size_t n_values;
    struct toml_value *table; /* where "key = value" goes */
    struct err *e;
};

/* The byte that many behind the position, -1 behind the end. */
static inline int reader_peek_at(const struct reader *r, size_t ahead)
{
    return r->pos + ahead < r->text.len ? (unsigned char)r->text.p[r->pos + ahead] : -1;
}

static inline int reader_peek(const struct reader *r)
{
    return reader_peek_at(r, 0);
}

static inline bool reader_is_digit(int c)
{
    return c >= '0' && c <= '9';
}

static inline bool reader_is_letter(int c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Control characters that TOML allows nowhere. */
static inline bool reader_is_control(int c)
{
    return (c >= 0 && c < ' ' && c != '\t') || c == 0x7f;
}

struct toml_place reader_here(struct reader *r);
#define READER_FAIL(r, ...) toml_fail((r)->e, (r)->file, reader_here(r), __VA_ARGS__)

void reader_skip_blanks(struct reader *r);
/* Blanks, comments and line ends: between lines, and inside an array. */
int reader_skip_space(struct reader *r) MUST_CHECK;
/* NULL with ERR_LIMIT when the file has too many. */
struct toml_value *reader_new_value(struct reader *r, enum toml_type type, struct str key,
                                    struct toml_place key_at) MUST_CHECK;
void reader_append(struct toml_value *to, struct toml_value *v);

/* At a quote: the string's text; behind the closing quote. */
int reader_string(struct reader *r, struct str *out) MUST_CHECK;
/* Any value: fills in *v, which has its key already. */
int reader_value(struct reader *r, struct toml_value *v) MUST_CHECK;

#endif
