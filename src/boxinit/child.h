/* child.h - a process between fork and the program it is to become. */
#ifndef BOXINIT_CHILD_H
#define BOXINIT_CHILD_H

#include "base/buf.h"
#include "boxinit/spec.h"

enum child_step {
    STEP_SESSION,
    STEP_LIMITS,
    STEP_IDS,
    STEP_PIPES,
    STEP_CWD,
    STEP_EXEC,
    STEP_INTERPRETER, /* the file is there, what would run it is not */
    STEP_ORDER,       /* a spare could not read what to run */
    STEP_READY,       /* no failure: exec is next */
};

/* What it says in the pipe that exec closes: that it is ready, then what went wrong. One that
 * ended without a word has run nothing. */
struct child_failure {
    int step, errnum;
};

/* A command's pipes, [0] for reading. -1: not there. */
struct child_pipes {
    int in[2], out[2], err[2], report[2];
};

#define CHILD_NO_PIPES                                                                             \
    {                                                                                              \
        {-1, -1}, {-1, -1}, {-1, -1}, {-1, -1},                                                    \
    }

int child_pipes_open(struct child_pipes *p, bool with_input, const struct spec *spec, struct err *e)
    MUST_CHECK;
int child_report_open(int report[2], struct err *e) MUST_CHECK;
void child_pipes_close(struct child_pipes *p);

/* What it runs. */
struct child_order {
    char **argv, **env;
    const char *const *files; /* tried in this order */
    const char *cwd;
    bool with_input;
};

/* A new session, the payload's limits and uid. .errnum is 0 when all went well. */
struct child_failure child_become(const struct spec *spec);
NORETURN void child_run(const struct child_order *order, const struct child_pipes *p);
NORETURN void child_run_bytes(struct str order, const struct child_pipes *p);
NORETURN void child_give_up(const struct child_pipes *p, struct child_failure why);

/* An order as bytes for a pipe, and back (into memory that is never freed: exec follows).
 * Text only, so that it can be tested without a process. */
void child_put_order(struct buf *to, const struct child_order *order);
bool child_get_order(struct str bytes, struct child_order *out);

#endif
