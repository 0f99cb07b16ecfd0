#include "results/xml.h"

#include <string.h>

static size_t find(struct str text, const char *what)
{
    const char *at = text.len > 0 ? memmem(text.p, text.len, what, strlen(what)) : NULL;

    return at != NULL ? (size_t)(at - text.p) : text.len;
}

struct xml xml_begin(struct str text)
{
    return (struct xml){.rest = text};
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_name_byte(char c)
{
    return !is_space(c) && c != '/' && c != '>' && c != '=' && c != '<' && c != '"' && c != '\'';
}

static struct str take_name(struct str *s)
{
    size_t n = 0;
    struct str name;

    while (n < s->len && is_name_byte(s->p[n])) {
        n++;
    }
    name = str_head(*s, n);
    *s = str_skip(*s, n);
    return name;
}

/* Where a tag ends: at the first '>' outside of quotes. */
static size_t tag_end(struct str s)
{
    char quote = 0;

    for (size_t i = 0; i < s.len; i++) {
        if (quote != 0) {
            quote = (char)(s.p[i] == quote ? 0 : quote);
        } else if (s.p[i] == '"' || s.p[i] == '\'') {
            quote = s.p[i];
        } else if (s.p[i] == '>') {
            return i;
        }
    }
    return s.len;
}

static struct xml_event ended(struct xml *x)
{
    x->rest = STR_EMPTY;
    return (struct xml_event){.kind = XML_END};
}

/* Behind "<". */
static struct xml_event take_tag(struct xml *x)
{
    size_t end = tag_end(x->rest);
    struct str inside = str_head(x->rest, end);
    struct xml_event e = {.kind = XML_OPEN};

    if (end == x->rest.len) {
        return ended(x);
    }
    x->rest = str_skip(x->rest, end + 1);
    if (str_starts(inside, S("/"))) {
        inside = str_skip(inside, 1);
        return (struct xml_event){.kind = XML_CLOSE, .name = take_name(&inside)};
    }
    e.name = take_name(&inside);
    if (e.name.len == 0) {
        return ended(x);
    }
    if (str_ends(inside, S("/"))) {
        inside.len--;
        x->close = e.name;
    }
    e.attributes = inside;
    return e;
}

/* True: it was one of those, and is behind us. */
static bool skip_other(struct xml *x)
{
    static const struct {
        const char *begin, *end;
    } others[] = {{"<!--", "-->"}, {"<?", "?>"}};

    for (size_t i = 0; i < COUNTOF(others); i++) {
        if (str_starts(x->rest, str_from(others[i].begin))) {
            x->rest = str_skip(x->rest, find(x->rest, others[i].end) + strlen(others[i].end));
            return true;
        }
    }
    if (str_starts(x->rest, S("<!")) && !str_starts(x->rest, S("<![CDATA["))) {
        x->rest = str_skip(x->rest, tag_end(x->rest) + 1);
        return true;
    }
    return false;
}

struct xml_event xml_next(struct xml *x)
{
    struct xml_event e = {.kind = XML_TEXT};
    size_t n;

