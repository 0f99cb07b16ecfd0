#include "mcp/peer.h"

#include <time.h>

#include "base/thread.h"
#include "mcp/calls.h"
#include "mcp/exchange.h"
#include "mcp/listen.h"

void peer_init(struct peer *p, const struct peer_ops *ops, struct mcp *mcp, struct scope *scope)
{
    pthread_condattr_t attr;

    *p = (struct peer){
        .ops = ops, .mcp = mcp, .scope = scope, .legacy = REV_NONE, .level = LEVEL_INFO};
    (void)pthread_mutex_init(&p->lock, NULL);
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&p->idle, &attr);
    (void)pthread_condattr_destroy(&attr);
    list_init(&p->calls);
}

void peer_cancel(struct peer *p)
{
    calls_cancel_all(p);
    listen_close(p);
}

bool peer_wait(struct peer *p, int64_t wait_ms)
{
    struct timespec until;
    int rc = 0;

    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)(wait_ms / 1000);
    until.tv_nsec += (long)(wait_ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    LOCKED(&p->lock);
    while (!list_empty(&p->calls) && rc == 0) {
        rc = pthread_cond_timedwait(&p->idle, &p->lock, &until);
    }
    return list_empty(&p->calls);
}

bool peer_close(struct peer *p, int64_t grace_ms)
{
    peer_cancel(p);
    return peer_wait(p, grace_ms);
}

void peer_fini(struct peer *p)
{
    listen_forget(p);
    json_decref(p->roots);
    (void)pthread_cond_destroy(&p->idle);
    (void)pthread_mutex_destroy(&p->lock);
}

enum revision peer_revision(struct peer *p)
{
    LOCKED(&p->lock);
    return p->legacy != REV_NONE ? (enum revision)p->legacy : REV_ASSUMED;
}

unsigned peer_can(struct peer *p)
{
    LOCKED(&p->lock);
    return p->can;
}

void peer_set_legacy(struct peer *p, int revision, unsigned can)
{
    LOCKED(&p->lock);
    p->legacy = revision;
    p->can = can;
}

enum call_level peer_level(struct peer *p)
{
    LOCKED(&p->lock);
    return (enum call_level)p->level;
}

void peer_set_level(struct peer *p, enum call_level level)
{
    LOCKED(&p->lock);
    p->level = (int)level;
}
