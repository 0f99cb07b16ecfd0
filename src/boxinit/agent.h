/*
 * agent.h - "boxinit serve" and "boxinit relay": the agent where others have made the box.
 *
 * On an SSH host, or as PID 1 of a container, nothing has to be made: serve runs the loop of
 * server.h with a spec that confines nothing. Commands are the user's own, with the
 * environment that serve was started with, from the user's home folder; files are read and
 * written with the user's rights. There is one per user, machine and folder (place.h). It is
 * a daemon that outlives whoever started it, so that commands do, and the reaper of its
 * descendants, so that a time-out ends them as it does in a box. As PID 1, of a container, it
 * stays where it is, keeps the lifetime and tells by its exit code why it ended (proto.h), and takes
 * only clients that the engine put into the container: a process of the container itself must not
 * give it more time. It leaves when nothing ran and nobody was connected for a while, on SIGTERM and when
 * asked to; then what still runs is killed.
 *
 * A relay is one client's way to it: it stands between the stream that it was started on and
 * serve, as the far side of agent/mux.h. It starts serve where nobody serves, also later when
 * that one was killed. With its client it ends, and nothing else does.
 */
#ifndef BOXINIT_AGENT_H
#define BOXINIT_AGENT_H

#include <stdint.h>

#include "base/str.h"

struct agent_args {
    const char *dir;   /* absolute */
    const char *idle;  /* seconds, as text */
    int64_t idle_s;    /* the same as a number */
    struct str marker; /* of a relay: what it says first, or empty */
    /* Of a container; NULL and 0: not said. */
    const char *home, *work;
    int64_t lifetime_s, memory, pids; /* the last two are in force already, and told */
};

/* Both return the exit code; the reason of a failure is on stderr. */
int agent_serve(const struct agent_args *args);
int agent_relay(const struct agent_args *args);

#endif
