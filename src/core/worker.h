/* worker.h - us again as a process of its own, which outlives us: for what has to. */
#ifndef CORE_WORKER_H
#define CORE_WORKER_H

#include <sys/types.h>

#include "base/ctx.h"
#include "base/err.h"
#include "core/services.h"

/* Us again, also when the file was replaced by a newer version meanwhile. */
#define WORKER_PROGRAM "/proc/self/exe"
/* Where the worker is told environment and configuration: its argument --config-fd. */
#define WORKER_CONFIG_FD 3

struct worker_order {
    const char *program;     /* WORKER_PROGRAM, but in tests */
    const char *const *argv; /* NULL-terminated; no secrets */
    int out_fd, err_fd;      /* its stdout and stderr */
};

/* *pid is for the caller to wait for, also after a failure when it is not 0: then half of a
 * configuration is what ends the worker. */
int worker_spawn(const struct services *s, const struct ctx *ctx, const struct worker_order *order,
                 pid_t *pid, struct err *e) MUST_CHECK;

/* In the worker, before there is any thread: what it is told becomes its environment and its
 * configuration. The caller closes fd, and config_fini()s *out, also after a failure. */
int worker_receive(int fd, struct config *out, struct err *e) MUST_CHECK;

#endif
