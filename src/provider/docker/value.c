#include "provider/docker/value.h"

#include <string.h>

#include "base/utf8.h"

struct reader {
    struct arena *arena;
    const char *at, *end;
    int depth;
    unsigned n;
    struct err *e;
};

static int bad(struct reader *r, const char *what)
{
    return err_set(r->e, ERR_PROTOCOL, "the daemon's JSON cannot be read: %s", what);
}

static void skip_blank(struct reader *r)
{
    while (r->at < r->end && strchr(" \t\r\n", *r->at) != NULL && *r->at != '\0') {
        r->at++;
    }
}

static bool take(struct reader *r, char c)
{
    skip_blank(r);
    if (r->at == r->end || *r->at != c) {
        return false;
    }
    r->at++;
    return true;
}

/* ---- strings ---------------------------------------------------------------------- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static int read_hex4(struct reader *r, uint32_t *out)
{
    uint32_t v = 0;

    if (r->end - r->at < 4) {
        return bad(r, "a \\u without four digits");
    }
    for (int i = 0; i < 4; i++) {
        int d = hex_digit(*r->at++);

        if (d < 0) {
            return bad(r, "a \\u without four digits");
        }
        v = v * 16 + (uint32_t)d;
    }
    *out = v;
    return 0;
}

static char *put_utf8(char *to, uint32_t c)
{
    if (c < 0x80) {
        *to++ = (char)c;
    } else if (c < 0x800) {
        *to++ = (char)(0xc0 | c >> 6);
        *to++ = (char)(0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
        *to++ = (char)(0xe0 | c >> 12);
        *to++ = (char)(0x80 | (c >> 6 & 0x3f));
        *to++ = (char)(0x80 | (c & 0x3f));
    } else {
        *to++ = (char)(0xf0 | c >> 18);
        *to++ = (char)(0x80 | (c >> 12 & 0x3f));
        *to++ = (char)(0x80 | (c >> 6 & 0x3f));
        *to++ = (char)(0x80 | (c & 0x3f));
    }
    return to;
}

/* After \u. A half of a pair alone is U+FFFD. */
static int read_code(struct reader *r, char **to)
{
    uint32_t c;
    uint32_t low;

    if (read_hex4(r, &c) < 0) {
        return -1;
    }
    if (c >= 0xd800 && c < 0xdc00 && r->end - r->at >= 6 && r->at[0] == '\\' && r->at[1] == 'u') {
        const char *before = r->at;

        r->at += 2;
        if (read_hex4(r, &low) < 0) {
            return -1;
        }
        if (low >= 0xdc00 && low < 0xe000) {
            *to = put_utf8(*to, 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00));
            return 0;
        }
        r->at = before;
    }
    *to = put_utf8(*to, c >= 0xd800 && c < 0xe000 ? 0xfffd : c);
    return 0;
}

static int read_escape(struct reader *r, char **to)
{
    static const char letters[] = "\"\\/bfnrt";
    static const char meant[] = "\"\\/\b\f\n\r\t";
    char c = (char)(r->at < r->end ? *r->at++ : '\0');
    const char *found = c != '\0' ? strchr(letters, c) : NULL;

    if (c == 'u') {
        return read_code(r, to);
    }
    if (found == NULL) {
        return bad(r, "an unknown escape");
    }
    *(*to)++ = meant[found - letters];
    return 0;
}

/* The opening quote is taken. */
static int read_string(struct reader *r, struct str *out)
{
    const char *close = r->at;
    char *to;
    char *start;

    while (close < r->end && *close != '"') {
        close += *close == '\\' ? 2 : 1;
    }
    if (close >= r->end) {
        return bad(r, "a string without an end");
    }
    start = to = arena_alloc(r->arena, (size_t)(close - r->at) + 4, 1); /* never longer decoded */
    while (*r->at != '"') {
        if ((unsigned char)*r->at < 0x20) {
            return bad(r, "a control character in a string");
        }
        if (*r->at != '\\') {
            *to++ = *r->at++;
            continue;
        }
        r->at++;
        if (read_escape(r, &to) < 0) {
            return -1;
        }
    }
    r->at++;
    *out = (struct str){start, (size_t)(to - start)};
    return 0;
}

/* ---- values ----------------------------------------------------------------------- */

static struct value *read_value(struct reader *r);

/* `close` is ']' or '}'; the opening one is taken. */
static int read_items(struct reader *r, struct value *v, char close)
{
    struct value **last = &v->first;

    if (take(r, close)) {
        return 0;
    }
    do {
        struct str key = STR_EMPTY;

        if (close == '}' && (!take(r, '"') || read_string(r, &key) < 0 || !take(r, ':'))) {
            return r->e->kind == ERR_PROTOCOL ? -1 : bad(r, "an object without a key");
        }
        *last = read_value(r);
        if (*last == NULL) {
            return -1;
        }
        (*last)->key = key;
        last = &(*last)->next;
    } while (take(r, ','));
    return take(r, close) ? 0 : bad(r, "an array or object without an end");
}

