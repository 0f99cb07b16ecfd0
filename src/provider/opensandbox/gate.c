#include "provider/opensandbox/gate.h"

#include <ctype.h>
#include <string.h>

#include "base/own.h"

#define DECODINGS 3 /* of a path, by each who passes it on */

static int bad(struct err *e, const char *what)
{
    return err_set(e, ERR_INVALID,
                   "%s: only HTTP/1 requests go to a port of this sandbox, because the platform "
                   "leads to it by HTTP",
                   what);
}

/* ---- the path ------------------------------------------------------------------------------- */

static bool climbs(struct str path)
{
    size_t begin = 0;

    for (size_t i = 0; i <= path.len; i++) {
        if (i < path.len && path.p[i] != '/' && path.p[i] != '\\') {
            continue;
        }
        /* "..;x" is ".." to some. */
        struct str part = {path.p + begin, i - begin};
        if (str_eq(part, S("..")) || str_starts(part, S("..;"))) {
            return true;
        }
        begin = i + 1;
    }
    return false;
}

static int digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c = (char)tolower((unsigned char)c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Escapes that are none stay as they are. */
static void decode(struct buf *b)
{
    size_t n = 0;

    for (size_t i = 0; i < b->len; i++) {
        bool is_escape =
            b->p[i] == '%' && i + 2 < b->len && digit(b->p[i + 1]) >= 0 && digit(b->p[i + 2]) >= 0;

        b->p[n++] = (char)(is_escape ? digit(b->p[i + 1]) * 16 + digit(b->p[i + 2]) : b->p[i]);
        i += is_escape ? 2 : 0;
    }
    b->len = n;
}

static bool leaves(struct str target)
{
    struct buf path own_buf = {0};
    struct str query;

    buf_init(&path, GATE_HEAD_MAX);
    buf_add(&path, str_cut(target, '?', &query));
    for (int i = 0; i < DECODINGS; i++) {
        if (climbs(buf_str(&path))) {
            return true;
        }
        decode(&path);
    }
    return climbs(buf_str(&path));
}

/* ---- lines ------------------------------------------------------------------------------------ */

static struct str next_line(struct str *rest)
{
    struct str line = str_cut(*rest, '\n', rest);

    if (str_ends(line, S("\r"))) {
        line.len--;
    }
    return line;
}

/* The length of the head; 0: it is not whole. */
static size_t head_len(struct str said)
{
    struct str rest = said;

    while (rest.len > 0) {
        if (memchr(rest.p, '\n', rest.len) == NULL) {
            return 0;
        }
        if (next_line(&rest).len == 0) {
            return said.len - rest.len;
        }
    }
    return 0;
}

static int put_first(struct str line, const struct gate *g, struct buf *out, struct err *e)
{
    struct str target, version;
    struct str method = str_cut(line, ' ', &target);

    target = str_cut(target, ' ', &version);
    if (!str_eq(version, S("HTTP/1.1")) && !str_eq(version, S("HTTP/1.0"))) {
        return bad(e, "this is no HTTP/1 request");
    }
    if (!str_starts(target, S("/"))) {
        return bad(e, "the request names no path");
    }
    for (size_t i = 0; i < target.len; i++) {
        if ((unsigned char)target.p[i] <= ' ' || target.p[i] == 0x7f || target.p[i] == '#') {
            return bad(e, "the path has bytes that belong into no path");
        }
    }
    if (leaves(target)) {
        return bad(e, "the path climbs with \"..\"");
    }
    buf_addf(out, "%.*s %.*s%.*s %.*s\r\n", STR_ARG(method), STR_ARG(g->prefix), STR_ARG(target),
             STR_ARG(version));
    return 0;
}

/* Of this connection alone, or ours to say. */
static bool is_dropped(const struct gate *g, struct str name)
{
    static const char *const names[] = {"host", "connection", "keep-alive", "proxy-connection",
                                        "proxy-authorization"};

    for (size_t i = 0; i < COUNTOF(names); i++) {
        if (str_eq_nocase(name, str_from(names[i]))) {
            return true;
        }
    }
    for (size_t i = 0; i < g->n_headers; i++) {
        struct str value;

        if (str_eq_nocase(name, str_cut(g->headers[i], ':', &value))) {
            return true;
        }
    }
    return false;
}

static bool is_name(struct str name)
{
    for (size_t i = 0; i < name.len; i++) {
        if (!isgraph((unsigned char)name.p[i])) {
            return false;
        }
    }
    return name.len > 0;
}

static int put_headers(struct str rest, const struct gate *g, struct buf *out, bool *is_change,
                       struct err *e)
{
    struct str host = STR_EMPTY;

    while (rest.len > 0) {
        struct str line = next_line(&rest);
        struct str value;
        struct str name = str_cut(line, ':', &value);

        if (line.len == 0) {
            break;
        }
        if (value.p == NULL || !is_name(name) || str_has(value, '\r') || str_has(value, '\0')) {
            return bad(e, "a header of the request cannot be read");
        }
        if (str_eq_nocase(name, S("host"))) {
            host = str_trim(value);
        }
        *is_change = *is_change || str_eq_nocase(name, S("upgrade"));
        if (!is_dropped(g, name)) {
            buf_addf(out, "%.*s\r\n", STR_ARG(line));
        }
    }
    buf_addf(out, "Host: %.*s\r\n", STR_ARG(g->host));
    if (host.len > 0) {
        buf_addf(out, "X-Forwarded-Host: %.*s\r\n", STR_ARG(host));
    }
    for (size_t i = 0; i < g->n_headers; i++) {
        buf_addf(out, "%.*s\r\n", STR_ARG(g->headers[i]));
    }
    buf_addf(out, "Connection: %s\r\n\r\n", *is_change ? "Upgrade" : "close");
    return 0;
}

int gate_head(struct str said, const struct gate *g, struct buf *out, struct gate_found *found,
              struct err *e)
{
    size_t n = head_len(said);
    struct str rest;

    if (said.len > 0 && !isupper((unsigned char)said.p[0])) {
        return bad(e, "this is no HTTP/1 request");
    }
    if (n == 0) {
        /* Who speaks another protocol may end a line, and wait. */
        if (said.len > 0 && memchr(said.p, '\n', said.len) != NULL) {
            struct buf first own_buf = {0};

            rest = said;
            buf_init(&first, (size_t)2 * GATE_HEAD_MAX);
            if (put_first(next_line(&rest), g, &first, e) < 0) {
                return -1;
            }
        }
        return said.len < GATE_HEAD_MAX ? 0 : bad(e, "the head of the request is too long");
    }
    *found = (struct gate_found){.used = n};
    rest = str_head(said, n);
    if (put_first(next_line(&rest), g, out, e) < 0) {
        return -1;
    }
    return put_headers(rest, g, out, &found->is_change, e) < 0 ? -1 : 1;
}
