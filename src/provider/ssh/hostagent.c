#include "provider/ssh/hostagent.h"

#include <limits.h>

#include "base/clock.h"
#include "base/thread.h"

#define SOON_MS     1000 /* after the first failure; then twice as long each time */
#define AGAIN_MS    60000
#define NEVER_MS    600000 /* what cannot work may have been mended */
#define SHORT_MS    60000  /* an agent that ends so soon is not started again at once */
#define PUSH_MS     180000 /* for all of it */
#define PUSH_MEMORY (16u << 20)

/* ---- the thread --------------------------------------------------------------------- */

/* A host that was short of something for a moment is not left without its agent for a minute. */
static int64_t pause_ms(unsigned failures)
{
    int64_t ms = SOON_MS;

    for (unsigned i = 1; i < failures && ms < AGAIN_MS; i++) {
        ms *= 2;
    }
    return ms < AGAIN_MS ? ms : AGAIN_MS;
}

static void settle(struct machine *m, struct chan *relay, uint32_t version, const struct err *why)
{
    LOCKED(&m->lock);
    struct hostagent *a = &m->agent;
    int64_t now = clock_mono_ms();

    if (relay != NULL) {
        a->state = HOSTAGENT_UP;
        a->relay = relay;
        a->since_ms = now;
        a->version = version;
        a->failures = 0;
        machine_move_queued(m);
        return;
    }
    a->state = HOSTAGENT_OFF;
    a->why = *why;
    if (a->failures < UINT_MAX) {
        a->failures++;
    }
    a->again_ms = now + (why->kind == ERR_UNSUPPORTED ? NEVER_MS : pause_ms(a->failures));
}

static void *push(void *arg)
{
    struct machine *m = arg;
    struct arena arena own_arena = {0};
    struct ctx ctx = {
        .arena = &arena, .cancel = &m->agent.stop, .deadline_ms = clock_mono_ms() + PUSH_MS};
    struct err why = {0};

    arena_init(&arena, PUSH_MEMORY);
    uint32_t version = 0;
    struct chan *relay = hostagent_start(m, &ctx, &version, &why);
    settle(m, relay, version, &why);
    return NULL;
}

/* ---- its state; the lock is held ---------------------------------------------------- */

/* The relay's channel may have ended since. When its connection did, that is no fault of the
 * agent's, and the next connection gets one at once. */
static void notice_end(struct hostagent *a)
{
    struct chan_news news = {0};
    int64_t now = clock_mono_ms();

    if (a->state != HOSTAGENT_UP) {
        return;
    }
    chan_take(a->relay, NULL, &news);
    if (news.state != CHAN_ENDED) {
        return;
    }
    bool is_lost = news.why.kind != ERR_NONE;
    bool is_again = a->has_failed && now - a->since_ms < SHORT_MS;
    a->state = HOSTAGENT_OFF;
    a->has_failed = !is_lost;
    a->again_ms = !is_lost && is_again ? now + AGAIN_MS : now;
    a->why = news.why;
    if (!is_lost) {
        (void)err_set(&a->why, ERR_UNREACHABLE, "the agent on the host was ended");
    }
    chan_unref(a->relay); /* not chan_close(): that would lock */
    a->relay = NULL;
}

static void start_due(struct machine *m)
{
    struct hostagent *a = &m->agent;
    struct err e = {0};

    if (a->state != HOSTAGENT_OFF || m->conf.agent_never || m->is_closing ||
        (!machine_is_connected(m) && !m->is_lane) || clock_mono_ms() < a->again_ms) {
        return;
    }
    if (a->has_thread) {
        (void)pthread_join(a->thread, NULL); /* it has settled: these are its last steps */
        a->has_thread = false;
        cancel_fini(&a->stop);
    }
    a->again_ms = clock_mono_ms() + AGAIN_MS;
    if (cancel_init(&a->stop, &e) < 0) {
        a->why = e;
        return;
    }
    a->state = HOSTAGENT_TRYING;
    if (thread_start(&a->thread, "ssh-agent", push, m, &e) < 0) {
        cancel_fini(&a->stop);
        a->state = HOSTAGENT_OFF;
        a->why = e;
        return;
    }
    a->has_thread = true;
}

/* ---- for calls ---------------------------------------------------------------------- */

struct chan *hostagent_take(struct machine *m)
{
    LOCKED(&m->lock);

    notice_end(&m->agent);
    start_due(m);
    return m->agent.state == HOSTAGENT_UP ? chan_ref(m->agent.relay) : NULL;
}

void hostagent_poke(struct machine *m)
{
    LOCKED(&m->lock);

    notice_end(&m->agent);
    if (!m->is_once) {
        start_due(m);
    }
}

enum hostagent_state hostagent_state(struct machine *m, struct err *why)
{
    LOCKED(&m->lock);

    notice_end(&m->agent);
    *why = m->agent.why;
    if (m->conf.agent_never) {
        (void)err_set(why, ERR_UNSUPPORTED, "it is switched off: agent = \"never\"");
    }
    return m->agent.state;
}

void hostagent_stop(struct machine *m)
{
    LOCKED(&m->lock);

    m->is_closing = true;
    if (m->agent.has_thread) {
        cancel_fire(&m->agent.stop);
    }
}

void hostagent_join(struct machine *m)
{
    struct hostagent *a = &m->agent;

    if (a->has_thread) {
        (void)pthread_join(a->thread, NULL);
        cancel_fini(&a->stop);
        a->has_thread = false;
    }
    chan_close(a->relay);
    a->relay = NULL;
    a->state = HOSTAGENT_OFF;
}
