#include "provider/over_agent.h"

#include "provider/talk.h"

/* One request without a body, one answer of the given type. */
static int ask(struct talk *t, struct box *b, const struct ctx *ctx, uint8_t type,
               struct frame *out, struct err *e)
{
    if (talk_open(t, b, ctx, e) < 0) {
        return -1;
    }
    struct wire_out w = wire_begin(&t->out, type);
    if (!wire_end(&w)) {
        return err_set(e, ERR_BUG, "an empty request did not fit its buffer");
    }
    uint8_t answer = type == FRAME_USAGE ? FRAME_USAGE_IS : FRAME_OK;
    return talk_expect(t, ctx, answer, out, e);
}

static int64_t amount(uint64_t v)
{
    return v > INT64_MAX ? INT64_MAX : (int64_t)v;
}

static int count(uint32_t v)
{
    return v > INT32_MAX ? INT32_MAX : (int)v;
}

int agent_usage(struct box *b, const struct ctx *ctx, struct agent_usage *out, struct err *e)
{
    struct talk t own_talk = TALK_NONE;
    struct frame f = {0};
    if (ask(&t, b, ctx, FRAME_USAGE, &f, e) < 0) {
        return -1;
    }
    struct wire_in r = wire_read(f.fields);
    struct agent_usage u = {0};
    u.memory_used = amount(wire_get_u64(&r));
    u.memory_limit = amount(wire_get_u64(&r));
    u.disk_used = amount(wire_get_u64(&r));
    u.disk_total = amount(wire_get_u64(&r));
    u.processes = count(wire_get_u32(&r));
    u.tasks = count(wire_get_u32(&r));
    u.idle_ms = amount(wire_get_u64(&r));
    u.ends_in_ms = amount(wire_get_u64(&r));
    u.version = t.version;
    if (!wire_done(&r)) {
        return talk_bad(e, "figures");
    }
    *out = u;
    return 0;
}

int agent_extend(struct box *b, const struct ctx *ctx, int32_t lifetime_s, struct err *e)
{
    struct talk t own_talk = TALK_NONE;
    if (talk_open(&t, b, ctx, e) < 0) {
        return -1;
    }
    struct wire_out w = wire_begin(&t.out, FRAME_EXTEND);
    wire_u64(&w, lifetime_s > 0 ? (uint64_t)lifetime_s * 1000 : 0);
    wire_u64(&w, 0);
    if (!wire_end(&w)) {
        return err_set(e, ERR_BUG, "a request for more time did not fit its buffer");
    }
    struct frame f;
    return talk_expect(&t, ctx, FRAME_OK, &f, e);
}

int agent_shutdown(struct box *b, const struct ctx *ctx, struct err *e)
{
    struct talk t own_talk = TALK_NONE;
    struct frame f;
    return ask(&t, b, ctx, FRAME_SHUTDOWN, &f, e);
}
