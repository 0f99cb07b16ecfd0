/* agent_run.h - following one command over one connection; see agent_run.c. */
#ifndef PROVIDER_AGENT_RUN_H
#define PROVIDER_AGENT_RUN_H

#include "provider/provider.h"
#include "provider/talk.h"

struct run {
    struct box *box;
    struct talk talk;
    struct str id;
    const struct sink *sink;    /* NULL: output is dropped */
    const struct source *input; /* NULL: none, or it has ended */
    bool had_input;
    const bool *leave;  /* see struct exec_req */
    int64_t ask_ms;     /* its time is over: is the box still there? 0: no time-out */
    int64_t overdue_ms; /* the box should have ended the command by then; 0: nobody knows */
    uint64_t next[2];   /* offset behind the last byte of each stream */
    bool started, ended;
    bool stopped; /* by the caller, by its sink or its source: kill */
    bool silent;  /* the time is over, and the box has not said so */
    struct exec_result result;
};

void run_fini(struct run *r);
#define own_run CLEANUP(run_fini)

/* A box ends a command itself when its time is over. When it has not said so by then, it is
 * asked whether it is there. */
#define RUN_ASK_MS 500

/* Sends the request that is in r->talk.out and follows the command, as exec() does. */
int run_follow(struct run *r, const struct ctx *ctx, int64_t window_ms, struct exec_result *out,
               struct err *e) MUST_CHECK;

/* Kills a command over a connection of its own. */
int run_kill(struct box *b, const struct ctx *ctx, struct str id, uint32_t grace_ms, struct err *e)
    MUST_CHECK;

/* The fields that ENDED and TASK share. False: they make no sense. */
bool run_get_result(struct wire_in *r, struct exec_result *out);

static inline int64_t run_millis(uint64_t v)
{
    return v > INT64_MAX ? INT64_MAX : (int64_t)v;
}

#endif
