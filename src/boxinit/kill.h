/* kill.h - find and signal all processes of a command. */
#ifndef BOXINIT_KILL_H
#define BOXINIT_KILL_H

#include "boxinit/server.h"

struct proc_stat {
    pid_t pid, parent, session;
    char state; /* 'Z': only waits to be reaped */
    unsigned long long start;
    bool marked;
};

/* One line of /proc/PID/stat. The name in it may hold anything, also ") S 1 1 1". */
bool kill_parse_stat(struct str line, struct proc_stat *out);

/* Marks the processes that belong to the command: those of its session, those seen
 * before, and all descendants of either. `all` is sorted by pid afterwards. */
void kill_mark(struct proc_stat *all, size_t n, pid_t main_pid, const struct proc_id *seen,
               size_t n_seen);

/* Looks at the box's processes, sends the signals (0: none) to those of the command and
 * remembers them in the task, so that one that leaves the tree later is found again.
 * Returns how many of them still run. */
size_t kill_tree(struct task *t, int sig, int then);

/* How many processes the box has, PID 1 not counted. */
uint32_t kill_count(void);

#endif