    if (x->close.len > 0) {
        e = (struct xml_event){.kind = XML_CLOSE, .name = x->close};
        x->close = STR_EMPTY;
        return e;
    }
    while (skip_other(x)) {
    }
    if (x->rest.len == 0) {
        return ended(x);
    }
    if (str_starts(x->rest, S("<![CDATA["))) {
        x->rest = str_skip(x->rest, strlen("<![CDATA["));
        n = find(x->rest, "]]>");
        e.text = str_head(x->rest, n);
        e.is_data = true;
        x->rest = str_skip(x->rest, n + strlen("]]>"));
        return e;
    }
    if (x->rest.p[0] == '<') {
        x->rest = str_skip(x->rest, 1);
        return take_tag(x);
    }
    n = find(x->rest, "<");
    e.text = str_head(x->rest, n);
    x->rest = str_skip(x->rest, n);
    return e;
}

/* ---- values -------------------------------------------------------------------------------- */

static size_t put_utf8(char *to, unsigned long code)
{
    if (code < 0x80) {
        to[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        to[0] = (char)(0xc0 | code >> 6);
        to[1] = (char)(0x80 | (code & 0x3f));
        return 2;
    }
    if (code < 0x10000) {
        to[0] = (char)(0xe0 | code >> 12);
        to[1] = (char)(0x80 | (code >> 6 & 0x3f));
        to[2] = (char)(0x80 | (code & 0x3f));
        return 3;
    }
    to[0] = (char)(0xf0 | code >> 18);
    to[1] = (char)(0x80 | (code >> 12 & 0x3f));
    to[2] = (char)(0x80 | (code >> 6 & 0x3f));
    to[3] = (char)(0x80 | (code & 0x3f));
    return 4;
}

/* "#10" and "#x1b", without the "#"; 0: it is no number that a text can have. */
static unsigned long numbered(struct str digits)
{
    unsigned base = str_starts(digits, S("x")) ? 16 : 10;
    unsigned long code = 0;

    for (size_t i = base == 16 ? 1 : 0; i < digits.len; i++) {
        char c = digits.p[i];
        unsigned d = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                     : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                     : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A') + 10
                                            : 16;

        if (d >= base) {
            return 0;
        }
        code = code * base + d;
        if (code > 0x10ffff) {
            return 0;
        }
    }
    return code >= 0xd800 && code < 0xe000 ? 0 : code;
}

/* Behind '&'. How many bytes of the text it took, 0: it is no entity. */
static size_t take_entity(struct str s, char *to, size_t *n)
{
    static const struct {
        const char *name;
        char c;
    } names[] = {{"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}};
    size_t end = find(str_head(s, 12), ";");
    struct str name = str_head(s, end);
    unsigned long code;

    if (end == s.len || end >= 12) {
        return 0;
    }
    for (size_t i = 0; i < COUNTOF(names); i++) {
        if (str_eq(name, str_from(names[i].name))) {
            to[(*n)++] = names[i].c;
            return end + 1;
        }
    }
    code = str_starts(name, S("#")) ? numbered(str_skip(name, 1)) : 0;
    if (code == 0) {
        return 0;
    }
    *n += put_utf8(to + *n, code);
    return end + 1;
}

/* An entity is never shorter than what it stands for. */
static struct str decoded(struct arena *a, struct str raw)
{
    char *to;
    size_t n = 0;

    if (!str_has(raw, '&')) {
        return raw;
    }
    to = arena_alloc(a, raw.len + 1, 1);
    for (size_t i = 0; i < raw.len;) {
        size_t took = raw.p[i] == '&' ? take_entity(str_skip(raw, i + 1), to, &n) : 0;

        if (took == 0) {
            to[n++] = raw.p[i];
        }
        i += took + 1;
    }
    return (struct str){to, n};
}

struct str xml_attribute(struct arena *a, const struct xml_event *e, struct str name)
{
    struct str s = e->attributes;

    for (;;) {
        struct str key, value;
        size_t n;

        while (s.len > 0 && is_space(s.p[0])) {
            s = str_skip(s, 1);
        }
        key = take_name(&s);
        while (s.len > 0 && (is_space(s.p[0]) || s.p[0] == '=')) {
            s = str_skip(s, 1);
        }
        if (key.len == 0 || s.len == 0 || (s.p[0] != '"' && s.p[0] != '\'')) {
            return STR_EMPTY;
        }
        n = find(str_skip(s, 1), s.p[0] == '"' ? "\"" : "'");
        value = str_head(str_skip(s, 1), n);
        if (str_eq(key, name)) {
            return decoded(a, value);
        }
        s = str_skip(s, n + 2);
    }
}

struct str xml_text(struct arena *a, const struct xml_event *e)
{
    return e->is_data ? e->text : decoded(a, e->text);
}
