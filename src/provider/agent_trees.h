/*
 * agent_trees.h - what tree_put() and split_put() share. Theirs alone.
 */
#ifndef PROVIDER_AGENT_TREES_H
#define PROVIDER_AGENT_TREES_H

#include "agent/entries.h"
#include "provider/over_agent.h"
#include "provider/talk.h"

#define OUT_AHEAD (256u << 10) /* prepared for sending, about */

/* One conversation with blocks of entries. */
struct exchange {
    struct talk talk;
    const struct ctx *ctx;
    struct entries_out out;
    struct entries_in in;
    bool waits; /* for a frame: nothing is sent before it */
};

/* One that puts. */
struct putting {
    struct exchange x;
    struct box *box;
    struct str root;
    const struct tree_source *from;
    struct tree_sink to;
    bool in_file;
    /* The large file that goes in parts. */
    struct tree_entry large;
    char path[TREE_PATH_MAX];
};

/* Opens the conversation and prepares the request. put_close() also after a failure; it returns
 * what the put returns. */
int put_begin(struct putting *p, struct box *b, const struct ctx *ctx, struct str root,
              struct err *e) MUST_CHECK;
int put_close(struct putting *p, int rc, struct err *e);
/* Prepares a piece of the file that the source is in. 1; -1. */
int put_more_of_file(struct putting *p, struct err *e) MUST_CHECK;
/* The end of what we send. */
int put_end(struct exchange *x, struct err *e) MUST_CHECK;
/* What was written, as the box says. */
int put_told(const struct ctx *ctx, struct frame f, struct put_result *out, struct err *e)
    MUST_CHECK;
bool put_is_sign_of_life(struct frame f);

/*
 * A source of TREE_FILES over several connections (agent_box.lane): one put on each, at the same
 * time. All files of a folder go over the same one, and no folder is made, so nobody writes where
 * another one does. Connections that are being made come in when they are there. One that is
 * lost is the end of it (ERR_UNREACHABLE): nobody knows what it still owed.
 */
int split_put(struct box *b, const struct ctx *ctx, struct str root, const struct tree_source *from,
              struct put_result *out, struct err *e) MUST_CHECK;

#endif
