/*
 * stdio.h - one client on stdin and stdout: a message a line.
 *
 * stdio_run() moves the wire to private descriptors (0 becomes /dev/null, 1 becomes
 * stderr), reads until EOF, a signal, a closed stdout or a parent that went away,
 * cancels what runs and returns within a second. Writing never blocks the reader:
 * what the client does not take is queued, progress is dropped first.
 */
#ifndef SERVE_STDIO_H
#define SERVE_STDIO_H

#include "base/err.h"
#include "core/services.h"

int stdio_run(const struct services *services, unsigned toolsets, struct err *e) MUST_CHECK;

#endif
