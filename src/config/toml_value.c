/* toml_value.c - strings, numbers, booleans and flat arrays of toml.c's subset. */
#include <string.h>

#include "base/buf.h"
#include "config/toml_reader.h"

/* ---- strings ---------------------------------------------------------------- */

static void add_utf8(struct buf *to, uint32_t c)
{
    if (c < 0x80) {
        buf_addc(to, (char)c);
        return;
    }
    if (c < 0x800) {
        buf_addc(to, (char)(0xc0 | (c >> 6)));
    } else {
        if (c < 0x10000) {
            buf_addc(to, (char)(0xe0 | (c >> 12)));
        } else {
            buf_addc(to, (char)(0xf0 | (c >> 18)));
            buf_addc(to, (char)(0x80 | ((c >> 12) & 0x3f)));
        }
        buf_addc(to, (char)(0x80 | ((c >> 6) & 0x3f)));
    }
    buf_addc(to, (char)(0x80 | (c & 0x3f)));
}

static int hex_digit(int c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static int read_code_point(struct reader *r, size_t digits, struct buf *to)
{
    uint32_t c = 0;

    for (size_t i = 0; i < digits; i++) {
        int d = hex_digit(reader_peek_at(r, 2 + i));

        if (d < 0) {
            return READER_FAIL(r, "\\%c needs %zu hexadecimal digits", reader_peek_at(r, 1),
                               digits);
        }
        c = c << 4 | (uint32_t)d;
    }
    if (c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff) || c == 0) {
        return READER_FAIL(r, "\\%c%0*X is not a character", reader_peek_at(r, 1), (int)digits, c);
    }
    add_utf8(to, c);
    r->pos += 2 + digits;
    return 0;
}

static int read_escape(struct reader *r, struct buf *to)
{
    static const char names[] = "btnfr\"\\";
    static const char bytes[] = "\b\t\n\f\r\"\\";
    int c = reader_peek_at(r, 1);
    const char *found = c > 0 ? strchr(names, c) : NULL;

    if (c == 'u' || c == 'U') {
        return read_code_point(r, c == 'u' ? 4 : 8, to);
    }
    if (found == NULL) {
        return READER_FAIL(r,
                           "unknown escape in a string; accepted are \\b \\t \\n \\f \\r \\\" \\\\ "
                           "\\uXXXX \\UXXXXXXXX (a literal string in '...' takes no escapes)");
    }
    buf_addc(to, bytes[found - names]);
    r->pos += 2;
    return 0;
}

int reader_string(struct reader *r, struct str *out)
{
    int quote = reader_peek(r);
    struct toml_place start = reader_here(r);
    struct buf text own_buf = {0};

    if (reader_peek_at(r, 1) == quote && reader_peek_at(r, 2) == quote) {
        return READER_FAIL(
            r, "multi-line strings are not supported here; use \\n in a string on one line");
    }
    buf_init(&text, TOML_MAX_BYTES);
    r->pos++;
    while (reader_peek(r) != quote) {
        int c = reader_peek(r);

        if (c < 0 || c == '\n' || c == '\r') {
            return toml_fail(r->e, r->file, start, "this string is not closed on its line");
        }
        if (reader_is_control(c)) {
            return READER_FAIL(r, "a control character (0x%02x) in a string; write it as \\u%04X",
                               (unsigned)c, (unsigned)c);
        }
        if (c == '\\' && quote == '"') {
            if (read_escape(r, &text) < 0) {
                return -1;
            }
            continue;
        }
        buf_addc(&text, (char)c);
        r->pos++;
    }
    r->pos++;
    *out = arena_str(r->arena, buf_str(&text));
    return 0;
}

/* ---- numbers and words -------------------------------------------------------- */

static bool is_word(int c)
{
    return reader_is_digit(c) || reader_is_letter(c) || c == '_' || c == '-' || c == '+' ||
           c == '.' || c == ':';
}

/* 1979-05-27 and 07:32: a digit run of the right length in front of '-' or ':'. */
static bool looks_like_date(struct str word)
{
    size_t n = 0;

    while (n < word.len && reader_is_digit(word.p[n])) {
        n++;
    }
    return n < word.len && ((n == 4 && word.p[n] == '-') || (n == 2 && word.p[n] == ':'));
}

