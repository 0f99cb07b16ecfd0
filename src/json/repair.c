#include "json/repair.h"

#include "base/utf8.h"

#define UNIT_LEN ((size_t)6) /* of "\uXXXX" */

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

long repair_code_unit(struct str s)
{
    long unit = 0;

    if (s.len < UNIT_LEN || s.p[0] != '\\' || s.p[1] != 'u') {
        return -1;
    }
    for (size_t i = 2; i < UNIT_LEN; i++) {
        int digit = hex_value(s.p[i]);

        if (digit < 0) {
            return -1;
        }
        unit = unit << 4 | digit;
    }
    return unit;
}

/* At a backslash in a string. Returns the bytes used. */
static size_t copy_escape(struct str s, struct buf *out, bool *changed)
{
    long unit = repair_code_unit(s);
    size_t used = s.len < 2 || (s.p[1] & 0x80) != 0 ? 1 : 2;

    if (IS_HIGH(unit) && IS_LOW(repair_code_unit(str_skip(s, UNIT_LEN)))) {
        used = 2 * UNIT_LEN;
    } else if (IS_HIGH(unit) || IS_LOW(unit)) {
        buf_add(out, S("\\uFFFD"));
        *changed = true;
        return UNIT_LEN;
    }
    buf_add(out, str_head(s, used));
    return used;
}

/* At a quote that opens a string. Returns the bytes used, with the closing quote. */
static size_t copy_string(struct str s, struct buf *out, bool *changed)
{
    size_t n = 1;

    buf_addc(out, '"');
    while (n < s.len && s.p[n] != '"') {
        struct str rest = str_skip(s, n);
        uint32_t c;
        size_t len = utf8_decode(rest, &c);

        if (len == 0) {
            buf_add(out, S("\xEF\xBF\xBD"));
            *changed = true;
            n += utf8_bad_run(rest).len;
        } else if (c == '\\') {
            n += copy_escape(rest, out, changed);
        } else {
            buf_add(out, str_head(rest, len));
            n += len;
        }
    }
    if (n < s.len) {
        buf_addc(out, '"');
        n++;
    }
    return n;
}

static bool is_number_char(char c)
{
    return c >= '0' && c <= '9' ? true : str_has(S("+-.eE"), c);
}

/* At the start of a number. Returns the bytes used. */
static size_t copy_number(struct str s, struct buf *out, bool *changed)
{
    struct str token;
    int64_t ignored;
    struct err e;
    size_t n = 0;

    while (n < s.len && is_number_char(s.p[n])) {
        n++;
    }
    token = str_head(s, n);
    buf_add(out, token);
    if (!str_has(token, '.') && !str_has(token, 'e') && !str_has(token, 'E') &&
        str_to_i64(token, INT64_MIN, INT64_MAX, &ignored, &e) < 0) {
        buf_add(out, S(".0"));
        *changed = true;
    }
    return n;
}

bool repair_text(struct str text, struct buf *out)
{
    bool changed = false;

    /* The worst case is a string of bytes that each become three, or a garbage of
     * signs, each of which would get ".0". */
    buf_init(out, text.len * 3 + 2);
    while (text.len > 0) {
        size_t n = 1;

        if (text.p[0] == '"') {
            n = copy_string(text, out, &changed);
        } else if (is_number_char(text.p[0])) {
            n = copy_number(text, out, &changed);
        } else {
            buf_addc(out, text.p[0]);
        }
        text = str_skip(text, n);
    }
    return changed && !out->cut;
}
