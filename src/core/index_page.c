#include "core/index_page.h"

#include <ctype.h>
#include <string.h>

#define VALUE_MAX 4000 /* bytes of an attribute */
#define PART_MAX  (256u << 10)

/* ---- addresses --------------------------------------------------------------------------- */

static bool is_plain(struct str s, const char *more)
{
    for (size_t i = 0; i < s.len; i++) {
        if (s.p[i] <= 0 || (!isalnum((unsigned char)s.p[i]) && strchr(more, s.p[i]) == NULL)) {
            return false;
        }
    }
    return true;
}

/* One with a user in it, so perhaps with a secret, is not shown. */
static int bad_url(struct str text, struct err *e)
{
    struct str shown = is_plain(text, "-._~!$&'()*+,;=:/?%[]#") ? str_head(text, 200) : S("?");

    return err_set(e, ERR_INVALID,
                   "\"%.*s\" is no address of a package index or a file of one: it begins with "
                   "http:// or https:// and has a host",
                   STR_ARG(shown));
}

/* "host", "host:80", "[::1]:80" */
static bool read_host(struct str s, struct index_url *out)
{
    struct err ignored = {0};
    struct str port = STR_EMPTY;
    int64_t n = out->tls ? 443 : 80;

    if (s.len > 0 && s.p[0] == '[') {
        struct str inside = str_cut(str_skip(s, 1), ']', &port);

        out->host = str_head(s, inside.len + 2);
        if (port.p == NULL || inside.len < 2 || !is_plain(inside, ":.") ||
            (port.len > 0 && port.p[0] != ':')) {
            return false;
        }
        port = str_skip(port, 1);
    } else {
        out->host = str_cut(s, ':', &port);
        if (out->host.len == 0 || out->host.len > 253 || !is_plain(out->host, "-._")) {
            return false;
        }
    }
    if (port.len > 0 && (!isdigit((unsigned char)port.p[0]) || port.len > 5 ||
                         str_to_i64(port, 1, 65535, &n, &ignored) < 0)) {
        return false;
    }
    out->port = (uint16_t)n;
    return true;
}

int index_url_read(struct str text, struct index_url *out, struct err *e)
{
    struct index_url u = {.tls = str_starts(text, S("https://"))};
    struct str fragment;
    struct str rest = str_cut(text, '#', &fragment);
    struct str authority;
    struct str host;
    size_t n = 0;

    if (text.len > INDEX_URL_MAX || (!u.tls && !str_starts(text, S("http://")))) {
        return bad_url(text, e);
    }
    rest = str_skip(rest, u.tls ? 8 : 7);
    while (n < rest.len && rest.p[n] != '/' && rest.p[n] != '?') {
        n++;
    }
    authority = str_head(rest, n);
    u.user = str_cut(authority, '@', &host);
    if (host.p == NULL) {
        host = authority;
        u.user = STR_EMPTY;
    }
    u.path = str_skip(rest, n);
    if (!is_plain(u.user, "-._~!$&'()*+,;=:%") || !read_host(host, &u) ||
        !is_plain(u.path, "-._~!$&'()*+,;=:@/?%[]") || (u.path.len > 0 && u.path.p[0] != '/')) {
        return bad_url(text, e);
    }
    if (u.path.len == 0) {
        u.path = S("/");
    }
    *out = u;
    return 0;
}

struct str index_url_text(struct arena *a, const struct index_url *u)
{
    bool usual = u->port == (u->tls ? 443 : 80);
    struct str port = usual ? STR_EMPTY : arena_printf(a, ":%u", (unsigned)u->port);

    return arena_printf(a, "%s://%.*s%.*s%.*s", u->tls ? "https" : "http", STR_ARG(u->host),
                        STR_ARG(port), STR_ARG(u->path));
}

bool index_url_same(const struct index_url *a, const struct index_url *b)
{
    return a->port == b->port && str_eq_nocase(a->host, b->host);
}

/* Appends a part of a path to one that ends with '/': ".." takes one back. */
static void add_part(struct buf *path, struct str part, bool last)
{
    if (str_eq(part, S("..")) && path->len > 1) {
        path->len--;
        while (path->p[path->len - 1] != '/') {
            path->len--;
        }
    } else if (part.len > 0 && !str_eq(part, S(".")) && !str_eq(part, S(".."))) {
        buf_add(path, part);
        if (!last) {
            buf_addc(path, '/');
        }
    }
}

