/* trees.h - whole trees without an agent, as the files behind ssh_trees_plain share them. */
#ifndef PROVIDER_SSH_TREES_H
#define PROVIDER_SSH_TREES_H

#include "provider/ssh/shell.h"

int ssh_tree_list(struct box *b, const struct ctx *ctx, const struct tree_req *req,
                  tree_entry_fn *each, void *arg, struct tree_facts *out, struct err *e);
int ssh_tree_put(struct box *b, const struct ctx *ctx, struct str root,
                 const struct tree_source *from, struct put_result *out, struct err *e);
int ssh_tree_get(struct box *b, const struct ctx *ctx, struct str root, const struct str *paths,
                 size_t n, const struct tree_sink *to, struct err *e);
int ssh_tree_prune(struct box *b, const struct ctx *ctx, struct str root, const struct str *paths,
                   size_t n, struct prune_result *out, struct err *e);

/* Paths as the input of a script: "./" before and a NUL behind each. */
struct path_feed {
    const struct str *paths;
    size_t n, next;
    bool backwards;
    struct buf some;
};
struct source path_feed_source(struct path_feed *f);

/* The sentence for a host without GNU's tools. */
int ssh_tree_no_tools(struct err *e);

#endif
