/* trees.c - how scripts are run in a sandbox for whole trees and files: see over_shell.h. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/own.h"
#include "base/thread.h"
#include "provider/opensandbox/own.h"
#include "provider/shell.h"

#define TOOLS_YES 1

/* Asked once for each handle. */
static int has_tools(struct box *b, const struct ctx *ctx, struct err *e)
{
    struct osb_box *own = osb_box_of(b);
    unsigned known;

    lock(&own->lock);
    known = own->tools;
    unlock(&own->lock);
    if (known == TOOLS_YES) {
        return 1;
    }
    int rc = shell_find_tools(&osb_shell, b, ctx, e);
    if (rc <= 0) {
        return rc < 0 ? -1 : shell_no_tools(e);
    }
    lock(&own->lock);
    own->tools = TOOLS_YES;
    unlock(&own->lock);
    return 1;
}

static int home(struct box *b, const struct ctx *ctx, struct str *out, struct err *e)
{
    struct way *at own_mem = xcalloc(1, sizeof(*at));

    if (osb_reach(osb_box_of(b), ctx, at, e) < 0) {
        return -1;
    }
    *out = arena_str(ctx->arena, str_from(at->home));
    return 0;
}

static int place(struct box *b, const struct ctx *ctx, struct str path, struct str *out,
                 struct err *e)
{
    struct way *at own_mem = xcalloc(1, sizeof(*at));

    if (osb_reach(osb_box_of(b), ctx, at, e) < 0) {
        return -1;
    }
    *out = osb_absolute(ctx, at, path);
    return 0;
}

const struct shell_way osb_shell = {
    .run = osb_script,
    .has_tools = has_tools,
    .home = home,
    .place = place,
    .store = osb_store,
    .fetch = osb_fetch,
};