static struct str join_path(struct arena *a, struct str base, struct str link)
{
    struct buf path own_buf = {0};
    struct str query;
    struct str folder = str_cut(base, '?', &query);
    struct str rest = str_cut(link, '?', &query);

    while (folder.len > 0 && folder.p[folder.len - 1] != '/') {
        folder.len--;
    }
    buf_init(&path, PART_MAX);
    buf_addc(&path, '/');
    if (link.len == 0 || link.p[0] != '/') {
        for (struct str part; folder.p != NULL;) {
            part = str_cut(folder, '/', &folder);
            add_part(&path, part, false);
        }
    }
    for (struct str part; rest.p != NULL;) {
        part = str_cut(rest, '/', &rest);
        add_part(&path, part, rest.p == NULL);
    }
    if (query.p != NULL) {
        buf_addc(&path, '?');
        buf_add(&path, query);
    }
    return arena_str(a, buf_str(&path));
}

/* "mailto:x" and the like: a word and a colon before any slash. */
static bool has_scheme(struct str link)
{
    for (size_t i = 0; i < link.len && link.p[i] != '/' && link.p[i] != '?'; i++) {
        if (link.p[i] == ':') {
            return true;
        }
    }
    return false;
}

int index_url_join(struct arena *a, const struct index_url *base, struct str link, struct str *out,
                   struct str *fragment, struct err *e)
{
    struct index_url whole = *base;
    struct str text = str_cut(str_trim(link), '#', fragment);

    if (text.len > INDEX_URL_MAX || base->path.len > INDEX_URL_MAX) {
        return bad_url(STR_EMPTY, e);
    }
    if (has_scheme(text)) {
        if (index_url_read(text, &whole, e) < 0) {
            return -1;
        }
    } else if (str_starts(text, S("//"))) {
        text = arena_printf(a, "http%s:%.*s", base->tls ? "s" : "", STR_ARG(text));
        if (index_url_read(text, &whole, e) < 0) {
            return -1;
        }
    } else {
        whole.path = join_path(a, base->path, text);
    }
    whole.user = STR_EMPTY;
    *out = index_url_text(a, &whole);
    return index_url_read(*out, &whole, e);
}

/* ---- a page ------------------------------------------------------------------------------ */

struct reader {
    struct str rest;
    struct index_url base;
    struct arena *arena;
    char base_text[INDEX_URL_MAX + 1];
};

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f';
}

static void skip_space(struct str *s)
{
    while (s->len > 0 && is_space(s->p[0])) {
        *s = str_skip(*s, 1);
    }
}

static unsigned digit_of(char c)
{
    return c <= '9' ? (unsigned)(c - '0') : (unsigned)(tolower((unsigned char)c) - 'a') + 10;
}

/* "#38;" or "#x26;": of ASCII only. */
static size_t take_number(struct str s, char *out)
{
    bool hex = str_starts(s, S("#x")) || str_starts(s, S("#X"));
    unsigned base = hex ? 16 : 10;
    unsigned value = 0;
    size_t i = hex ? 2 : 1;

    for (; i < s.len && i < 8 && isxdigit((unsigned char)s.p[i]); i++) {
        if (digit_of(s.p[i]) >= base) {
            return 0;
        }
        value = value * base + digit_of(s.p[i]);
    }
    if (i >= s.len || s.p[i] != ';' || value == 0 || value > 126) {
        return 0;
    }
    *out = (char)value;
    return i + 1;
}

/* One character reference behind '&'; how many bytes it takes, 0: it is none. */
static size_t take_entity(struct str s, char *out)
{
    static const struct {
        const char *name;
        char c;
    } named[] = {{"amp;", '&'}, {"lt;", '<'}, {"gt;", '>'}, {"quot;", '"'}, {"apos;", '\''}};

    for (size_t k = 0; k < COUNTOF(named); k++) {
        if (str_starts(s, str_from(named[k].name))) {
            *out = named[k].c;
            return strlen(named[k].name);
        }
    }
    return str_starts(s, S("#")) ? take_number(s, out) : 0;
}

static struct str unescape(struct arena *a, struct str s)
{
    struct buf out own_buf = {0};

