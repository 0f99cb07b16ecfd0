#include "base/str.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN_MAX    40 /* bytes of a refused value that a message repeats */
#define NUMBER_MAX   64 /* no number that we accept is written with more bytes */
#define DISTANCE_MAX 64 /* longer words are never a slip of the finger */

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static char lower(char c)
{
    if (c >= 'A' && c <= 'Z') {
        return (char)(c - 'A' + 'a');
    }
    return c;
}

struct str str_from(const char *cstr)
{
    return cstr ? (struct str){cstr, strlen(cstr)} : STR_EMPTY;
}

bool str_eq(struct str a, struct str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.p, b.p, a.len) == 0);
}

bool str_eq_nocase(struct str a, struct str b)
{
    if (a.len != b.len) {
        return false;
    }
    for (size_t i = 0; i < a.len; i++) {
        if (lower(a.p[i]) != lower(b.p[i])) {
            return false;
        }
    }
    return true;
}

int str_cmp(struct str a, struct str b)
{
    size_t common = a.len < b.len ? a.len : b.len;
    int order = common > 0 ? memcmp(a.p, b.p, common) : 0;

    if (order != 0) {
        return order;
    }
    return a.len < b.len ? -1 : a.len > b.len;
}

bool str_starts(struct str s, struct str prefix)
{
    return s.len >= prefix.len && str_eq(str_head(s, prefix.len), prefix);
}

bool str_ends(struct str s, struct str suffix)
{
    return s.len >= suffix.len && str_eq(str_skip(s, s.len - suffix.len), suffix);
}

bool str_has(struct str s, char c)
{
    return s.len > 0 && memchr(s.p, c, s.len) != NULL;
}

struct str str_skip(struct str s, size_t n)
{
    if (n >= s.len) {
        n = s.len;
    }
    return s.p ? (struct str){s.p + n, s.len - n} : STR_EMPTY;
}

struct str str_head(struct str s, size_t n)
{
    return (struct str){s.p, n < s.len ? n : s.len};
}

struct str str_trim(struct str s)
{
    while (s.len > 0 && is_space(s.p[0])) {
        s = str_skip(s, 1);
    }
    while (s.len > 0 && is_space(s.p[s.len - 1])) {
        s.len--;
    }
    return s;
}

struct str str_cut(struct str s, char sep, struct str *rest)
{
    const char *at = s.len > 0 ? memchr(s.p, sep, s.len) : NULL;
    size_t before;

    if (at == NULL) {
        *rest = STR_EMPTY;
        return s;
    }
    before = (size_t)(at - s.p);
    *rest = str_skip(s, before + 1);
    return str_head(s, before);
}

/* A refused value as a message may repeat it: short, and printable ASCII only. */
static const char *shown(struct str s, char to[SHOWN_MAX + sizeof("...")])
{
    size_t n = 0;

    for (; n < s.len && n < SHOWN_MAX; n++) {
        to[n] = '?';
        if (s.p[n] >= ' ' && s.p[n] <= '~') {
            to[n] = s.p[n];
        }
    }
    if (n < s.len) {
        memcpy(to + n, "...", 3);
        n += 3;
    }
    to[n] = '\0';
    return to;
}

/* Digits only, at least one; false when it is something else or beyond 64 bits. */
static bool read_digits(struct str s, uint64_t *out)
{
    uint64_t value = 0;

    if (s.len == 0) {
        return false;
    }
    for (size_t i = 0; i < s.len; i++) {
        if (!is_digit(s.p[i]) || __builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, (uint64_t)(s.p[i] - '0'), &value)) {
            return false;
        }
    }
    *out = value;
    return true;
}

static bool only_digits(struct str s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (!is_digit(s.p[i])) {
            return false;
        }
    }
    return s.len > 0;
}

int str_to_i64(struct str s, int64_t min, int64_t max, int64_t *out, struct err *e)
{
    char text[SHOWN_MAX + sizeof("...")];
    struct str digits = str_trim(s);
    bool negative = str_starts(digits, S("-"));
    uint64_t size = 0;
    int64_t value = 0;
    bool fits;

    if (negative || str_starts(digits, S("+"))) {
        digits = str_skip(digits, 1);
    }
    if (!only_digits(digits)) {
        return err_set(e, ERR_INVALID, "\"%s\" is not a whole number: use one from %lld to %lld",
                       shown(s, text), (long long)min, (long long)max);
    }
    fits = read_digits(digits, &size);
    if (negative) {
        fits = fits && !__builtin_sub_overflow((int64_t)0, size, &value);
    } else {
        fits = fits && !__builtin_add_overflow((int64_t)0, size, &value);
    }
    if (!fits || value < min || value > max) {
        return err_set(e, ERR_INVALID, "%s is out of range: use a number from %lld to %lld",
                       shown(str_trim(s), text), (long long)min, (long long)max);
    }
    *out = value;
    return 0;
}

