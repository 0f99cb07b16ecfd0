/* process.h - a process that starts anew: what it inherited is put in order; and one that will
 * rest. */
#ifndef BOXINIT_PROCESS_H
#define BOXINIT_PROCESS_H

#include "base/err.h"

/* Every signal as it is by default and none blocked. */
void process_reset_signals(void);
/* stdin, stdout and stderr are /dev/null, the one that is there now. */
int process_null_stdio(struct err *e) MUST_CHECK;
/* What is free of the stack and the heap goes back to the machine: a box may rest for long. */
void process_give_back(void);

#endif
