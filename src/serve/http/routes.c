/* routes.c - the table of routes, and which row is meant. */
#include <stdio.h>

#include "base/attr.h"
#include "serve/http/route.h"

static const struct route *const sets[] = {
    mcp_routes, rest_routes, file_routes, metrics_routes, openapi_routes,
};

static bool matches(const struct route *row, struct str path, struct str *tail)
{
    struct str pattern = str_from(row->path);

    if (!str_ends(pattern, S("*"))) {
        *tail = STR_EMPTY;
        return str_eq(path, pattern);
    }
    pattern.len--;
    *tail = str_skip(path, pattern.len);
    return path.len > pattern.len && str_starts(path, pattern);
}

const struct route *route_find(struct str path, enum http_method method, unsigned *allowed,
                               struct str *tail)
{
    unsigned wanted = method == HTTP_HEAD ? HTTP_GET : (unsigned)method;

    *allowed = 0;
    for (size_t set = 0; set < COUNTOF(sets); set++) {
        for (const struct route *row = sets[set]; row->path != NULL; row++) {
            if (!matches(row, path, tail)) {
                continue;
            }
            if ((row->methods & wanted) != 0) {
                return row;
            }
            *allowed |= row->methods;
        }
    }
    return NULL;
}

struct str route_methods(unsigned methods, char *to, size_t size)
{
    static const struct {
        unsigned bit;
        const char *name;
    } names[] = {
        {HTTP_GET, "GET"}, {HTTP_GET, "HEAD"},      {HTTP_POST, "POST"},
        {HTTP_PUT, "PUT"}, {HTTP_DELETE, "DELETE"}, {HTTP_OPTIONS, "OPTIONS"},
    };
    int len = 0;

    to[0] = '\0';
    for (size_t i = 0; i < COUNTOF(names); i++) {
        if ((methods & names[i].bit) != 0 && (size_t)len < size) {
            len +=
                snprintf(to + len, size - (size_t)len, "%s%s", len > 0 ? ", " : "", names[i].name);
        }
    }
    return str_from(to);
}
