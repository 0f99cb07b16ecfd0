/* Ports of a box over the agent's protocol: a conversation that becomes the connection. */
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
                   "the sandbox was made by an older anybox, whose agent has no way to its ports; "
                   "make a new sandbox");
}

static int agent_dial(struct box *b, const struct ctx *ctx, uint16_t port, struct err *e)
{
    struct talk t own_talk = TALK_NONE;
    struct frame answer;

    if (talk_open(&t, b, ctx, e) < 0) {
        return -1;
    }
    /* What follows the answer is not for us. */
    t.exact = true;
    struct wire_out w = wire_begin(&t.out, FRAME_TCP);
    wire_u32(&w, port);
    if (!wire_end(&w)) {
        return err_set(e, ERR_BUG, "a request for a port did not fit its buffer");
    }
    if (talk_expect(&t, ctx, FRAME_OK, &answer, e) < 0) {
        return t.greeted && t.version < AGENT_PORTS ? too_old(e) : -1;
    }
    return take_fd(&t.fd);
}

const struct port_ops ports_over_agent = {.dial = agent_dial};
