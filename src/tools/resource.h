/*
 * resource.h - a resource is one row: something to read under an address, or a family of
 * them under a template. The table is in resources.c; what has no row is not offered.
 */
#ifndef TOOLS_RESOURCE_H
#define TOOLS_RESOURCE_H

#include "tools/tool.h"

#define RESOURCE_VALUES 4 /* names in a template, at most */

struct resource {
    /* "test://a/b", or with names in braces: "test://{id}/data". A name stands for one or more
     * characters other than '/'. */
    const char *uri;
    const char *name;
    const char *title;
    const char *help;
    const char *mime;
    bool changes; /* it can be subscribed to */
    /* Fills *contents with a new array of the protocol's {"uri", "text" or "blob"}. `values` are
     * what the names stand for, as they came (percent-encoded). ERR_NOT_FOUND: there is no such
     * thing. */
    int (*read)(struct call *c, struct str uri, const struct str *values, json_t **contents,
                struct err *e);
};

/* All resources; NULL at the end. */
extern const struct resource *const resources[];
bool resource_is_template(const struct resource *r);
/* The first row that has the address; NULL when there is none. */
const struct resource *resource_find(struct str uri, struct str values[RESOURCE_VALUES]);

#endif