static bool take_word(struct reader *r, struct str word)
{
    if (!str_starts((struct str){r->at, (size_t)(r->end - r->at)}, word)) {
        return false;
    }
    r->at += word.len;
    return true;
}

static int read_scalar(struct reader *r, struct value *v)
{
    const char *from = r->at;

    v->type = VALUE_BOOLEAN;
    v->is_true = take_word(r, S("true"));
    if (v->is_true || take_word(r, S("false"))) {
        return 0;
    }
    v->type = VALUE_NULL;
    if (take_word(r, S("null"))) {
        return 0;
    }
    while (r->at < r->end && *r->at != '\0' && strchr("0123456789+-.eE", *r->at) != NULL) {
        r->at++;
    }
    v->type = VALUE_NUMBER;
    v->text = (struct str){from, (size_t)(r->at - from)};
    return v->text.len > 0 ? 0 : bad(r, "something that is no value");
}

static struct value *read_value(struct reader *r)
{
    struct value *v = arena_new(r->arena, struct value);
    int rc;

    if (++r->depth > VALUE_DEPTH || ++r->n > VALUES_MAX) {
        (void)bad(r, "too deep, or too much");
        return NULL;
    }
    if (take(r, '{')) {
        v->type = VALUE_OBJECT;
        rc = read_items(r, v, '}');
    } else if (take(r, '[')) {
        v->type = VALUE_ARRAY;
        rc = read_items(r, v, ']');
    } else if (take(r, '"')) {
        v->type = VALUE_STRING;
        rc = read_string(r, &v->text);
    } else {
        rc = read_scalar(r, v);
    }
    r->depth--;
    return rc < 0 ? NULL : v;
}

struct value *value_parse(struct arena *a, struct str text, struct err *e)
{
    struct err why = {0};
    struct reader r = {.arena = a, .at = text.p, .end = text.p, .e = &why};
    struct value *v = NULL;

    if (text.len > 0) {
        r.end = text.p + text.len;
        v = read_value(&r);
    } else {
        (void)bad(&r, "it is empty");
    }
    skip_blank(&r);
    if (v != NULL && r.at < r.end) {
        (void)bad(&r, "something follows it");
        v = NULL;
    }
    if (v == NULL) {
        *e = why;
    }
    return v;
}

/* ---- looking ---------------------------------------------------------------------- */

static const struct value *member(const struct value *v, struct str name)
{
    if (v == NULL || v->type != VALUE_OBJECT) {
        return NULL;
    }
    for (const struct value *m = v->first; m != NULL; m = m->next) {
        if (str_eq(m->key, name)) {
            return m;
        }
    }
    return NULL;
}

const struct value *value_at(const struct value *v, const char *path)
{
    struct str rest = str_from(path);

    while (v != NULL && rest.len > 0) {
        v = member(v, str_cut(rest, '.', &rest));
    }
    return v;
}

struct str value_text(const struct value *v, const char *path)
{
    const struct value *found = value_at(v, path);

    return found != NULL && found->type == VALUE_STRING ? found->text : STR_EMPTY;
}

int64_t value_int(const struct value *v, const char *path)
{
    const struct value *found = value_at(v, path);
    struct err ignored;
    int64_t n = 0;

    if (found == NULL || found->type != VALUE_NUMBER ||
        str_to_i64(found->text, INT64_MIN, INT64_MAX, &n, &ignored) < 0) {
        return 0;
    }
    return n;
}

bool value_bool(const struct value *v, const char *path)
{
    const struct value *found = value_at(v, path);

    return found != NULL && found->type == VALUE_BOOLEAN && found->is_true;
}

struct str value_member(const struct value *v, struct str name)
{
    const struct value *found = member(v, name);

    return found != NULL && found->type == VALUE_STRING ? found->text : STR_EMPTY;
}

/* ---- writing ---------------------------------------------------------------------- */

void value_quote(struct buf *to, struct str s)
{
    buf_addc(to, '"');
    while (s.len > 0) {
        uint32_t c = 0;
        size_t n = utf8_decode(s, &c);

        if (n == 0) {
            n = utf8_bad_run(s).len;
            c = 0xfffd;
        }
        if (c == '"' || c == '\\') {
            buf_addf(to, "\\%c", (char)c);
        } else if (c < 0x20 || c == 0x7f) {
            buf_addf(to, "\\u%04x", c);
        } else {
            char bytes[4];

            buf_add(to, (struct str){bytes, (size_t)(put_utf8(bytes, c) - bytes)});
        }
        s = str_skip(s, n);
    }
    buf_addc(to, '"');
}