    if (!str_has(s, '&')) {
        return s;
    }
    buf_init(&out, s.len + 1);
    for (size_t i = 0; i < s.len; i++) {
        char c = s.p[i];
        size_t n = c == '&' ? take_entity(str_skip(s, i + 1), &c) : 0;

        buf_addc(&out, c);
        i += n;
    }
    return arena_str(a, buf_str(&out));
}

/* The next attribute of a tag; false: the tag has ended. */
static bool take_attribute(struct reader *r, struct str *name, struct str *value)
{
    struct str *s = &r->rest;
    size_t n = 0;

    while (s->len > 0 && (is_space(s->p[0]) || s->p[0] == '/')) {
        *s = str_skip(*s, 1);
    }
    if (s->len == 0 || s->p[0] == '>') {
        *s = str_skip(*s, 1);
        return false;
    }
    while (n < s->len && !is_space(s->p[n]) && strchr("=/>", s->p[n]) == NULL) {
        n++;
    }
    *name = str_head(*s, n);
    *s = str_skip(*s, n > 0 ? n : 1); /* a '=' that nothing is in front of */
    *value = STR_EMPTY;
    skip_space(s);
    if (s->len == 0 || s->p[0] != '=' || n == 0) {
        return true;
    }
    *s = str_skip(*s, 1);
    skip_space(s);
    if (s->len > 0 && (s->p[0] == '"' || s->p[0] == '\'')) {
        *value = str_cut(str_skip(*s, 1), s->p[0], s);
    } else {
        for (n = 0; n < s->len && !is_space(s->p[n]) && s->p[n] != '>';) {
            n++;
        }
        *value = str_head(*s, n);
        *s = str_skip(*s, n);
    }
    *value = value->len <= VALUE_MAX ? *value : STR_EMPTY;
    return true;
}

static bool is_hash(struct str s)
{
    struct str digits;
    struct str kind = str_cut(s, '=', &digits);

    return digits.len >= 32 && digits.len <= 128 && kind.len >= 3 && kind.len <= 10 &&
           is_plain(kind, "") && is_plain(digits, "");
}

static bool is_file(struct str s)
{
    static const char *const ends[] = {".whl", ".tar.gz", ".zip", ".tar.bz2", ".tgz", ".tar.xz"};

    for (size_t i = 0; i < COUNTOF(ends); i++) {
        if (str_ends(s, str_from(ends[i])) && s.p[0] != '.') {
            return s.len <= 250 && is_plain(s, "._+!-");
        }
    }
    return false;
}

/* The last part of the address's path, where '+' and '!' may be escaped. */
static struct str file_of(struct arena *a, struct str url)
{
    struct buf out own_buf = {0};
    struct str query;
    struct str path = str_cut(url, '?', &query);
    size_t at = path.len;

    while (at > 0 && path.p[at - 1] != '/') {
        at--;
    }
    path = str_skip(path, at);
    buf_init(&out, path.len + 1);
    for (size_t i = 0; i < path.len; i++) {
        struct str here = str_head(str_skip(path, i), 3);
        bool plus = str_eq_nocase(here, S("%2B"));

        if (plus || str_eq(here, S("%21"))) {
            buf_addc(&out, plus ? '+' : '!');
            i += 2;
        } else {
            buf_addc(&out, path.p[i]);
        }
    }
    return arena_str(a, buf_str(&out));
}

/* What a tag says, as it is written there. */
struct found {
    struct str href, python, metadata;
    bool yanked;
};

static void keep_attribute(struct found *f, struct str name, struct str value)
{
    if (str_eq_nocase(name, S("href"))) {
        f->href = value;
    } else if (str_eq_nocase(name, S("data-requires-python"))) {
        f->python = value;
    } else if (str_eq_nocase(name, S("data-core-metadata")) ||
               str_eq_nocase(name, S("data-dist-info-metadata"))) {
        f->metadata = str_eq(value, S("true")) || is_hash(value) ? value : f->metadata;
    } else if (str_eq_nocase(name, S("data-yanked"))) {
        f->yanked = true;
    }
}

/* False: this is no file. */
static bool make_link(const struct reader *r, const struct found *f, struct index_link *out)
{
    struct err ignored = {0};
    struct str fragment = STR_EMPTY;

    *out = (struct index_link){.metadata = f->metadata, .yanked = f->yanked};
    if (f->href.len == 0 || index_url_join(r->arena, &r->base, unescape(r->arena, f->href),
                                           &out->url, &fragment, &ignored) < 0) {
        return false;
    }
    out->file = file_of(r->arena, out->url);
    out->hash = is_hash(fragment) ? fragment : STR_EMPTY;
    out->python = f->python.len <= 200 ? unescape(r->arena, f->python) : STR_EMPTY;
    return is_file(out->file);
}

