/* shell.h - scripts of ours on a host, for whole trees without an agent. */
#ifndef PROVIDER_SSH_SHELL_H
#define PROVIDER_SSH_SHELL_H

#include "base/buf.h"
#include "provider/provider.h"

/* Exit codes of our scripts. */
enum {
    SHELL_NO_MAKE = 95,  /* the root could not be made, or nothing in it */
    SHELL_NO_ENTER = 96, /* the root could not be entered */
    SHELL_NO_TOOL = 97,  /* what the host has for a tool does not do what we need */
};

struct shell {
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

void shell_init(struct shell *s, struct box *b, const struct ctx *ctx, struct str root);
void shell_fini(struct shell *s);
/* Adds a path of the host as a word that is no option: "~" is $HOME, else relative to it. */
void shell_add_path(struct buf *script, struct str path);
/* Runs a script in the host's sh and waits for its end. 0 whatever its exit status is. */
int shell_run(struct shell *s, struct str script, const struct source *input, struct err *e)
    MUST_CHECK;
/* The sentence for a script that failed: from its status and what it printed. Returns -1. */
int shell_fail(const struct shell *s, const char *doing, struct err *e);
struct str shell_first_error(const struct shell *s); /* a line, in the call's arena */

#endif