static bool has_base(struct str s)
{
    return s.len > 2 && s.p[0] == '0' && (s.p[1] == 'x' || s.p[1] == 'o' || s.p[1] == 'b');
}

static bool is_digit_below(int c, int highest)
{
    int d = hex_digit(c);

    return d >= 0 && d <= highest;
}

/* Copies the digits without their underscores, which must stand between digits. */
static bool drop_underscores(struct str s, struct buf *to)
{
    int highest = has_base(s) ? 15 : 9;

    for (size_t i = 0; i < s.len; i++) {
        if (s.p[i] != '_') {
            buf_addc(to, s.p[i]);
            continue;
        }
        if (i == 0 || i + 1 == s.len || !is_digit_below(s.p[i - 1], highest) ||
            !is_digit_below(s.p[i + 1], highest)) {
            return false;
        }
    }
    return true;
}

static bool all_digits(struct str s, unsigned base)
{
    for (size_t i = 0; i < s.len; i++) {
        int d = hex_digit(s.p[i]);

        if (d < 0 || (unsigned)d >= base) {
            return false;
        }
    }
    return s.len > 0;
}

/* Unsigned digits of a base into *out; false when they are not, or are beyond `max`. */
static bool digits_value(struct str s, unsigned base, uint64_t max, uint64_t *out)
{
    uint64_t v = 0;

    if (!all_digits(s, base)) {
        return false;
    }
    for (size_t i = 0; i < s.len; i++) {
        uint64_t d = (uint64_t)hex_digit(s.p[i]);

        if (v > (max - d) / base) {
            return false;
        }
        v = v * base + d;
    }
    *out = v;
    return true;
}

/* 0x1F, 0o17, 0b11. */
static bool read_based(struct str s, int64_t *out)
{
    unsigned base = s.p[1] == 'x' ? 16 : s.p[1] == 'o' ? 8 : 2;
    uint64_t v;

    if (!digits_value(str_skip(s, 2), base, INT64_MAX, &v)) {
        return false;
    }
    *out = (int64_t)v;
    return true;
}

static bool read_decimal(struct str s, int64_t *out)
{
    bool minus = s.p[0] == '-';
    struct str digits = str_skip(s, minus || s.p[0] == '+');
    uint64_t v;

    if (digits.len > 1 && digits.p[0] == '0') {
        return false;
    }
    if (!digits_value(digits, 10, (uint64_t)INT64_MAX + minus, &v)) {
        return false;
    }
    *out = minus ? (int64_t)(0 - v) : (int64_t)v;
    return true;
}

/* [+-] int [. digits] [e [+-] digits], with a fraction or an exponent. */
static bool is_float(struct str s)
{
    size_t i = s.p[0] == '-' || s.p[0] == '+';
    size_t start = i;
    bool has_more = false;

    while (i < s.len && reader_is_digit(s.p[i])) {
        i++;
    }
    if (i == start || (i - start > 1 && s.p[start] == '0')) {
        return false;
    }
    if (i < s.len && s.p[i] == '.') {
        size_t fraction = ++i;

        while (i < s.len && reader_is_digit(s.p[i])) {
            i++;
        }
        has_more = i > fraction;
        if (!has_more) {
            return false;
        }
    }
    if (i < s.len && (s.p[i] == 'e' || s.p[i] == 'E')) {
        size_t exponent;

        i++;
        i += i < s.len && (s.p[i] == '-' || s.p[i] == '+');
        exponent = i;
        while (i < s.len && reader_is_digit(s.p[i])) {
            i++;
        }
        has_more = i > exponent;
    }
    return has_more && i == s.len;
}

static int read_number(struct reader *r, struct str word, struct toml_value *v)
{
    struct buf digits own_buf = {0};
    struct err ignored;
    struct str s;

    if (word.len > 100) {
        return READER_FAIL(r, "this number is too long");
    }
    buf_init(&digits, 128);
    if (!drop_underscores(word, &digits)) {
        return READER_FAIL(r, "\"%.*s\" is not a number: '_' may only stand between digits",
                           STR_ARG(word));
    }
    s = buf_str(&digits);
    if (is_float(s) && str_to_f64(s, &v->real, &ignored) == 0) {
        v->type = TOML_FLOAT;
        return 0;
    }
    v->type = TOML_INTEGER;
    if (has_base(s) ? read_based(s, &v->integer) : read_decimal(s, &v->integer)) {
        return 0;
    }
    return READER_FAIL(
        r,
        "\"%.*s\" is not a number; accepted are integers of 64 bits such as 42, 1_000 "
        "or 0x1f and floats such as 1.5 (text stands in quotes)",
        STR_ARG(word));
}

