/*
 * resource.h - a resource is one row: something to read under an address, or a family of
 * them under a template. The table is in resources.c; what has no row is not offered.
 *
 * Whether one has changed is found by looking: version() gives a text that stands for how it is
 * now, and who subscribed is told when the text is another one (mcp/observe.h). So changes that
 * other processes make, and boxes that end by themselves, are told as well.
 */
#ifndef TOOLS_RESOURCE_H
#define TOOLS_RESOURCE_H

#include "tools/tool.h"

#define RESOURCE_VALUES 4 /* names in a template, at most */

struct resource {
    /* "test://a/b", or with names in braces: "test://{id}/data". A name stands for one or more
     * characters other than '/'; "{+path}", at the end, for all the rest; and "{?lines,task}",
     * at the end, for nothing or a query, which is its value. */
    const char *uri;
    const char *name;
    const char *title;
    const char *help;
    const char *mime; /* NULL: it depends */
    bool changes;     /* it can be subscribed to */
    /* Fills *contents with a new array of the protocol's {"uri", "text" or "blob"}. `values` are
     * what the names stand for, as they came (percent-encoded). ERR_NOT_FOUND: there is no such
     * thing. */
    int (*read)(struct call *c, struct str uri, const struct str *values, json_t **contents,
                struct err *e);
    /* NULL: only a tool's call->changed tells of it. Appends the text. `quick`: nothing but this
     * process and its database may be asked; where that is not enough nothing is appended. What
     * is not there has a version, too. */
    int (*version)(struct call *c, const struct str *values, bool quick, struct buf *out,
                   struct err *e);
    /* Of a template; NULL, or: appends the protocol's {"uri", "name", "mimeType"} of those there
     * are. */
    int (*list)(struct call *c, json_t *all, struct err *e);
    complete_fn *complete; /* of a template */
    /* NULL, or: the configuration has the templates that this row stands for, which is itself not
     * shown. Appends them as the protocol has them. */
    void (*templates)(const struct config *config, json_t *all);
};

/* All resources; NULL at the end. */
extern const struct resource *const resources[];
bool resource_is_template(const struct resource *r);
/* The first row that has the address; NULL when there is none. */
const struct resource *resource_find(struct str uri, struct str values[RESOURCE_VALUES]);
/* The row whose own text this is: for completions. */
const struct resource *resource_of_template(struct str uri);

/* ---- for the rows -------------------------------------------------------------------- */

/* [{"uri", "mimeType", "text"}] */
json_t *resource_text(struct str uri, const char *mime, struct str text);
json_t *resource_json(struct str uri, const json_t *value);
/* The address of a file of a box, "sandbox://<id>/files/..."; `path` is absolute. In the arena. */
struct str resource_file_uri(struct arena *a, struct str box_id, struct str path);

#endif
