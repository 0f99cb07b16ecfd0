/* trees.h - whole trees without an agent, as the files behind ssh_trees_plain share them. */
#ifndef PROVIDER_SSH_TREES_H
#define PROVIDER_SSH_TREES_H

#include "provider/shell.h"

int ssh_tree_list(struct box *b, const struct ctx *ctx, const struct tree_req *req,
                  tree_entry_fn *each, void *arg, struct tree_facts *out, struct err *e);
int ssh_tree_put(struct box *b, const struct ctx *ctx, struct str root,
                 const struct tree_source *from, struct put_result *out, struct err *e);
int ssh_tree_get(struct box *b, const struct ctx *ctx, struct str root, const struct str *paths,
                 size_t n, const struct tree_sink *to, struct err *e);
int ssh_tree_prune(struct box *b, const struct ctx *ctx, struct str root, const struct str *paths,
                   size_t n, struct prune_result *out, struct err *e);

/* trees_sftp.c: the same without any tools. */
int sftp_tree_put(struct box *b, const struct ctx *ctx, struct str root,
                  const struct tree_source *from, struct put_result *out, struct err *e);
int sftp_tree_get(struct box *b, const struct ctx *ctx, struct str root, const struct str *paths,
                  size_t n, const struct tree_sink *to, struct err *e);
int sftp_tree_prune(struct box *b, const struct ctx *ctx, struct str root, const struct str *paths,
                    size_t n, struct prune_result *out, struct err *e);
/* Fills in the targets of the links among the entries. */
int sftp_tree_links(struct box *b, const struct ctx *ctx, struct str root,
                    struct tree_entry *entries, size_t n, struct arena *names, struct err *e)
    MUST_CHECK;

#endif
