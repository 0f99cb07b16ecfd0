/*
 * daemon.h - the watchdog: one process for each state folder, which outlives every client.
 *
 * Theory of operation. It holds the lock <state>/watchdog.lock, in which its pid stands; a
 * second one finds it held and ends. Its thread sleeps until a watch or a delivery is due, or
 * for a few seconds, because other processes add watches; what is due is done on other
 * threads (round.h, deliver.h), which wake it. It writes a heartbeat, and once in a while it
 * removes what is old. It may be killed at any time: all it knows is in the database, and the next
 * one goes on from there. It reads the configuration files again when one of them changes.
 */
#ifndef WATCH_DAEMON_H
#define WATCH_DAEMON_H

#include "base/ctx.h"
#include "base/err.h"
#include "core/services.h"

#define WATCHDOG_STALE_S   180 /* without a heartbeat for so long it is taken for dead */
#define WATCHDOG_SLEEP_S   5
#define WATCHDOG_LINGER_S  600 /* a daemon that was started by itself, with nothing to do */
#define WATCHDOG_KEEP_DAYS 30
#define WATCHDOG_EVENTS    100000

struct watchdog_flags {
    int64_t sleep_s;     /* 0: WATCHDOG_SLEEP_S */
    bool ends_when_idle; /* after WATCHDOG_LINGER_S with nothing to watch */
};

/* Runs until `cancel` is fired. ERR_EXISTS: another one runs, with its pid. */
int watchdog_run(const struct config_flags *flags, const struct watchdog_flags *how,
                 struct cancel *cancel, struct err *e) MUST_CHECK;

struct watchdog_state {
    bool running; /* somebody holds the lock */
    int64_t pid;  /* 0: not known */
    int64_t heartbeat_s;
    bool stale;           /* no heartbeat, or too old */
    struct str heartbeat; /* JSON, as it was written; in the arena */
};
int watchdog_look(const struct services *s, struct arena *a, struct watchdog_state *out,
                  struct err *e) MUST_CHECK;

/* Starts one as a process of its own where none runs: it has none of our descriptors and
 * nothing of our environment that names hosts. *started: it was needed. */
int watchdog_ensure(const struct services *s, const struct ctx *ctx, bool *started, struct err *e)
    MUST_CHECK;
/* The process itself, from the command line's `watchdog start`: returns once it holds the lock. */
int watchdog_spawn(const struct services *s, const struct ctx *ctx, bool *started, struct err *e)
    MUST_CHECK;

#endif
