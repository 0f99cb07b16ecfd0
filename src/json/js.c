#include "json/js.h"

#include <stdarg.h>
#include <string.h>

#include "base/plain.h"
#include "base/utf8.h"
#include "json/repair.h"

#define LOAD_FLAGS (JSON_DECODE_ANY | JSON_ALLOW_NUL)
#define DUMP_FLAGS (JSON_COMPACT | JSON_ENCODE_ANY)
#define REAL_SIZE  64 /* of a real as jansson writes it */
#define REASON_MAX ((size_t)256)
#define VALUES_MAX ((size_t)100000) /* each of them takes up to a hundred bytes of memory */

static int set_error(struct err *e, const json_error_t *error)
{
    struct buf reason own_buf = {.max = REASON_MAX};

    /* jansson quotes the text it stumbled over. */
    plain_text(str_from(error->text), &reason);
    return err_set(e, ERR_INVALID, "not valid JSON: line %d, column %d: %.*s", error->line,
                   error->column, STR_ARG(buf_str(&reason)));
}

/* Counts what stands before a value: a text of nothing but those becomes twenty times as long
 * in memory. Texts that are too short to have so many are not looked at. */
static bool has_too_many(struct str text)
{
    bool quoted = false;
    size_t n = 1;

    if (text.len < 2 * VALUES_MAX) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        char c = text.p[i];

        if (c == '"') {
            quoted = !quoted;
        } else if (quoted && c == '\\') {
            i++;
        } else if (!quoted && (c == ',' || c == '[' || c == '{')) {
            n++;
        }
    }
    return n > VALUES_MAX;
}

json_t *js_parse(const char *text, size_t len, struct err *e)
{
    struct buf repaired own_buf = {0};
    json_error_t error;
    json_t *v;

    if (has_too_many((struct str){text, len})) {
        (void)err_set(e, ERR_INVALID, "too much JSON: there are more than %zu values in it",
                      VALUES_MAX);
        return NULL;
    }
    /* jansson takes NULL for a mistake in the call. */
    v = json_loadb(text ? text : "", text ? len : 0, LOAD_FLAGS, &error);
    if (v == NULL && repair_text((struct str){text, len}, &repaired)) {
        v = json_loadb(repaired.p, repaired.len, LOAD_FLAGS, &error);
    }
    if (v == NULL) {
        (void)set_error(e, &error);
    }
    return v;
}

bool js_escapes(uint32_t c)
{
    return (c >= 0x7F && c <= 0x9F) || c == 0x2028 || c == 0x2029 || plain_hides(c);
}

static void add_escape(struct buf *out, uint32_t c)
{
    if (c < 0x10000) {
        buf_addf(out, "\\u%04x", c);
        return;
    }
    c -= 0x10000;
    buf_addf(out, "\\u%04x\\u%04x", 0xD800 | c >> 10, 0xDC00 | (c & 0x3FF));
}

/* `s` with the odd characters escaped: they only occur in strings. */
static void add_escaped(struct buf *out, struct str s)
{
    size_t plain = 0;

    while (plain < s.len) {
        uint32_t c = (unsigned char)s.p[plain];
        size_t len = c < 0x80 ? 1 : utf8_decode(str_skip(s, plain), &c);

        if (len == 0 || !js_escapes(c)) {
            plain += len > 0 ? len : 1;
            continue;
        }
        buf_add(out, str_head(s, plain));
        add_escape(out, c);
        s = str_skip(s, plain + len);
        plain = 0;
    }
    buf_add(out, s);
}

/* jansson writes all 17 digits of a real, which makes 0.1 a 0.10000000000000001. Write
 * the fewest digits that mean the same number. */
static void add_real(struct buf *out, struct str digits)
{
    double wanted, got;
    struct err e;

    if (str_to_f64(digits, &wanted, &e) == 0) {
        json_t *real own_json = json_real(wanted);

        for (size_t precision = 15; precision < 17; precision++) {
            char text[REAL_SIZE];
            size_t len = json_dumpb(real, text, sizeof(text),
                                    JSON_ENCODE_ANY | JSON_REAL_PRECISION(precision));
            struct str shorter = {text, len < sizeof(text) ? len : 0};

            if (str_to_f64(shorter, &got, &e) == 0 && got == wanted) {
                buf_add(out, shorter);
                return;
            }
        }
    }
    buf_add(out, digits);
}

static bool is_real(struct str s)
{
    bool number = s.len > 1 && ((s.p[0] >= '0' && s.p[0] <= '9') || s.p[0] == '-');

    return number && (str_has(s, '.') || str_has(s, 'e'));
}

struct dump {
    struct buf *out;
    bool in_string;
};

/* jansson calls this with pieces that are whole characters and whole numbers; the
 * quotes of a string are pieces of their own. */
static int add_piece(const char *piece, size_t size, void *arg)
{
    struct dump *d = arg;
    struct str s = {piece, size};

    if (str_eq(s, S("\""))) {
        d->in_string = !d->in_string;
    }
    if (!d->in_string && is_real(s)) {
        add_real(d->out, s);
    } else {
        add_escaped(d->out, s);
    }
    return d->out->cut ? -1 : 0;
}

void js_dump(const json_t *v, struct buf *out)
{
    struct dump d = {.out = out};
    size_t start = out->len;

    if (json_dump_callback(v, add_piece, &d, DUMP_FLAGS) < 0 && !out->cut) {
        out->len = start;
        buf_add(out, S("null"));
    }
}

json_t *js_string(struct str s)
{
    struct buf clean own_buf = {.max = s.len * 3};
    json_t *v = s.len > 0 ? json_stringn(s.p, s.len) : json_stringn_nocheck("", 0);

    if (v != NULL) {
        return v;
    }
    utf8_scrub(s, &clean);
    return json_stringn_nocheck(clean.p, clean.len);
}

struct str js_str(const json_t *v)
{
    if (!json_is_string(v)) {
        return STR_EMPTY;
    }
    return (struct str){json_string_value(v), json_string_length(v)};
}

json_t *js_get(const json_t *v, const char *key)
{
    return json_object_get(v, key);
}

json_t *js_path(const json_t *v, ...)
{
    const char *key;
    json_t *found = NULL;
    va_list keys;

    va_start(keys, v);
    for (key = va_arg(keys, const char *); key != NULL; key = va_arg(keys, const char *)) {
        found = js_get(v, key);
        if (found == NULL) {
            break;
        }
        v = found;
    }
    va_end(keys);
    return found;
}
