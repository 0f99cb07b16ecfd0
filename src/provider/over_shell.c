#include "provider/over_shell.h"

#include "base/buf.h"
#include "provider/probe.h"
#include "provider/shell.h"
#include "provider/sink.h"

static const struct shell_way *way_of(const struct box *b)
{
    return b->provider->ops->shell;
}

/* ---- whole trees ------------------------------------------------------------------------------- */

static int tree_list(struct box *b, const struct ctx *ctx, const struct tree_req *req,
                     tree_entry_fn *each, void *arg, struct tree_facts *out, struct err *e)
{
    struct tree_req own = *req;

    return way_of(b)->place(b, ctx, req->root, &own.root, e) < 0
               ? -1
               : shell_tree_list(way_of(b), b, ctx, &own, each, arg, out, e);
}

static int tree_put(struct box *b, const struct ctx *ctx, struct str root,
                    const struct tree_source *from, struct put_result *out, struct err *e)
{
    return way_of(b)->place(b, ctx, root, &root, e) < 0
               ? -1
               : shell_tree_put(way_of(b), b, ctx, root, from, out, e);
}

static int tree_get(struct box *b, const struct ctx *ctx, struct str root, const struct str *paths,
                    size_t n, const struct tree_sink *to, struct err *e)
{
    return way_of(b)->place(b, ctx, root, &root, e) < 0
               ? -1
               : shell_tree_get(way_of(b), b, ctx, root, paths, n, to, e);
}

static int tree_prune(struct box *b, const struct ctx *ctx, struct str root,
                      const struct str *paths, size_t n, struct prune_result *out, struct err *e)
{
    return way_of(b)->place(b, ctx, root, &root, e) < 0
               ? -1
               : shell_tree_prune(way_of(b), b, ctx, root, paths, n, out, e);
}

const struct tree_ops trees_over_shell = {
    .list = tree_list, .put = tree_put, .get = tree_get, .prune = tree_prune};

/* ---- how busy ---------------------------------------------------------------------------------- */

static int shell_usage(struct box *b, const struct ctx *ctx, struct usage *out, struct err *e)
{
    struct buf text own_buf = {0};
    const struct sink sink = sink_stdout(&text);
    int status = 0;

    buf_init(&text, PROBE_MAX_BYTES);
    if (way_of(b)->run(b, ctx, str_from(probe_script), NULL, &sink, &status, e) < 0) {
        return -1;
    }
    return probe_parse(buf_str(&text), out, e);
}

const struct meter_ops meter_over_shell = {.usage = shell_usage};
