/*
 * lasting.h - forwards that outlive the server: a URL that still opens when it was killed.
 *
 * Theory of operation. Each is a process of its own (`anybox forward-worker`), one for an owner's box
 * and port. It holds a lock on <state>/forwards/<name>, in which its local port stands, so who
 * comes later finds it instead of starting another; a file that nobody holds is a dead one's. It ends
 * when the box does, and when nothing has listened at the port for LASTING_QUIET_MS.
 */
#ifndef CORE_LASTING_H
#define CORE_LASTING_H

#include <stdint.h>

#include "base/ctx.h"
#include "base/err.h"
#include "base/str.h"
#include "core/boxes.h"
#include "core/services.h"

#define LASTING_QUIET_MS (10ll * 60 * 1000)

struct lasting {
    struct str owner, box_id;
    uint16_t port; /* in the box */
};

/* The local port; starts the process where there is none. */
int lasting_open(const struct services *s, const struct ctx *ctx, const struct lasting *what,
                 uint16_t *local, struct err *e) MUST_CHECK;

/* The process itself: writes "<local port>\n" to say_fd and closes it, then works until it is over
 * or cancelled. ERR_EXISTS: another one has it. */
int lasting_work(const struct services *s, struct cancel *cancel, const struct lasting *what,
                 int say_fd, struct err *e) MUST_CHECK;

#endif
