#include "base/percent.h"

#include <string.h>

static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("-._~", c) != NULL);
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The byte that "XX" stands for, or -1. */
static int escaped_byte(struct str s)
{
    int high = s.len >= 2 ? hex_value(s.p[0]) : -1;
    int low = s.len >= 2 ? hex_value(s.p[1]) : -1;

    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

int percent_read(struct arena *a, struct str s, bool plus_is_space, struct str *out, struct err *e)
{
    char *to = arena_alloc(a, s.len + 1, 1);
    size_t n = 0;

    for (size_t i = 0; i < s.len; i++) {
        int byte = (unsigned char)s.p[i];

        if (byte == '%') {
            byte = escaped_byte(str_skip(s, i + 1));
            i += 2;
        } else if (byte == '+' && plus_is_space) {
            byte = ' ';
        }
        if (byte < 0) {
            return err_set(
                e, ERR_INVALID,
                "in a URL, %% must be followed by two hexadecimal digits; a percent sign "
                "itself is %%25");
        }
        if (byte == 0) {
            return err_set(e, ERR_INVALID, "a URL must not contain NUL (%%00)");
        }
        to[n++] = (char)byte;
    }
    *out = (struct str){to, n};
    return 0;
}

int percent_query(struct arena *a, struct str query, struct str name, struct str *out, bool *found,
                  struct err *e)
{
    struct str rest = query;

    *found = false;
    *out = STR_EMPTY;
    while (rest.len > 0) {
        struct str raw, key = STR_EMPTY, value = STR_EMPTY;
        struct str raw_key = str_cut(str_cut(rest, '&', &rest), '=', &raw);

        if (percent_read(a, raw_key, true, &key, e) < 0 ||
            percent_read(a, raw, true, &value, e) < 0) {
            return -1;
        }
        if (!str_eq(key, name)) {
            continue;
        }
        if (*found) {
            return err_set(e, ERR_INVALID, "%.*s is given more than once; give it once",
                           STR_ARG(str_head(name, 64)));
        }
        *found = true;
        *out = value;
    }
    return 0;
}

void percent_add(struct buf *out, struct str s, bool keep_slashes)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = s.p[i];

        if (is_plain(c) || (c == '/' && keep_slashes)) {
            buf_addc(out, c);
        } else {
            buf_addf(out, "%%%02X", (unsigned)(unsigned char)c);
        }
    }
}
