/* record.h - a tool call in the log and in the audit log. */
#ifndef TOOLS_RECORD_H
#define TOOLS_RECORD_H

#include "base/sha256.h"
#include "tools/tool.h"

struct record {
    const struct tool *tool;
    struct call *call;
    int64_t started_ms;
    struct str command; /* what the audit log tells of it; in the call's arena */
    char id[17];        /* the same in both logs */
    char digest[SHA256_HEX_SIZE];
    bool audited;
};

/* Before the call runs. Fails when the operator wants calls to be recorded and that is not
 * possible: the call must not run then. record_end() follows in any case. */
int record_begin(struct record *r, const struct tool *t, struct call *c, const json_t *arguments,
                 struct err *e) MUST_CHECK;
void record_end(struct record *r);

#endif
