/* Ports and sockets of a box over the agent's protocol: a conversation that becomes the
 * connection. */
#include "base/own.h"
#include "provider/over_agent.h"
#include "provider/talk.h"

/* An agent that knows no ports could not say so in words that help. */
static int too_old(struct err *e)
{
    if (e->kind == ERR_CANCELLED || e->kind == ERR_TIMEOUT) {
        return -1;
    }
    return err_set(e, ERR_UNSUPPORTED,
                   "the sandbox was made by an older anybox, whose agent has no way to that; "
                   "make a new sandbox");
}

/* With the request in t->out. `since` is the version that it came with. */
static int become(struct talk *t, const struct ctx *ctx, uint32_t since, struct err *e)
{
    struct frame answer;

    /* What follows the answer is not for us. */
    t->exact = true;
    if (talk_expect(t, ctx, FRAME_OK, &answer, e) < 0) {
        return t->greeted && t->version < since ? too_old(e) : -1;
    }
    return take_fd(&t->fd);
}

static int agent_dial(struct box *b, const struct ctx *ctx, uint16_t port, struct err *e)
{
    struct talk t own_talk = TALK_NONE;

    if (talk_open(&t, b, ctx, e) < 0) {
        return -1;
    }
    struct wire_out w = wire_begin(&t.out, FRAME_TCP);
    wire_u32(&w, port);
    if (!wire_end(&w)) {
        return err_set(e, ERR_BUG, "a request for a port did not fit its buffer");
    }
    return become(&t, ctx, AGENT_PORTS, e);
}

static int agent_dial_unix(struct box *b, const struct ctx *ctx, struct str path, struct err *e)
{
    struct talk t own_talk = TALK_NONE;

    if (talk_check_text(path, PATH_MAX_BYTES - 1, false, "the path", e) < 0 ||
        talk_open(&t, b, ctx, e) < 0) {
        return -1;
    }
    struct wire_out w = wire_begin(&t.out, FRAME_UNIX);
    wire_str(&w, path);
    if (!wire_end(&w)) {
        return err_set(e, ERR_BUG, "a request for a socket did not fit its buffer");
    }
    return become(&t, ctx, AGENT_UNIX, e);
}

const struct port_ops ports_over_agent = {.dial = agent_dial, .dial_unix = agent_dial_unix};
