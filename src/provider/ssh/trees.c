/* trees.c - whole trees of a host without an agent: provider/shell.h over a plain channel. */
#include "provider/ssh/trees.h"

#include "base/thread.h"
#include "provider/ssh/own.h"

static int run(struct box *b, const struct ctx *ctx, struct str script, const struct source *input,
               const struct sink *output, int *status, struct err *e)
{
    struct exec_req req = {.shell = SHELL_SH, .command = script, .input = input};
    struct exec_result result = {0};

    if (ssh_exec_plain(b, ctx, &req, output, &result, e) < 0) {
        return -1;
    }
    *status = result.end == EXEC_EXITED ? result.code : 128 + result.code;
    return 0;
}

static const struct shell_way way;

/* Asked once. */
static int has_tools(struct box *b, const struct ctx *ctx, struct err *e)
{
    struct machine *m = machine_of(b);
    int known;

    lock(&m->lock);
    known = m->gnu_tools;
    unlock(&m->lock);
    if (known != 0) {
        return known > 0 ? 1 : 0;
    }
    int has_them = shell_find_tools(&way, b, ctx, e);
    if (has_them < 0) {
        return -1;
    }
    lock(&m->lock);
    m->gnu_tools = has_them > 0 ? 1 : -1;
    unlock(&m->lock);
    return has_them;
}

static int home(struct box *b, const struct ctx *ctx, struct str *out, struct err *e)
{
    struct facts facts;

    if (ssh_facts(machine_of(b), ctx, &facts, e) < 0) {
        return -1;
    }
    *out = arena_str(ctx->arena, facts.home);
    return 0;
}

static const struct tree_ops without = {
    .put = sftp_tree_put, .get = sftp_tree_get, .prune = sftp_tree_prune};

static const struct shell_way way = {
    .run = run,
    .has_tools = has_tools,
    .home = home,
    .files = &ssh_files_plain,
    .links = sftp_tree_links,
    .without = &without,
};

int ssh_tree_list(struct box *b, const struct ctx *ctx, const struct tree_req *req,
                  tree_entry_fn *each, void *arg, struct tree_facts *out, struct err *e)
{
    return shell_tree_list(&way, b, ctx, req, each, arg, out, e);
}

int ssh_tree_put(struct box *b, const struct ctx *ctx, struct str root,
                 const struct tree_source *from, struct put_result *out, struct err *e)
{
    return shell_tree_put(&way, b, ctx, root, from, out, e);
}

int ssh_tree_get(struct box *b, const struct ctx *ctx, struct str root, const struct str *paths,
                 size_t n, const struct tree_sink *to, struct err *e)
{
    return shell_tree_get(&way, b, ctx, root, paths, n, to, e);
}

int ssh_tree_prune(struct box *b, const struct ctx *ctx, struct str root, const struct str *paths,
                   size_t n, struct prune_result *out, struct err *e)
{
    return shell_tree_prune(&way, b, ctx, root, paths, n, out, e);
}
