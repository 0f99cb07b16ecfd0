/* confirm.h - a yes from a person before something that cannot be undone. */
#ifndef TOOLS_CONFIRM_H
#define TOOLS_CONFIRM_H

#include "tools/tool.h"

enum confirmed {
    CONFIRM_YES,
    CONFIRM_NO,     /* a person declined */
    CONFIRM_NOBODY, /* closed without a decision, no answer in time, or nobody was there */
    CONFIRM_LATER,  /* as ASK_LATER: run() returns 0 at once */
};

/* Asks `message` with one box to tick, called `label`. Only for a client with CAN_FORM. */
int confirm_ask(struct call *c, struct str about, struct str message, const char *label,
                enum confirmed *out, struct err *e) MUST_CHECK;

#endif
