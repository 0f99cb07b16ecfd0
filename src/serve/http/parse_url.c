/* parse_url.c - Host and Origin. */
#include <arpa/inet.h>
#include <string.h>

#include "serve/http/parse.h"

#define NAME_MAX_BYTES 255

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c);
}

/* ---- hosts ------------------------------------------------------------------------- */

/* The address in network order; false when it is not one in its usual form. */
static bool address_of(int family, struct str s, unsigned char out[16])
{
    char text[INET6_ADDRSTRLEN];

    memset(out, 0, 16);
    if (s.len == 0 || s.len >= sizeof(text) || str_has(s, '\0')) {
        return false;
    }
    memcpy(text, s.p, s.len);
    text[s.len] = '\0';
    return inet_pton(family, text, out) == 1;
}

/* ":8080" or nothing. */
static int read_port(struct str s, uint16_t *out, struct err *e)
{
    uint32_t port = 0;

    *out = 0;
    if (s.len == 0) {
        return 0;
    }
    for (size_t i = 1; i < s.len; i++) {
        port = is_digit(s.p[i]) && port <= 65535 ? port * 10 + (uint32_t)(s.p[i] - '0') : 65536;
    }
    if (s.p[0] != ':' || s.len < 2 || port < 1 || port > 65535) {
        return err_set(e, ERR_INVALID,
                       "behind the host there may be a port from 1 to 65535, as in :8080, and "
                       "nothing else");
    }
    *out = (uint16_t)port;
    return 0;
}

static int read_bracketed(struct str s, struct http_host *out, struct err *e)
{
    unsigned char address[16];
    struct str rest;
    struct str inside = str_cut(str_skip(s, 1), ']', &rest);

    if (rest.p == NULL || !address_of(AF_INET6, inside, address)) {
        return err_set(e, ERR_INVALID, "the host in brackets is not an IPv6 address such as [::1]");
    }
    out->kind = HOST_IPV6;
    out->name = inside;
    return read_port(rest, &out->port, e);
}

/* Letters, digits, '-' and '_' in parts of 1 to 63 with dots between them. */
static bool is_name(struct str s)
{
    size_t part = 0;

    if (s.len == 0 || s.len > NAME_MAX_BYTES) {
        return false;
    }
    for (size_t i = 0; i < s.len; i++) {
        if (s.p[i] == '.') {
            if (part == 0) {
                return false;
            }
            part = 0;
            continue;
        }
        if (!is_alnum(s.p[i]) && s.p[i] != '-' && s.p[i] != '_') {
            return false;
        }
        part++;
        if (part > 63) {
            return false;
        }
    }
    return part > 0;
}

/* Resolvers read "127.1", "0x7f.1" and "2130706433" as addresses; nobody means them. */
static bool ends_in_number(struct str s)
{
    size_t at = s.len;

    while (at > 0 && s.p[at - 1] != '.') {
        at--;
    }
    s = str_skip(s, at);
    if (str_starts(s, S("0x")) || str_starts(s, S("0X"))) {
        s = str_skip(s, 2);
        for (size_t i = 0; i < s.len; i++) {
            if (!is_digit(s.p[i]) && strchr("abcdefABCDEF", s.p[i]) == NULL) {
                return false;
            }
        }
        return true;
    }
    for (size_t i = 0; i < s.len; i++) {
        if (!is_digit(s.p[i])) {
            return false;
        }
    }
    return s.len > 0;
}

int http_host(struct str value, struct http_host *out, struct err *e)
{
    struct str s = http_trim(value);
    unsigned char address[16];
    struct str name;
    size_t n = 0;

    *out = (struct http_host){0};
    if (s.len > 0 && s.p[0] == '[') {
        return read_bracketed(s, out, e);
    }
    while (n < s.len && s.p[n] != ':') {
        n++;
    }
    name = str_head(s, n);
    out->name = name.len > 1 && str_ends(name, S(".")) ? str_head(name, name.len - 1) : name;
    out->kind = address_of(AF_INET, out->name, address) ? HOST_IPV4 : HOST_NAME;
    if (!is_name(out->name) || (out->kind == HOST_NAME && ends_in_number(out->name)) ||
        (out->kind == HOST_IPV4 && out->name.len != name.len)) {
        return err_set(e, ERR_INVALID,
                       "the host must be a name, an IPv4 address or an IPv6 address in brackets");
    }
    return read_port(str_skip(s, n), &out->port, e);
}

bool http_host_is_loopback(const struct http_host *h)
{
    unsigned char address[16];
    static const unsigned char one[16] = {[15] = 1};

    switch (h->kind) {
    case HOST_NAME: return str_eq_nocase(h->name, S("localhost"));
    case HOST_IPV4: return address_of(AF_INET, h->name, address) && address[0] == 127;
    case HOST_IPV6:
        return address_of(AF_INET6, h->name, address) && memcmp(address, one, sizeof(one)) == 0;
    }
    return false;
}

bool http_host_same(const struct http_host *a, const struct http_host *b)
{
    unsigned char x[16], y[16];

    if (a->kind != b->kind) {
        return false;
    }
    if (a->kind == HOST_IPV6) {
        return address_of(AF_INET6, a->name, x) && address_of(AF_INET6, b->name, y) &&
               memcmp(x, y, sizeof(x)) == 0;
    }
    return str_eq_nocase(a->name, b->name);
}

/* ---- origins ------------------------------------------------------------------------------- */

static bool is_scheme(struct str s)
{
    if (s.len == 0 || is_digit(s.p[0])) {
        return false;
    }
    for (size_t i = 0; i < s.len; i++) {
        if (!is_alnum(s.p[i]) && (i == 0 || strchr("+-.", s.p[i]) == NULL || s.p[i] == '\0')) {
            return false;
        }
    }
    return true;
}

static uint16_t usual_port(struct str scheme)
{
    return str_eq_nocase(scheme, S("http")) ? 80 : str_eq_nocase(scheme, S("https")) ? 443 : 0;
}

int http_origin(struct str value, struct http_origin *out, struct err *e)
{
    struct str s = http_trim(value);
    struct str rest;

    *out = (struct http_origin){0};
    if (str_eq(s, S("null"))) {
        out->opaque = true;
        return 0;
    }
    out->scheme = str_cut(s, ':', &rest);
    if (!is_scheme(out->scheme) || !str_starts(rest, S("//")) ||
        (rest.len > 2 && (rest.p[2] == ' ' || rest.p[2] == '\t'))) {
        return err_set(
            e, ERR_INVALID,
            "an origin is null or of the form https://name or https://name:port, without "
            "a path");
    }
    if (http_host(str_skip(rest, 2), &out->host, e) < 0) {
        return err_wrap(e, "the origin");
    }
    out->port = out->host.port != 0 ? out->host.port : usual_port(out->scheme);
    return 0;
}

bool http_origin_same(const struct http_origin *a, const struct http_origin *b)
{
    return !a->opaque && !b->opaque && str_eq_nocase(a->scheme, b->scheme) && a->port == b->port &&
           http_host_same(&a->host, &b->host);
}
