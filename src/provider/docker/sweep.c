/*
 * sweep.c - what dead boxes of this state folder left at the engine.
 *
 * A paused container keeps no time. One whose lifetime is over as far as its labels say is let go on: its first
 * process, which knows of every extension, ends it or not. Without our agent (plain.c) it is a script that
 * code in the box could have stopped, and there are no extensions: there the labels are what holds.
 */
#include "base/clock.h"
#include "provider/docker/docker.h"

#define SWEEP_MS     5000
#define PLAIN_LATE_S 90 /* its first process looks every 30 s, and tells why it ended */
#define MADE_OLD_S                                                                                 \
    900 /* a container that nobody has started for so long belongs to a dead process */

struct sweeping {
    struct docker *d;
    const struct ctx *ctx;
    int64_t now;
};

/* By so many seconds at least. */
static bool is_overdue(const struct sweeping *s, const struct value *row, int64_t by_s)
{
    const struct value *labels = value_at(row, "Labels");
    int64_t created = 0, lifetime = 0;
    struct err ignored;

    return str_to_i64(value_member(labels, S(LABEL_CREATED)), 0, INT64_MAX / 2, &created,
                      &ignored) == 0 &&
           str_to_i64(value_member(labels, S(LABEL_LIFETIME)), 1, INT32_MAX, &lifetime, &ignored) ==
               0 &&
           s->now > created + lifetime + by_s;
}

static bool is_plain(const struct value *row)
{
    return str_eq(value_member(value_at(row, "Labels"), S(LABEL_VIA)), S(VIA_EXEC));
}

static void let_go_on(const struct sweeping *s, struct str cid)
{
    const struct http_req req = {
        .method = "POST",
        .path = arena_printf(s->ctx->arena, "/containers/%.*s/unpause", STR_ARG(cid)),
    };
    struct http_answer answer;
    struct err ignored;

    (void)!engine_call(s->d, s->ctx, &req, &answer, &ignored);
}

static int sweep_one(void *arg, const struct value *row, struct err *e)
{
    struct sweeping *s = arg;
    struct str state = value_text(row, "State");
    struct str cid = value_text(row, "Id");
    bool has_ended =
        str_eq(state, S("exited")) || str_eq(state, S("dead")) || str_eq(state, S("stopped"));
    bool is_left = str_eq(state, S("created")) && s->now - value_int(row, "Created") > MADE_OLD_S;
    bool is_late = is_plain(row) && is_overdue(s, row, PLAIN_LATE_S);
    bool is_paused = str_eq(state, S("paused"));
    struct err ignored;

    if ((has_ended || is_left || is_late) && cid.len == DOCKER_CID_SIZE - 1) {
        (void)!container_remove(s->d, s->ctx, cid, &ignored);
    }
    if (cid.len == DOCKER_CID_SIZE - 1 && is_paused && !is_late && is_overdue(s, row, 0)) {
        let_go_on(s, cid);
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
