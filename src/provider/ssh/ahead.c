#include "provider/ssh/ahead.h"

#include <poll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "base/thread.h"
#include "provider/ssh/lanes.h"
#include "provider/ssh/relay.h"

#define AHEAD_MS 20000 /* an agent hangs up on who has asked nothing for a minute */

/* The agent has greeted, and says nothing more: where there is an end, the connection was lost. */
static bool is_open(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLRDHUP};

    return poll(&p, 1, 0) == 0;
}

/* The lock is held. */
static int take_it(struct machine *m)
{
    int fd own_fd = m->ahead_fd;

    m->ahead_fd = -1;
    if (fd < 0 || clock_mono_ms() - m->ahead_ms > AHEAD_MS || !is_open(fd)) {
        return -1;
    }
    return take_fd(&fd);
}

void ahead_begin(struct machine *m, struct chan *relay)
{
    struct err ignored = {0};
    LOCKED(&m->lock);

    if (m->is_closing || m->rtt_us < LANE_RTT_US) {
        return;
    }
    int fd = take_it(m);
    if (fd < 0) {
        fd = relay_connect(relay, &ignored);
        m->ahead_ms = clock_mono_ms();
    }
    m->ahead_fd = fd;
}

int ahead_take(struct machine *m)
{
    LOCKED(&m->lock);

    return take_it(m);
}

void ahead_drop(struct machine *m)
{
    int fd own_fd = ahead_take(m);

    (void)fd;
}
