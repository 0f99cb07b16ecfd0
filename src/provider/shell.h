/*
 * shell.h - scripts of ours in a place without an agent: an SSH host, a sandbox of a platform, a
 * container that our agent cannot run in.
 * Whole trees are listed, sent and fetched by the place's own find and tar (shell_list.c,
 * shell_move.c).
 */
#ifndef PROVIDER_SHELL_H
#define PROVIDER_SHELL_H

#include "base/buf.h"
#include "provider/provider.h"

/* Exit codes of our scripts. */
enum {
    SHELL_NO_MAKE = 95,  /* the root could not be made, or nothing in it */
    SHELL_NO_ENTER = 96, /* the root could not be entered */
    SHELL_NO_TOOL = 97,  /* what the host has for a tool does not do what we need */
};

#define SHELL_TEXT_MAX (120u << 10) /* of a script; execve: one string of at most 128 KiB */
#define SHELL_FEW      49152        /* bytes of a file that always go with a script */

/* How a kind of place runs scripts. */
struct shell_way {
    /* A script in sh, with exact bytes in and out; *status is its exit status, 128 + a signal. */
    int (*run)(struct box *b, const struct ctx *ctx, struct str script, const struct source *input,
               const struct sink *output, int *status, struct err *e);
    /* Whether GNU's tools are there, see shell_find_tools(); asked before each operation. 1, 0,
     * or -1. */
    int (*has_tools)(struct box *b, const struct ctx *ctx, struct err *e);
    int (*home)(struct box *b, const struct ctx *ctx, struct str *out, struct err *e);
    /* The same without such tools; all of it or NULL: then they are needed. */
    const struct file_ops *files;
    int (*links)(struct box *b, const struct ctx *ctx, struct str root, struct tree_entry *entries,
                 size_t n, struct arena *names, struct err *e); /* fills in their targets */
    const struct tree_ops *without;
    /* For over_shell.h. A path as the box means it becomes one that begins with '/'. */
    int (*place)(struct box *b, const struct ctx *ctx, struct str path, struct str *out,
                 struct err *e);
    /* Both or NULL: how the contents of a file come and go that are too many for run(); the paths
     * are absolute, of store() without '$' and of a file that is there. */
    int (*store)(struct box *b, const struct ctx *ctx, struct str path, const struct source *from,
                 struct err *e);
    int (*fetch)(struct box *b, const struct ctx *ctx, struct str path, int64_t from, int64_t max,
                 const struct sink *to, struct err *e);
};

struct shell {
    const struct shell_way *way;
    struct box *box;
    const struct ctx *ctx;
    struct str root; /* for sentences */
    /* Takes stdout; NULL: it is dropped. */
    int (*out)(void *arg, struct str bytes, struct err *e);
    void *arg;
    int code;          /* exit status; 128 + a signal */
    struct buf errors; /* the first of stderr */
    uint64_t n_errors; /* lines of it */
};

void shell_init(struct shell *s, const struct shell_way *way, struct box *b, const struct ctx *ctx,
                struct str root);
void shell_fini(struct shell *s);
/* Adds a path of the host as a word that is no option: "~" is $HOME, else relative to it. */
void shell_add_path(struct buf *script, struct str path);
/* Runs a script in the host's sh and waits for its end. 0 whatever its exit status is. */
int shell_run(struct shell *s, struct str script, const struct source *input, struct err *e)
    MUST_CHECK;
/* The sentence for a script that failed: from its status and what it printed. Returns -1. */
int shell_fail(const struct shell *s, const char *doing, struct err *e);
struct str shell_first_error(const struct shell *s); /* a line, in the call's arena */

/* The variables of a command are ones that a shell can export. ERR_INVALID. */
int shell_check_env(const struct exec_req *req, struct err *e) MUST_CHECK;

/* The way has no files of its own, and the tools are not there. Returns -1. */
int shell_no_tools(struct err *e);
/* Whether the place has GNU's find, tar, mv and rm. 1, 0, or -1. */
int shell_find_tools(const struct shell_way *way, struct box *b, const struct ctx *ctx,
                     struct err *e) MUST_CHECK;

/* ---- whole trees ------------------------------------------------------------------------- */

int shell_tree_list(const struct shell_way *way, struct box *b, const struct ctx *ctx,
                    const struct tree_req *req, tree_entry_fn *each, void *arg,
                    struct tree_facts *out, struct err *e) MUST_CHECK;
int shell_tree_put(const struct shell_way *way, struct box *b, const struct ctx *ctx,
                   struct str root, const struct tree_source *from, struct put_result *out,
                   struct err *e) MUST_CHECK;
int shell_tree_get(const struct shell_way *way, struct box *b, const struct ctx *ctx,
                   struct str root, const struct str *paths, size_t n, const struct tree_sink *to,
                   struct err *e) MUST_CHECK;
int shell_tree_prune(const struct shell_way *way, struct box *b, const struct ctx *ctx,
                     struct str root, const struct str *paths, size_t n, struct prune_result *out,
                     struct err *e) MUST_CHECK;

/* Paths as the input of a script: "./" before and a NUL behind each. */
struct path_feed {
    const struct str *paths;
    size_t n, next;
    bool backwards;
    struct buf some;
};
struct source path_feed_source(struct path_feed *f);

#endif
