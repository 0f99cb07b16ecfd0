#include "provider/ssh/lanes.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "agent/proto.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/thread.h"
#include "provider/over_agent.h"
#include "provider/ssh/ahead.h"
#include "provider/ssh/hostagent.h"
#include "provider/ssh/relay.h"

#define LANE_IDLE_MS     30000
#define SPLIT_BYTES      (6u << 20)  /* of a tree that several connections are worth it for */
#define SPLIT_BYTES_COLD (32u << 20) /* and to make them for: that takes ten round trips */
#define WARM_BYTES       (1u << 20)

/* ---- whether ------------------------------------------------------------------------ */

void session_measure(struct session *s)
{
    struct tcp_info info = {0};
    socklen_t len = sizeof(info);
    bool is_tcp = getsockopt(s->lib->get_fd(s->ssh), IPPROTO_TCP, TCP_INFO, &info, &len) == 0;
    LOCKED(&s->machine->lock);

    s->machine->rtt_us = is_tcp ? info.tcpi_rtt : 0;
}

bool machine_has_lanes(struct machine *m)
{
    LOCKED(&m->lock);

    return !m->is_lane && m->jump == NULL && m->conf.proxy_command.len == 0 &&
           m->rtt_us >= LANE_RTT_US && m->agent.state == HOSTAGENT_UP &&
           m->agent.version >= AGENT_PARTS;
}

/* ---- one of them -------------------------------------------------------------------- */

/* The lock of the host's machine is held. */
static struct machine *make(struct machine *m)
{
    struct machine *lane = xcalloc(1, sizeof(*lane));

    machine_init(lane, &m->conf);
    lane->is_lane = true;
    lane->is_resolved = true;
    lane->is_once = m->is_once;
    lane->program_dir = m->program_dir;
    lane->facts = m->facts;
    lane->facts.home = arena_str(&lane->arena, m->facts.home);
    lane->facts.shell = arena_str(&lane->arena, m->facts.shell);
    lane->facts.system = arena_str(&lane->arena, m->facts.system);
    return lane;
}

static struct machine *lane_of(struct machine *m, unsigned i)
{
    LOCKED(&m->lock);

    if (i >= LANES || m->is_closing) {
        return NULL;
    }
    if (m->lanes[i] == NULL) {
        m->lanes[i] = make(m);
    }
    return m->lanes[i];
}

int machine_lane(struct machine *m, unsigned i)
{
    struct machine *lane = lane_of(m, i);
    struct err why = {0};

    if (lane == NULL) {
        return AGENT_LANE_NONE;
    }
    struct chan *relay = hostagent_take(lane);
    if (relay == NULL) {
        return hostagent_state(lane, &why) == HOSTAGENT_TRYING ? AGENT_LANE_LATER : AGENT_LANE_NONE;
    }
    int fd = ahead_take(lane);
    if (fd < 0) {
        fd = relay_connect(relay, &why);
    }
    chan_unref(relay);
    return fd >= 0 ? fd : AGENT_LANE_NONE;
}

/* One that is there, and that TCP has learned to fill: before, it holds a small tree up. */
static bool is_warm(struct machine *m, unsigned i)
{
    struct machine *lane;
    bool is_it = false;

    lock(&m->lock);
    lane = m->lanes[i];
    unlock(&m->lock);
    struct chan *relay = lane != NULL ? hostagent_take(lane) : NULL;
    if (relay != NULL) {
        is_it = relay_sent(relay) >= WARM_BYTES;
        chan_unref(relay);
    }
    return is_it;
}

static bool is_any_warm(struct machine *m)
{
    for (unsigned i = 0; i < LANES; i++) {
        if (is_warm(m, i)) {
            return true;
        }
    }
    return false;
}

/* Those that are not there are made, and the others begin a conversation. */
static void begin_all(struct machine *m)
{
    for (unsigned i = 0; i < LANES; i++) {
        struct machine *lane = lane_of(m, i);
        struct chan *relay = lane != NULL ? hostagent_take(lane) : NULL;

        if (relay != NULL) {
            ahead_begin(lane, relay);
            chan_unref(relay);
        }
    }
}

bool machine_splits(struct machine *m, uint64_t bytes)
{
    if (bytes < SPLIT_BYTES || !machine_has_lanes(m)) {
        return false;
    }
    if (bytes < SPLIT_BYTES_COLD && !is_any_warm(m)) {
        return false;
    }
    begin_all(m);
    return true;
}

bool session_is_unused(struct session *s)
{
    struct list *pos;
    int64_t now = clock_mono_ms();

    if (!s->machine->is_lane) {
        return false;
    }
    list_each (pos, &s->chans) {
        const struct chan *c = list_entry(pos, struct chan, link);

        if (c->relay == NULL || relay_is_used(c)) {
            s->used_ms = now;
        }
    }
    return now - s->used_ms >= LANE_IDLE_MS;
}

/* ---- their end ---------------------------------------------------------------------- */

/* Nobody makes new ones any more: the provider is closing. */
void machine_stop_lanes(struct machine *m)
{
    for (size_t i = 0; i < LANES; i++) {
        if (m->lanes[i] != NULL) {
            hostagent_stop(m->lanes[i]);
        }
    }
}

void machine_fini_lanes(struct machine *m)
{
    for (size_t i = 0; i < LANES; i++) {
        struct machine *lane = m->lanes[i];

        if (lane == NULL) {
            continue;
        }
        hostagent_join(lane);
        machine_stop(lane);
        machine_join(lane);
        machine_fini(lane);
        free(lane);
        m->lanes[i] = NULL;
    }
}