static int read_word(struct reader *r, struct toml_value *v)
{
    size_t n = 0;
    struct str word;
    struct str bare;

    while (is_word(reader_peek_at(r, n))) {
        n++;
    }
    word = (struct str){r->text.p + r->pos, n};
    if (n == 0) {
        return READER_FAIL(r, "a value is missing here");
    }
    if (str_eq(word, S("true")) || str_eq(word, S("false"))) {
        v->type = TOML_BOOLEAN;
        v->boolean = word.p[0] == 't';
        r->pos += n;
        return 0;
    }
    if (looks_like_date(word)) {
        return READER_FAIL(
            r, "dates and times are not supported here; write it as a string in quotes");
    }
    bare = str_skip(word, word.p[0] == '+' || word.p[0] == '-');
    if (str_eq(bare, S("inf")) || str_eq(bare, S("nan"))) {
        return READER_FAIL(r, "inf and nan are not supported here; write a number");
    }
    if (!(bare.len > 0 && reader_is_digit(bare.p[0]))) {
        return READER_FAIL(r, "\"%.*s\" is not a value; text stands in quotes: \"%.*s\"",
                           STR_ARG(str_head(word, 80)), STR_ARG(str_head(word, 80)));
    }
    if (read_number(r, word, v) < 0) {
        return -1;
    }
    r->pos += n;
    return 0;
}

/* ---- values ------------------------------------------------------------------- */

static int read_scalar(struct reader *r, struct toml_value *v)
{
    int c = reader_peek(r);

    v->at = reader_here(r);
    if (c == '{') {
        return READER_FAIL(r, "inline tables are not supported here; write a [table] of its own");
    }
    if (c == '"' || c == '\'') {
        v->type = TOML_STRING;
        return reader_string(r, &v->string);
    }
    return read_word(r, v);
}

static int read_item(struct reader *r, struct toml_value *array)
{
    struct toml_place at = reader_here(r);
    struct toml_value *item = reader_new_value(r, TOML_STRING, STR_EMPTY, at);

    if (item == NULL) {
        return -1;
    }
    if (reader_peek(r) == '[') {
        return READER_FAIL(r, "arrays in arrays are not supported here");
    }
    if (read_scalar(r, item) < 0) {
        return -1;
    }
    if (item->type != TOML_STRING && item->type != TOML_INTEGER) {
        return toml_fail(r->e, r->file, at, "%s in an array; strings or integers are accepted",
                         toml_type_name(item->type));
    }
    if (array->first != NULL && array->first->type != item->type) {
        return toml_fail(r->e, r->file, at, "%s in an array that begins with %s; all must be alike",
                         toml_type_name(item->type), toml_type_name(array->first->type));
    }
    reader_append(array, item);
    return 0;
}

static int read_array(struct reader *r, struct toml_value *v)
{
    struct toml_place start = reader_here(r);

    v->type = TOML_ARRAY;
    v->at = start;
    r->pos++;
    for (;;) {
        if (reader_skip_space(r) < 0) {
            return -1;
        }
        if (reader_peek(r) < 0) {
            return toml_fail(r->e, r->file, start, "this array is not closed with ']'");
        }
        if (reader_peek(r) == ']') {
            r->pos++;
            return 0;
        }
        if (read_item(r, v) < 0 || reader_skip_space(r) < 0) {
            return -1;
        }
        if (reader_peek(r) == ',') {
            r->pos++;
        } else if (reader_peek(r) >= 0 && reader_peek(r) != ']') {
            return READER_FAIL(r, "',' or ']' is missing in this array");
        }
    }
}

int reader_value(struct reader *r, struct toml_value *v)
{
    return reader_peek(r) == '[' ? read_array(r, v) : read_scalar(r, v);
}
