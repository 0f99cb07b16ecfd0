/* trees.c - whole trees of a sandbox by its own find and tar, and how busy it is. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/own.h"
#include "base/thread.h"
#include "provider/opensandbox/own.h"
#include "provider/probe.h"
#include "provider/shell.h"

#define TOOLS_YES 1
#define TOOLS_NO  2

static const struct shell_way way;

/* Asked once for each handle. */
static int has_tools(struct box *b, const struct ctx *ctx, struct err *e)
{
    struct osb_box *own = osb_box_of(b);
    unsigned known;

    lock(&own->lock);
    known = own->tools;
    unlock(&own->lock);
    if (known != 0) {
        return known == TOOLS_YES ? 1 : 0;
    }
    int rc = shell_find_tools(&way, b, ctx, e);
    if (rc < 0) {
        return -1;
    }
    if (rc == 0) {
        return err_set(e, ERR_UNSUPPORTED,
                       "whole folders need GNU's find, tar and coreutils in the sandbox: install "
                       "them (findutils, tar, coreutils), or move single files");
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

static const struct shell_way way = {.run = osb_script, .has_tools = has_tools, .home = home};

/* Scripts take paths that begin with '/'. */
static int find_root(struct box *b, const struct ctx *ctx, struct str root, struct str *out,
                     struct err *e)
{
    struct way *at own_mem = xcalloc(1, sizeof(*at));

    if (osb_reach(osb_box_of(b), ctx, at, e) < 0) {
        return -1;
    }
    *out = osb_absolute(ctx, at, root);
    return 0;
}

static int tree_list(struct box *b, const struct ctx *ctx, const struct tree_req *req,
                     tree_entry_fn *each, void *arg, struct tree_facts *out, struct err *e)
{
    struct tree_req own = *req;

    return find_root(b, ctx, req->root, &own.root, e) < 0
               ? -1
               : shell_tree_list(&way, b, ctx, &own, each, arg, out, e);
}

static int tree_put(struct box *b, const struct ctx *ctx, struct str root,
                    const struct tree_source *from, struct put_result *out, struct err *e)
{
    return find_root(b, ctx, root, &root, e) < 0 ? -1
                                                 : shell_tree_put(&way, b, ctx, root, from, out, e);
}

static int tree_get(struct box *b, const struct ctx *ctx, struct str root, const struct str *paths,
                    size_t n, const struct tree_sink *to, struct err *e)
{
    return find_root(b, ctx, root, &root, e) < 0
               ? -1
               : shell_tree_get(&way, b, ctx, root, paths, n, to, e);
}

static int tree_prune(struct box *b, const struct ctx *ctx, struct str root,
                      const struct str *paths, size_t n, struct prune_result *out, struct err *e)
{
    return find_root(b, ctx, root, &root, e) < 0
               ? -1
               : shell_tree_prune(&way, b, ctx, root, paths, n, out, e);
}

const struct tree_ops osb_trees = {
    .list = tree_list, .put = tree_put, .get = tree_get, .prune = tree_prune};

/* ---- how busy ---------------------------------------------------------------------------------- */

static int keep(void *arg, enum stream from, struct str bytes, struct err *e)
{
    (void)e;
    if (from == STREAM_OUT) {
        buf_add(arg, bytes);
    }
    return 0;
}

/* execd's own figures take a second, and are those of the machine as well. */
static int osb_usage(struct box *b, const struct ctx *ctx, struct usage *out, struct err *e)
{
    struct buf text own_buf = {0};
    const struct sink sink = {.write = keep, .arg = &text};
    int status = 0;

    buf_init(&text, PROBE_MAX_BYTES);
    if (osb_script(b, ctx, str_from(probe_script), NULL, &sink, &status, e) < 0) {
        return -1;
    }
    return probe_parse(buf_str(&text), out, e);
}

const struct meter_ops osb_meter = {.usage = osb_usage};
