/*
 * js_raw(): finds a value in a JSON text without building anything. Containers are
 * skipped by counting brackets outside of strings, so that no depth costs stack.
 */
#include <stdarg.h>
#include <string.h>

#include "json/js.h"
#include "json/repair.h"

#define UNIT_LEN ((size_t)6) /* of "\uXXXX" */

static struct str skip_space(struct str s)
{
    while (s.len > 0 && str_has(S(" \t\r\n"), s.p[0])) {
        s = str_skip(s, 1);
    }
    return s;
}

/* At a quote: the length up to and with the closing one, 0 when there is none. */
static size_t string_len(struct str s)
{
    for (size_t n = 1; n < s.len; n++) {
        if (s.p[n] == '"') {
            return n + 1;
        }
        if (s.p[n] == '\\') {
            n++;
        }
    }
    return 0;
}

/* At an opening bracket: the length up to and with its closing one, or 0. */
static size_t container_len(struct str s)
{
    size_t depth = 0;
    size_t n = 0;

    while (n < s.len) {
        char c = s.p[n];
        size_t len = c == '"' ? string_len(str_skip(s, n)) : 1;

        if (len == 0) {
            return 0;
        }
        n += len;
        if (c == '{' || c == '[') {
            depth++;
        } else if ((c == '}' || c == ']') && --depth == 0) {
            return n;
        }
    }
    return 0;
}

static struct str value_at(struct str s)
{
    size_t n = 0;

    if (s.len == 0) {
        return STR_EMPTY;
    }
    if (s.p[0] == '"') {
        return str_head(s, string_len(s));
    }
    if (s.p[0] == '{' || s.p[0] == '[') {
        return str_head(s, container_len(s));
    }
    while (n < s.len && !str_has(S(",:]}\" \t\r\n"), s.p[n])) {
        n++;
    }
    return str_head(s, n);
}

static size_t put_utf8(uint32_t c, char to[4])
{
    if (c < 0x80) {
        to[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        to[0] = (char)(0xC0 | c >> 6);
        to[1] = (char)(0x80 | (c & 0x3F));
        return 2;
    }
    if (c < 0x10000) {
        to[0] = (char)(0xE0 | c >> 12);
        to[1] = (char)(0x80 | (c >> 6 & 0x3F));
        to[2] = (char)(0x80 | (c & 0x3F));
        return 3;
    }
    to[0] = (char)(0xF0 | c >> 18);
    to[1] = (char)(0x80 | (c >> 12 & 0x3F));
    to[2] = (char)(0x80 | (c >> 6 & 0x3F));
    to[3] = (char)(0x80 | (c & 0x3F));
    return 4;
}

/* A "\uXXXX" or a pair of them at the start of `s`. */
static struct str unescape_unit(struct str s, char to[4], size_t *used)
{
    long unit = repair_code_unit(s);
    uint32_t c = (uint32_t)unit;

    *used = UNIT_LEN;
    if (unit < 0) {
        return STR_EMPTY;
    }
    if (IS_HIGH(unit)) {
        long low = repair_code_unit(str_skip(s, UNIT_LEN));

        c = 0xFFFD;
        if (IS_LOW(low)) {
            c = 0x10000 + ((uint32_t)(unit - 0xD800) << 10) + (uint32_t)(low - 0xDC00);
            *used = 2 * UNIT_LEN;
        }
    } else if (IS_LOW(unit)) {
        c = 0xFFFD; /* as js_parse() reads it */
    }
    return (struct str){to, put_utf8(c, to)};
}

/* What the character or the escape at the start of `s` stands for; *used gets its
 * length. Empty when it is not valid. */
static struct str unescape(struct str s, char to[4], size_t *used)
{
    static const char letters[] = "\"\\/bfnrt";
    static const char meanings[] = "\"\\/\b\f\n\r\t";
    const char *at;

    *used = 1;
    if (s.p[0] != '\\') {
        return str_head(s, 1);
    }
    if (s.len < 2) {
        return STR_EMPTY;
    }
    if (s.p[1] == 'u') {
        return unescape_unit(s, to, used);
    }
    at = memchr(letters, s.p[1], sizeof(letters) - 1);
    *used = 2;
    return at ? (struct str){meanings + (at - letters), 1} : STR_EMPTY;
}

/* `quoted` is a JSON string with its quotes. */
static bool means(struct str quoted, struct str key)
{
    struct str s = str_skip(str_head(quoted, quoted.len - 1), 1);

    while (s.len > 0) {
        char to[4];
        size_t used;
        struct str piece = unescape(s, to, &used);

        if (piece.len == 0 || !str_starts(key, piece)) {
            return false;
        }
        s = str_skip(s, used);
        key = str_skip(key, piece.len);
    }
    return key.len == 0;
}

/* At a member of an object: its name and value. Returns what follows, at a comma or a
 * closing bracket; the empty view when there is no member. */
static struct str next_member(struct str s, struct str *name, struct str *value)
{
    *name = value_at(s);
    if (name->len < 2 || name->p[0] != '"') {
        return STR_EMPTY;
    }
    s = skip_space(str_skip(s, name->len));
    if (!str_starts(s, S(":"))) {
        return STR_EMPTY;
    }
    s = skip_space(str_skip(s, 1));
    *value = value_at(s);
    if (value->len == 0) {
        return STR_EMPTY;
    }
    return skip_space(str_skip(s, value->len));
}

static struct str member(struct str object, struct str key)
{
    struct str found = STR_EMPTY;
    struct str s = object;

    if (!str_starts(s, S("{"))) {
        return STR_EMPTY;
    }
    do {
        struct str name = STR_EMPTY;
        struct str value = STR_EMPTY;

        s = next_member(skip_space(str_skip(s, 1)), &name, &value);
        if (s.len > 0 && means(name, key)) {
            found = value;
        }
    } while (str_starts(s, S(",")));
    return found;
}

struct str js_raw(struct str text, ...)
{
    struct str value = value_at(skip_space(text));
    const char *key;
    va_list keys;

    va_start(keys, text);
    for (key = va_arg(keys, const char *); key != NULL; key = va_arg(keys, const char *)) {
        value = member(value, str_from(key));
    }
    va_end(keys);
    return value;
}

struct str js_raw_item(struct str text, size_t i)
{
    struct str s = skip_space(text);

    if (!str_starts(s, S("["))) {
        return STR_EMPTY;
    }
    do {
        struct str value;

        s = skip_space(str_skip(s, 1));
        value = value_at(s);
        if (value.len == 0 || i == 0) {
            return value;
        }
        i--;
        s = skip_space(str_skip(s, value.len));
    } while (str_starts(s, S(",")));
    return STR_EMPTY;
}