/* strtod() also takes "inf", "nan" and hexadecimal, which nobody means. */
static bool read_decimal(struct str s, double *out)
{
    char copy[NUMBER_MAX + 1];
    char *end;

    if (s.len == 0 || s.len > NUMBER_MAX) {
        return false;
    }
    for (size_t i = 0; i < s.len; i++) {
        if (!is_digit(s.p[i]) && !str_has(S("+-.eE"), s.p[i])) {
            return false;
        }
        copy[i] = s.p[i];
    }
    copy[s.len] = '\0';
    *out = strtod(copy, &end);
    return end == copy + s.len && isfinite(*out);
}

int str_to_f64(struct str s, double *out, struct err *e)
{
    char text[SHOWN_MAX + sizeof("...")];
    double value;

    if (!read_decimal(str_trim(s), &value)) {
        return err_set(e, ERR_INVALID, "\"%s\" is not a number: use a decimal number such as 1.5",
                       shown(s, text));
    }
    *out = value;
    return 0;
}

int str_to_bool(struct str s, bool *out, struct err *e)
{
    static const char *const words[][2] = {
        {"0", "1"}, {"false", "true"}, {"no", "yes"}, {"off", "on"}};
    char text[SHOWN_MAX + sizeof("...")];
    struct str word = str_trim(s);

    for (size_t i = 0; i < COUNTOF(words); i++) {
        for (int value = 0; value < 2; value++) {
            if (str_eq_nocase(word, str_from(words[i][value]))) {
                *out = value == 1;
                return 0;
            }
        }
    }
    return err_set(e, ERR_INVALID, "\"%s\" is not a truth value: use true or false",
                   shown(s, text));
}

/* "", "b", "k", "kb", "kib", "m" and so on; false for anything else. */
static bool read_unit(struct str s, uint64_t *out)
{
    static const char letters[] = "kmgtp";
    const char *at;

    *out = 1;
    if (s.len == 0 || str_eq_nocase(s, S("b"))) {
        return true;
    }
    at = memchr(letters, lower(s.p[0]), sizeof(letters) - 1);
    if (at == NULL) {
        return false;
    }
    *out = 1ull << (10 * (at - letters + 1));
    s = str_skip(s, 1);
    return s.len == 0 || str_eq_nocase(s, S("b")) || str_eq_nocase(s, S("i")) ||
           str_eq_nocase(s, S("ib"));
}

static bool scale_size(struct str number, uint64_t unit, int64_t *out)
{
    uint64_t whole;
    double value;

    if (!str_has(number, '.')) { /* exact up to the last byte */
        return read_digits(number, &whole) && !__builtin_mul_overflow(whole, unit, out);
    }
    if (!read_decimal(number, &value)) {
        return false;
    }
    value *= (double)unit;
    if (value >= 0x1p63) {
        return false;
    }
    *out = (int64_t)value;
    return true;
}

int str_to_size(struct str s, int64_t *out, struct err *e)
{
    char text[SHOWN_MAX + sizeof("...")];
    struct str size = str_trim(s);
    size_t n = 0;
    uint64_t unit;
    int64_t value;

    while (n < size.len && (is_digit(size.p[n]) || size.p[n] == '.')) {
        n++;
    }
    if (!read_unit(str_trim(str_skip(size, n)), &unit) ||
        !scale_size(str_head(size, n), unit, &value)) {
        return err_set(e, ERR_INVALID,
                       "\"%s\" is not a size: use bytes or a number with k, m or g, such as 512m",
                       shown(s, text));
    }
    *out = value;
    return 0;
}

static size_t min3(size_t a, size_t b, size_t c)
{
    size_t ab = a < b ? a : b;

    return ab < c ? ab : c;
}

size_t str_distance(struct str a, struct str b)
{
    size_t row[DISTANCE_MAX + 1];

    if (a.len > DISTANCE_MAX || b.len > DISTANCE_MAX) {
        return a.len > b.len ? a.len : b.len;
    }
    for (size_t j = 0; j <= b.len; j++) {
        row[j] = j;
    }
    for (size_t i = 0; i < a.len; i++) {
        size_t diagonal = row[0];

        row[0] = i + 1;
        for (size_t j = 0; j < b.len; j++) {
            size_t above = row[j + 1];

            row[j + 1] = min3(above + 1, row[j] + 1, diagonal + (a.p[i] != b.p[j]));
            diagonal = above;
        }
    }
    return row[b.len];
}
