#include "serve/http/guard.h"

#include "serve/http/parse.h"

#define SHOWN 100 /* bytes of a client's word that an answer repeats */

static bool is_listed(struct str list, const struct http_host *host)
{
    while (list.len > 0) {
        struct str item = str_trim(str_cut(list, ',', &list));
        struct http_host allowed;
        struct err ignored;

        if (item.len > 0 && http_host(item, &allowed, &ignored) == 0 &&
            http_host_same(&allowed, host) && (allowed.port == 0 || allowed.port == host->port)) {
            return true;
        }
    }
    return false;
}

/* A name can be pointed at us by whoever owns it; an address is what it is, but is only taken
 * where we listen for others than this machine. */
static bool is_ours(const struct guard *g, const struct http_host *host)
{
    struct http_host bound;
    struct err ignored;

    if (http_host_is_loopback(host) || is_listed(g->hosts, host)) {
        return true;
    }
    if (g->any_address) {
        return host->kind != HOST_NAME;
    }
    return http_host(g->bound, &bound, &ignored) == 0 && http_host_same(&bound, host);
}

int guard_host(const struct guard *g, struct str host, struct err *e)
{
    struct http_host parsed;
    struct err why;

    if (host.len == 0) {
        return err_set(e, ERR_DENIED, "The request has no Host header; name the server in it.");
    }
    if (http_host(host, &parsed, &why) < 0) {
        return err_set(e, ERR_DENIED, "The Host header is refused: %s.", why.msg);
    }
    if (!is_ours(g, &parsed)) {
        return err_set(e, ERR_DENIED,
                       "This server does not answer to the Host \"%.*s\": use localhost or its "
                       "address, or list the name in http.hosts.",
                       STR_ARG(str_head(host, SHOWN)));
    }
    return 0;
}

static bool is_allowed(struct str list, const struct http_origin *origin)
{
    while (list.len > 0) {
        struct str item = str_trim(str_cut(list, ',', &list));
        struct http_origin allowed;
        struct err ignored;

        if (str_eq(item, S("*"))) {
            return true;
        }
        if (item.len > 0 && http_origin(item, &allowed, &ignored) == 0 &&
            http_origin_same(&allowed, origin)) {
            return true;
        }
    }
    return false;
}

bool guard_any_origin(const struct guard *g)
{
    return is_allowed(g->origins, &(struct http_origin){.opaque = true}); /* nobody's own */
}

/* A page that we served: its origin is what it calls us. A proxy may have taken the port and
 * the scheme away, so only the name counts where the page came by https; but not on this
 * machine, where every port is somebody else. */
static bool is_own(const struct http_origin *origin, struct str host)
{
    struct http_host ours;
    struct err ignored;
    bool https = str_eq_nocase(origin->scheme, S("https"));

    if (origin->opaque || http_host(host, &ours, &ignored) < 0 ||
        !http_host_same(&origin->host, &ours)) {
        return false;
    }
    if (https && !http_host_is_loopback(&ours)) {
        return true;
    }
    return origin->port == (ours.port != 0 ? ours.port : https ? 443 : 80);
}

int guard_origin(const struct guard *g, struct str origin, struct str host, bool *cors,
                 struct err *e)
{
    struct http_origin parsed;
    struct err why;

    *cors = false;
    if (origin.len == 0) {
        return 0;
    }
    if (http_origin(origin, &parsed, &why) < 0) {
        return err_set(e, ERR_DENIED, "The Origin header is refused: %s.", why.msg);
    }
    if (is_allowed(g->origins, &parsed)) {
        *cors = true;
        return 0;
    }
    if (!is_own(&parsed, host)) {
        return err_set(e, ERR_DENIED,
                       "Pages of \"%.*s\" may not use this server; list that origin in "
                       "http.cors_origins to allow it.",
                       STR_ARG(str_head(origin, SHOWN)));
    }
    return 0;
}
