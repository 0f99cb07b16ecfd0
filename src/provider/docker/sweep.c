/* sweep.c - what dead boxes of this state folder left at the engine. */
#include "base/clock.h"
#include "provider/docker/docker.h"

#define SWEEP_MS 5000
#define MADE_OLD_S                                                                                 \
    900 /* a container that nobody has started for so long belongs to a dead process */

struct sweeping {
    struct docker *d;
    const struct ctx *ctx;
    int64_t now;
};

static int sweep_one(void *arg, const struct value *row, struct err *e)
{
    struct sweeping *s = arg;
    struct str state = value_text(row, "State");
    struct str cid = value_text(row, "Id");
    bool has_ended = str_eq(state, S("exited")) || str_eq(state, S("dead"));
    bool is_left = str_eq(state, S("created")) && s->now - value_int(row, "Created") > MADE_OLD_S;
    struct err ignored;

    if ((has_ended || is_left) && cid.len == DOCKER_CID_SIZE - 1) {
        (void)!container_remove(s->d, s->ctx, cid, &ignored);
    }
    return ctx_check(s->ctx, e);
}

int docker_sweep(struct provider *p, const struct ctx *ctx, struct err *e)
{
    struct docker *d = docker_of(p);
    struct ctx shorter = *ctx;
    int64_t until_ms = clock_mono_ms() + SWEEP_MS;
    struct sweeping s = {d, &shorter, clock_wall_ms() / 1000};

    if (ctx->deadline_ms == 0 || ctx->deadline_ms > until_ms) {
        shorter.deadline_ms = until_ms;
    }
    return container_each(d, &shorter, sweep_one, &s, e);
}
