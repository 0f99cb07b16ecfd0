/* run_tests.h - what run_tests.c (finding and running) and run_tests_report.c (the answer) share. */
#ifndef TOOLS_RUN_TESTS_H
#define TOOLS_RUN_TESTS_H

#include "base/buf.h"
#include "provider/provider.h"
#include "tools/answer.h"

#define TESTS_TEXT_MAX (8u << 20) /* bytes of a stream, and of a report, that are read */

/* What a run printed, the end of it. */
struct tests_output {
    struct buf streams[2]; /* by enum stream */
};

struct tests_run {
    struct str dir;     /* in the box, where the script left its reports */
    struct str problem; /* the run could not be: why; or empty */
    const struct tests_output *output;
    bool coverage; /* was asked for */
};

/* Reads what is in the folder, and removes it. */
int tests_collect(struct call *c, struct box *b, struct tests_run *run, json_t *answer,
                  struct err *e) MUST_CHECK;

#endif
