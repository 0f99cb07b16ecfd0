#include "serve/http/admit.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/percent.h"
#include "mcp/rpc.h"
#include "serve/http/keys.h"
#include "serve/http/parse.h"
#include "serve/http/route.h"

static enum http_method method_of(struct str name)
{
    static const struct {
        const char *name;
        enum http_method method;
    } names[] = {
        {"GET", HTTP_GET}, {"HEAD", HTTP_HEAD},     {"POST", HTTP_POST},
        {"PUT", HTTP_PUT}, {"DELETE", HTTP_DELETE}, {"OPTIONS", HTTP_OPTIONS},
    };

    for (size_t i = 0; i < COUNTOF(names); i++) {
        if (str_eq(name, str_from(names[i].name))) {
            return names[i].method;
        }
    }
    return HTTP_OTHER;
}

static bool is_rpc(const struct request *r)
{
    return r->route != NULL ? (r->route->flags & ROUTE_RPC) != 0
                            : str_eq(r->path, S("/mcp")) || str_eq(r->path, S("/"));
}

/* Always false, so that a refusal is one line. */
static bool refuse(struct live *l, unsigned status, const char *code, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
static bool refuse(struct live *l, unsigned status, const char *code, const char *fmt, ...)
{
    char sentence[1024];
    struct buf out own_buf = {0};
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(sentence, sizeof(sentence), fmt, args);
    va_end(args);
    if (!is_rpc(&l->pub)) {
        request_fail(&l->pub, status, code, "%s", sentence);
        return false;
    }
    buf_init(&out, 8192);
    rpc_add_error(&out, STR_EMPTY, RPC_INVALID_REQUEST, str_from(sentence), STR_EMPTY);
    request_reply(&l->pub, status, "application/json", buf_str(&out));
    return false;
}

/* The path in .uri's second half, the query in its first. */
static int read_uri(struct live *l, struct err *e)
{
    struct str query;
    struct str path = str_cut(str_from(l->uri), '?', &query);
    struct str decoded;

    if (path.len == 0 || path.p[0] != '/') {
        return err_set(e, ERR_INVALID, "it must begin with '/'");
    }
    if (!str_has(path, '%')) {
        decoded = path;
    } else if (percent_read(&l->arena, path, false, &decoded, e) < 0) {
        return -1;
    }
    l->pub.path = decoded;
    l->pub.query = query;
    return 0;
}

/* ---- where the body ends ------------------------------------------------------------------ */

struct framing {
    unsigned lengths, encodings;
    struct str encoding;
    bool bad_name;
};

static enum MHD_Result look_at_header(void *cls, enum MHD_ValueKind kind, const char *key,
                                      size_t key_len, const char *value, size_t value_len)
{
    struct framing *f = cls;
    struct str name = {key, key_len};

    (void)kind;
    f->bad_name = f->bad_name || name.len == 0;
    for (size_t i = 0; i < name.len; i++) {
        f->bad_name = f->bad_name || name.p[i] <= ' ' || name.p[i] == 0x7f;
    }
    if (str_eq_nocase(name, S("Content-Length"))) {
        f->lengths++;
    } else if (str_eq_nocase(name, S("Transfer-Encoding"))) {
        f->encodings++;
        f->encoding = http_trim((struct str){value, value_len});
    }
    return MHD_YES;
}

/* What can be read in two ways is read in another one by a proxy in front of us, and the rest
 * of it passed for the request of somebody else. It is answered at once, and that was all. */
static bool check_framing(struct live *l)
{
    struct framing f = {0};

    (void)l->pub.http->mhd.get_connection_values_n(l->mhd, MHD_HEADER_KIND, look_at_header, &f);
    if (!f.bad_name && f.lengths + f.encodings <= 1 &&
        (f.encodings == 0 || str_eq_nocase(f.encoding, S("chunked")))) {
        return true;
    }
    l->length = INT64_MAX;
    request_set_header(&l->pub, "Connection", S("close"));
    return refuse(l, MHD_HTTP_BAD_REQUEST, "invalid",
                  f.bad_name ? "The name of a header has a space or a control character in it."
                             : "A request may have one Content-Length, or Transfer-Encoding: "
                               "chunked, and not both.");
}

static bool check_length(struct live *l)
{
    struct str length = request_header(&l->pub, "Content-Length");
    int64_t n = 0;
    struct err e;

    if (length.len > 0) {
        if (str_to_i64(length, 0, INT64_MAX, &n, &e) < 0) {
            return refuse(l, MHD_HTTP_BAD_REQUEST, "invalid",
                          "Content-Length must be a number of bytes.");
        }
        l->length = n;
    } else if (request_header(&l->pub, "Transfer-Encoding").len == 0) {
        l->length = 0;
    }
    return true;
}

/* ---- who asks ----------------------------------------------------------------------------- */

static bool check_guard(struct live *l)
{
    const struct guard *g = &l->pub.http->guard;
    struct str host = request_header(&l->pub, "Host");
    struct str origin = request_header(&l->pub, "Origin");
    bool cors = false;
    struct err e;

    if (request_header_count(&l->pub, "Host") > 1 || request_header_count(&l->pub, "Origin") > 1) {
        return refuse(l, MHD_HTTP_FORBIDDEN, "denied",
                      "A request may have one Host header and one Origin header.");
    }
    if (guard_host(g, host, &e) < 0 || guard_origin(g, origin, host, &cors, &e) < 0) {
        return refuse(l, MHD_HTTP_FORBIDDEN, "denied", "%s", e.msg);
    }
    if (cors) {
        l->origin = arena_str(&l->arena, origin);
    }
    return true;
}

/* The key that came with the request; empty: none. */
static struct str key_of(struct live *l)
{
    struct str key = request_header(&l->pub, "X-API-Key");
    struct str authorization = request_header(&l->pub, "Authorization");
    struct str token = STR_EMPTY;
    struct err ignored;

    if (authorization.len > 0 &&
        http_authorization(authorization, S("Bearer"), &token, &ignored) == 0) {
        return token;
    }
    return key;
}

static struct caller *find_caller(struct live *l)
{
    struct http *h = l->pub.http;
    char name[KEY_NAME_MAX + 1];
    char owner[KEY_OWNER_SIZE];
    struct str key;

    if (h->options->no_auth) {
        return callers_local(h->callers);
    }
    key = key_of(l);
    if (key.len == 0 || !keys_check(h->keys, key, name)) {
        return NULL;
    }
    return callers_of_key(h->callers, str_from(name), str_from(key_owner(name, owner)));
}

static bool check_key(struct live *l)
{
    const struct route *route = l->pub.route;
    bool had_one = key_of(l).len > 0;

    l->pub.caller = find_caller(l);
    if (l->pub.caller == NULL && route != NULL && route->admit != NULL && !had_one) {
        l->pub.caller = route->admit(&l->pub);
    }
    if (l->pub.caller == NULL && route != NULL && (route->flags & ROUTE_OPEN) != 0) {
        l->pub.caller = callers_nobody(l->pub.http->callers);
    }
    if (l->pub.caller != NULL) {
        return true;
    }
    request_set_header(&l->pub, "WWW-Authenticate",
                       had_one ? S("Bearer realm=\"anybox\", error=\"invalid_token\"")
                               : S("Bearer realm=\"anybox\""));
    return refuse(l, MHD_HTTP_UNAUTHORIZED, "denied",
                  had_one ? "This key is not known here; \"anybox key\" lists the keys and makes "
                            "new ones."
                          : "A key is needed: send it as \"Authorization: Bearer KEY\" or "
                            "\"X-API-Key: KEY\"; \"anybox key\" makes one.");
}

/* ---- what is asked ------------------------------------------------------------------------ */

/* A browser asks whether its page may; it sends no key with that. */
static bool is_preflight(struct live *l)
{
    return l->pub.method == HTTP_OPTIONS && l->origin.len > 0 &&
           request_header(&l->pub, "Access-Control-Request-Method").len > 0;
}

static bool answer_preflight(struct live *l)
{
    struct request *r = &l->pub;
    struct str tail;
    char methods[64];
    unsigned allowed = 0;
    const struct route *route = route_find(r->path, HTTP_OPTIONS, &allowed, &tail);
    const struct route *wanted =
        route_find(r->path, method_of(request_header(r, "Access-Control-Request-Method")),
                   &(unsigned){0}, &tail);

    if (route != NULL) {
        allowed |= route->methods;
    }
    if (wanted == NULL || (wanted->flags & ROUTE_CORS) == 0) {
        l->origin = STR_EMPTY;
        return refuse(l, MHD_HTTP_FORBIDDEN, "denied", "Pages of other sites may not use that.");
    }
    request_set_header(r, "Access-Control-Allow-Methods",
                       route_methods(allowed, methods, sizeof(methods)));
    request_set_header(r, "Access-Control-Allow-Headers",
                       S("Authorization, Content-Type, Accept, Last-Event-ID, Range, X-API-Key, "
                         "MCP-Protocol-Version, Mcp-Session-Id, Mcp-Method, Mcp-Name"));
    request_set_header(r, "Access-Control-Max-Age", S("600"));
    if (request_header(r, "Access-Control-Request-Private-Network").len > 0) {
        request_set_header(r, "Access-Control-Allow-Private-Network", S("true"));
    }
    request_reply(r, MHD_HTTP_NO_CONTENT, NULL, STR_EMPTY);
    return false;
}

static bool check_route(struct live *l, unsigned allowed)
{
    struct request *r = &l->pub;
    char methods[64];

    if (r->route != NULL) {
        if ((r->route->flags & ROUTE_CORS) == 0) {
            l->origin = STR_EMPTY;
        }
        return true;
    }
    if (allowed == 0) {
        return refuse(l, MHD_HTTP_NOT_FOUND, "not_found",
                      "There is nothing at this path; MCP is at /mcp.");
    }
    request_set_header(r, "Allow", route_methods(allowed, methods, sizeof(methods)));
    return refuse(l, MHD_HTTP_METHOD_NOT_ALLOWED, "invalid",
                  "This path does not have that method; it has %s.", methods);
}

static bool check_read_only(struct live *l)
{
    if ((l->pub.route->flags & ROUTE_WRITES) == 0 || l->pub.services->config->read_only == 0) {
        return true;
    }
    return refuse(l, MHD_HTTP_FORBIDDEN, "denied",
                  "This server is read-only (server.read_only): nothing can be written.");
}

static bool check_type(struct live *l)
{
    struct request *r = &l->pub;
    struct media_type type;
    struct err e;

    if (r->route->type == NULL || r->route->body_max == 0) {
        return true;
    }
    if (request_header_count(r, "Content-Type") != 1 ||
        http_media_type(request_header(r, "Content-Type"), &type, &e) < 0 ||
        !media_type_is(&type, str_from(r->route->type))) {
        return refuse(l, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE, "invalid",
                      "The body must be sent with \"Content-Type: %s\".", r->route->type);
    }
    return true;
}

void admit_refuse_length(struct live *l)
{
    (void)refuse(l, MHD_HTTP_CONTENT_TOO_LARGE, "limit",
                 "The body is longer than the %zu bytes that are accepted here%s.",
                 request_body_max(&l->pub),
                 (l->pub.route->flags & ROUTE_UPLOAD) != 0 ? " (http.max_upload)" : "");
}

void admit_refuse_bodies(struct live *l, long long max)
{
    request_set_header(&l->pub, "Retry-After", S("1"));
    (void)refuse(l, MHD_HTTP_TOO_MANY_REQUESTS, "limit",
                 "The bodies that this key is sending at once are longer than %lld bytes together; "
                 "wait for one to be answered, then send this one again.",
                 max);
}

static bool check_size(struct live *l)
{
    size_t max = request_body_max(&l->pub);

    if (max > 0 && l->length > (int64_t)max) {
        admit_refuse_length(l);
        return false;
    }
    return true;
}

bool admit(struct live *l, const char *method)
{
    struct request *r = &l->pub;
    unsigned allowed = 0;
    struct err e;

    r->method = method_of(str_from(method));
    if (!check_framing(l)) {
        return false;
    }
    if (read_uri(l, &e) < 0) {
        return refuse(l, MHD_HTTP_BAD_REQUEST, "invalid", "The path cannot be read: %s.", e.msg);
    }
    if (!check_length(l) || !check_guard(l)) {
        return false;
    }
    if (is_preflight(l)) {
        return answer_preflight(l);
    }
    r->route = route_find(r->path, r->method, &allowed, &r->tail);
    if (!check_key(l) || !check_route(l, allowed) || !check_read_only(l) || !check_type(l) ||
        !check_size(l)) {
        return false;
    }
    if (atomic_load(&r->http->leaving)) {
        request_set_header(r, "Retry-After", S("1"));
        return refuse(l, MHD_HTTP_SERVICE_UNAVAILABLE, "cancelled", "The server is leaving.");
    }
    return true;
}