/* <base href>: what the page's links begin with. */
static void set_base(struct reader *r, struct str href)
{
    struct err ignored = {0};
    struct str url = STR_EMPTY;
    struct str fragment;

    if (href.len > 0 && index_url_join(r->arena, &r->base, href, &url, &fragment, &ignored) == 0 &&
        url.len > 0 && url.len <= INDEX_URL_MAX) {
        memcpy(r->base_text, url.p, url.len);
        (void)!index_url_read((struct str){r->base_text, url.len}, &r->base, &ignored);
    }
}

/* The next tag's name, with the reader behind it; empty: there is none. */
static struct str next_tag(struct reader *r)
{
    while (r->rest.len > 0) {
        size_t n = 0;

        (void)str_cut(r->rest, '<', &r->rest);
        if (str_starts(r->rest, S("!--"))) {
            const char *end = memmem(r->rest.p, r->rest.len, "-->", 3);

            r->rest = end != NULL ? str_skip(r->rest, (size_t)(end - r->rest.p) + 3) : STR_EMPTY;
            continue;
        }
        while (n < r->rest.len && isalnum((unsigned char)r->rest.p[n])) {
            n++;
        }
        if (n > 0) {
            struct str name = str_head(r->rest, n);

            r->rest = str_skip(r->rest, n);
            return name;
        }
    }
    return STR_EMPTY;
}

int index_page_read(struct str page, const struct index_url *base, index_link_fn *each, void *arg,
                    struct err *e)
{
    struct reader r = {.rest = page, .base = *base};
    size_t n = 0;

    for (struct str tag = next_tag(&r); tag.len > 0; tag = next_tag(&r)) {
        struct arena one own_arena = {0};
        bool is_base = str_eq_nocase(tag, S("base"));
        struct found f = {0};
        struct index_link link;
        struct str name;
        struct str value;

        if (!is_base && !str_eq_nocase(tag, S("a"))) {
            continue;
        }
        arena_init(&one, PART_MAX);
        r.arena = &one;
        while (take_attribute(&r, &name, &value)) {
            keep_attribute(&f, name, value);
        }
        if (is_base) {
            set_base(&r, unescape(&one, f.href));
        } else if (make_link(&r, &f, &link)) {
            if (++n > INDEX_LINKS_MAX) {
                return err_set(e, ERR_LIMIT, "a page of the index has more than %d links",
                               INDEX_LINKS_MAX);
            }
            if (each(arg, &link, e) < 0) {
                return -1;
            }
        }
    }
    return 0;
}

/* ---- a page of ours ------------------------------------------------------------------------ */

static void add_escaped(struct buf *to, struct str s)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = s.p[i];

        if (c == '&' || c == '<' || c == '>' || c == '"' || c == '\'') {
            buf_addf(to, "&#%d;", c);
        } else if (c >= ' ' && c < 127) {
            buf_addc(to, c);
        }
    }
}

void index_page_begin(struct buf *to)
{
    buf_add(to, S("<!DOCTYPE html>\n<html><head><meta name=\"pypi:repository-version\" "
                  "content=\"1.0\"></head><body>\n"));
}

void index_page_add(struct buf *to, const struct index_link *link, struct str href)
{
    buf_addf(to, "<a href=\"%.*s", STR_ARG(href));
    if (link->hash.len > 0) {
        buf_addf(to, "#%.*s", STR_ARG(link->hash));
    }
    buf_addc(to, '"');
    if (link->python.len > 0) {
        buf_add(to, S(" data-requires-python=\""));
        add_escaped(to, link->python);
        buf_addc(to, '"');
    }
    if (link->metadata.len > 0) {
        buf_addf(to, " data-core-metadata=\"%.*s\" data-dist-info-metadata=\"%.*s\"",
                 STR_ARG(link->metadata), STR_ARG(link->metadata));
    }
    buf_add(to, link->yanked ? S(" data-yanked=\"\">") : S(">"));
    buf_add(to, link->file);
    buf_add(to, S("</a><br>\n"));
}

void index_page_end(struct buf *to)
{
    buf_add(to, S("</body></html>\n"));
}
