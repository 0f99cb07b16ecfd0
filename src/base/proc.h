/*
 * proc.h - start a process. The only way to do it in the server, by posix_spawn:
 * a threaded program must not fork.
 */
#ifndef BASE_PROC_H
#define BASE_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/ctx.h"
#include "base/err.h"
#include "base/str.h"

struct proc_fd {
    int from, to; /* `from` in this process becomes `to` in the child */
};

struct proc_spec {
    const char *file;          /* absolute, or looked up in PATH */
    const char *const *argv;   /* NULL-terminated */
    const char *const *envp;   /* NULL-terminated; NULL: an empty environment */
    const struct proc_fd *fds; /* 0, 1 and 2 that are not named become /dev/null */
    size_t n_fds;              /* every other descriptor is closed in the child */
    bool new_session;
};

int proc_spawn(const struct proc_spec *spec, pid_t *out, struct err *e) MUST_CHECK;
/* Waits for the child, obeying ctx. *status as from waitpid(). */
int proc_wait(const struct ctx *ctx, pid_t pid, int *status, struct err *e) MUST_CHECK;
/* Runs a program (its argv[0] is looked up in PATH) in a session of its own and collects what
 * it writes to its output. When ctx ends it, or `out` is full, the whole session is killed. */
int proc_output(const struct ctx *ctx, const char *const *argv, const char *const *envp,
                struct buf *out, int *status, struct err *e) MUST_CHECK;
/* The folder that holds the running executable, from /proc/self/exe. */
struct str proc_self_dir(struct arena *a);

/* A process's start time in clock ticks since boot (field 22 of /proc/PID/stat),
 * which with the boot id names a process for ever. -1: no such process. */
long long proc_start_time(pid_t pid);
/* The process of that pid and start time (-1: not known) does certainly not exist any
 * more. False also when it cannot be told, as when no descriptor is left to look with:
 * what hangs on a process's life must not be removed for that. */
bool proc_is_gone(pid_t pid, long long start);
/* The same, and true also of one that has ended and was not waited for yet: nothing of it runs. */
bool proc_has_ended(pid_t pid, long long start);
/* A descriptor of that very process, close-on-exec: it becomes readable when the process ends, and
 * pidfd_send_signal() through it can hit no other one. ERR_NOT_FOUND when it has ended. */
int proc_open(pid_t pid, long long start, struct err *e) MUST_CHECK;
/* /proc/sys/kernel/random/boot_id without the newline; empty where unknown. */
struct str proc_boot_id(struct arena *a);

#endif
