/*
 * A command over the agent's protocol: follow it, leave it, kill it.
 *
 * One thread drives both directions of one connection in run_until(): frames that
 * came are handled, input is added while there is room, and then it sleeps in
 * ctx_wait(). A run ends in one of five ways:
 *   - ENDED came: the result.
 *   - The window is over: DETACH, and what was on its way is still taken in, because
 *     an ENDED that crossed our DETACH would otherwise be lost with the connection.
 *   - The caller stops it (cancel, deadline, failing sink or source): the command is
 *     killed and its end awaited, without the caller's ctx and not for long.
 *   - The connection ends or breaks: the error says whether the command ever ran.
 *   - Its time is over and the box neither says so nor that it is there at all.
 * The agent may stop reading a connection while the command does not read its input,
 * so after input a KILL goes over a second connection.
 */
#include "provider/agent_run.h"

#include "base/clock.h"

#define STOP_GRACE_MS 500  /* between TERM and KILL when the caller stops a command */
#define STOP_WAIT_MS  3000 /* for its end, then */
#define KILL_RETRY_MS 20
#define INPUT_STEP_MS 200
#define LEAVE_WAIT_MS 1000 /* for the agent to close after DETACH */
#define ASKS          2    /* times that a box is asked whether it is there, a second each */
#define ASK_AGAIN_MS  2000

void run_fini(struct run *r)
{
    talk_close(&r->talk);
}

/* ---- what the agent says ------------------------------------------------------ */

/* The fields that ENDED and TASK share. */
bool run_get_result(struct wire_in *r, struct exec_result *out)
{
    uint8_t how = wire_get_u8(r);
    uint32_t code = wire_get_u32(r);
    uint8_t timed_out = wire_get_u8(r);
    uint8_t oom = wire_get_u8(r);
    uint8_t limits = wire_get_u8(r);
    out->end = how == END_SIGNALED ? EXEC_SIGNALED : EXEC_EXITED;
    out->code = (int)(code & 0xff);
    out->timed_out = timed_out != 0;
    out->oom = oom == OOM_YES ? KNOWN_YES : oom == OOM_NO ? KNOWN_NO : KNOWN_NOT;
    out->limits_hit = (limits & LIMITED_MEMORY ? LIMIT_MEMORY : 0u) |
                      (limits & LIMITED_PIDS ? LIMIT_PIDS : 0u) |
                      (limits & LIMITED_DISK ? LIMIT_DISK : 0u);
    out->wall_ms = run_millis(wire_get_u64(r));
    out->out_bytes = wire_get_u64(r);
    out->err_bytes = wire_get_u64(r);
    return !r->bad && how <= END_SIGNALED && code <= 255 && oom <= OOM_UNKNOWN &&
           limits <= LIMITED_ALL;
}

static int on_data(struct run *r, struct frame f, struct err *e)
{
    struct wire_in in = wire_read(f.fields);
    uint8_t stream = wire_get_u8(&in);
    uint64_t offset = wire_get_u64(&in);
    struct str bytes = wire_get_str(&in);
    if (!wire_done(&in) || stream > 1 || bytes.len > DATA_MAX || offset < r->next[stream] ||
        offset > UINT64_MAX - bytes.len) {
        return talk_bad(e, "output");
    }
    uint64_t lost = offset - r->next[stream];
    r->next[stream] = offset + bytes.len;
    if (r->sink == NULL) {
        return 0;
    }
    enum stream from = stream == 0 ? STREAM_OUT : STREAM_ERR;
    if (lost > 0 && r->sink->lost != NULL) {
        r->sink->lost(r->sink->arg, from, lost);
    }
    if (bytes.len > 0 && r->sink->write(r->sink->arg, from, bytes, e) < 0) {
        r->sink = NULL;
        r->stopped = true;
        return -1;
    }
    return 0;
}

static void tell_lost_end(struct run *r)
{
    uint64_t total[2] = {r->result.out_bytes, r->result.err_bytes};
    for (int i = 0; i < 2; i++) {
        if (total[i] > r->next[i] && r->sink != NULL && r->sink->lost != NULL) {
            r->sink->lost(r->sink->arg, i == 0 ? STREAM_OUT : STREAM_ERR, total[i] - r->next[i]);
        }
    }
}

static int on_ended(struct run *r, struct frame f, struct err *e)
{
    struct wire_in in = wire_read(f.fields);
    if (!run_get_result(&in, &r->result) || !wire_done(&in)) {
        return talk_bad(e, "the end of a command");
    }
    tell_lost_end(r);
    r->ended = true;
    return 0;
}

static int on_frame(struct run *r, struct frame f, struct err *e)
{
    if (f.type == FRAME_STARTED && !r->started) {
        r->started = true;
        return 0;
    }
    if (f.type == FRAME_DATA && r->started) {
        return on_data(r, f, e);
    }
    if (f.type == FRAME_ENDED && r->started) {
        return on_ended(r, f, e);
    }
    return talk_bad(e, "an answer");
}

/* All frames that are there. 1: the command has ended; 0: more is to come. */
static int take_frames(struct run *r, struct err *e)
{
    while (!r->ended) {
        struct frame f;
        int got = talk_next(&r->talk, &f, e);
        if (got <= 0) {
            return got;
        }
        if (on_frame(r, f, e) < 0) {
            return -1;
        }
    }
    return 1;
}

/* The connection ended. Whoever opens connections may know why the box did. A request that
 * was sent may have been carried out, though nobody said so: only when nothing was sent is
 * it ERR_GONE, after which a caller may try in another box. */
static int lost(const struct run *r, const struct ctx *ctx, struct err *e)
{
    struct err why = {0};
    bool lives = talk_lives(r->box, ctx, &why);
    bool known = !lives && why.kind == ERR_GONE;
    const char *when = r->started      ? "while the command ran"
                       : r->talk.spoke ? "while the command was being started, which may have run"
                                       : "before the command started";
    return err_set(e, r->started || r->talk.spoke ? ERR_UNREACHABLE : ERR_GONE,
                   "the %s ended %s%s%s", lives ? "connection to the sandbox" : "sandbox", when,
                   known ? ": " : "", known ? why.msg : "");
}

/* ---- what we say -------------------------------------------------------------- */

static int add_input(struct run *r, struct err *e)
{
    char chunk[16 << 10];
    ssize_t n = r->input->read(r->input->arg, chunk, sizeof chunk, e);
    if (n < 0) {
        r->stopped = true;
        return -1;
    }
    struct wire_out w = wire_begin(&r->talk.out, FRAME_INPUT);
    wire_str(&w, (struct str){chunk, (size_t)n});
    if (!wire_end(&w)) {
        return err_set(e, ERR_BUG, "input did not fit its buffer");
    }
    if (n == 0) {
        r->input = NULL;
    }
    return 0;
}

/* Adds input while the connection takes it. A source with a descriptor is read only
 * when that is known to be readable. */
static int feed(struct run *r, bool readable, struct err *e)
{
    while (r->input != NULL && r->talk.out.len < DATA_MAX && (readable || r->input->fd < 0)) {
        if (add_input(r, e) < 0) {
            return -1;
        }
        readable = false;
    }
    return 0;
}

static bool add_kill(struct talk *t, struct str id, uint32_t grace_ms)
{
    struct wire_out w = wire_begin(&t->out, FRAME_KILL);
    wire_str(&w, id);
    wire_u32(&w, grace_ms);
    return wire_end(&w);
}

/* The box keeps the time-out; one that is stopped does not. Should it go on, the first thing
 * that it reads is to end the command. */
static int give_up(struct run *r, struct err *e)
{
    struct err ignored = {0};
    r->silent = true;
    if (add_kill(&r->talk, r->id, STOP_GRACE_MS)) {
        (void)!talk_flush(&r->talk, &ignored);
    }
    return err_set(e, ERR_UNREACHABLE,
                   "the command's time is over and the sandbox has not said how it ended: it is "
                   "stopped, or it has too much to do");
}

/* The time is over. 1: the box is there, or has spoken in the meantime. */
static int ask_overdue(struct run *r, const struct ctx *ctx, struct err *e)
{
    struct err why = {0};
    bool lives = false;
    for (int i = 0; i < ASKS && !lives && why.kind != ERR_GONE && why.kind != ERR_CANCELLED; i++) {
        why = (struct err){0};
        lives = talk_lives(r->box, ctx, &why);
    }
    int64_t now = clock_mono_ms();
    int ready = talk_wait(&r->talk, ctx, NULL, now, e);
    if (ready < 0) {
        r->stopped = e->kind == ERR_CANCELLED || e->kind == ERR_TIMEOUT;
        return -1;
    }
    bool is_over = r->overdue_ms > 0 && now >= r->overdue_ms;
    if (ready == 0 && (!lives || is_over)) {
        return give_up(r, e);
    }
    r->ask_ms = now + ASK_AGAIN_MS;
    return 1;
}

/* Sleeps until there is something to do: 1, and *readable when the input has more; 0 when
 * until_ms is reached; -1 when it is over, and r->stopped tells whether the caller wished so. */
static int wait_for_more(struct run *r, const struct ctx *ctx, int64_t until_ms, bool *readable,
                         struct err *e)
{
    struct pollfd source = {.fd = -1, .events = POLLIN};
    bool wait_source = r->input != NULL && !talk_unsent(&r->talk);
    if (wait_source && r->input->fd < 0) {
        source.fd = r->talk.fd;
        source.events = POLLOUT;
    } else if (wait_source) {
        source.fd = r->input->fd;
    }
    bool may_ask = r->ask_ms > 0 && (until_ms == 0 || r->ask_ms < until_ms);
    int ready =
        talk_wait(&r->talk, ctx, wait_source ? &source : NULL, may_ask ? r->ask_ms : until_ms, e);
    if (ready == 0 && may_ask) {
        return ask_overdue(r, ctx, e);
    }
    if (ready < 0) {
        r->stopped = e->kind == ERR_CANCELLED || e->kind == ERR_TIMEOUT;
        return -1;
    }
    *readable = wait_source && source.revents != 0;
    return ready > 0 ? 1 : 0;
}

/* 1: ended; 0: until_ms is reached; -1: failed, and r->stopped tells whose wish it was. */
static int run_until(struct run *r, const struct ctx *ctx, int64_t until_ms, struct err *e)
{
    bool readable = false;
    for (;;) {
        int got = take_frames(r, e);
        if (got != 0) {
            return got;
        }
        if (r->leave != NULL && *r->leave) {
            return 0;
        }
        if (r->talk.closed) {
            return lost(r, ctx, e);
        }
        if (feed(r, readable, e) < 0 || talk_flush(&r->talk, e) < 0) {
            return -1;
        }
        got = wait_for_more(r, ctx, until_ms, &readable, e);
        if (got <= 0) {
            return got;
        }
    }
}

int run_kill(struct box *b, const struct ctx *ctx, struct str id, uint32_t grace_ms, struct err *e)
{
    struct talk t own_talk = TALK_NONE;
    if (talk_open(&t, b, ctx, e) < 0) {
        return -1;
    }
    if (!add_kill(&t, id, grace_ms)) {
        return err_set(e, ERR_BUG, "a kill request did not fit its buffer");
    }
    struct frame f;
    return talk_expect(&t, ctx, FRAME_OK, &f, e);
}

/* When many commands are stopped at once there may be too many connections for a moment. */
static void kill_beside(const struct run *r, const struct ctx *quiet)
{
    struct err e = {0};
    while (run_kill(r->box, quiet, r->id, STOP_GRACE_MS, &e) < 0 && e.kind == ERR_LIMIT) {
        if (ctx_wait(quiet, NULL, 0, clock_mono_ms() + KILL_RETRY_MS, &e) < 0) {
            return;
        }
    }
}

/* The caller wants no more of it. Errors here change nothing: the caller's own reason
 * is what is answered. */
static void stop(struct run *r, const struct ctx *ctx)
{
    struct ctx quiet = {.arena = ctx->arena, .deadline_ms = clock_mono_ms() + STOP_WAIT_MS};
    struct err ignored = {0};
    r->input = NULL;
    r->leave = NULL;
    r->ask_ms = 0;
    if (r->had_input) {
        kill_beside(r, &quiet);
    } else {
        (void)!add_kill(&r->talk, r->id, STOP_GRACE_MS);
    }
    /* A sink that fails now is only not called any more. */
    int rc;
    do {
        r->stopped = false;
        rc = run_until(r, &quiet, 0, &ignored);
    } while (rc < 0 && r->stopped && ignored.kind != ERR_TIMEOUT);
}

static void leave(struct run *r, const struct ctx *ctx)
{
    struct ctx quiet = {.arena = ctx->arena, .deadline_ms = clock_mono_ms() + LEAVE_WAIT_MS};
    struct err ignored = {0};
    /* Input that is on its way would end with the connection: with that it is the agent who
     * closes, when it has taken all, unless nobody cares for the rest. */
    bool all_is_wanted = r->had_input && (r->leave == NULL || !*r->leave);
    r->input = NULL;
    r->leave = NULL;
    r->ask_ms = 0;
    if (r->had_input && talk_unsent(&r->talk)) {
        return;
    }
    struct wire_out w = wire_begin(&r->talk.out, FRAME_DETACH);
    if (wire_end(&w)) {
        (void)!run_until(r, all_is_wanted ? ctx : &quiet, 0, &ignored);
    }
}

/* Sends the request that is in r->talk.out and follows the command. */
int run_follow(struct run *r, const struct ctx *ctx, int64_t window_ms, struct exec_result *out,
               struct err *e)
{
    int64_t began_ms = clock_mono_ms();
    int64_t until_ms = window_ms > 0 ? began_ms + window_ms : 0;
    int rc = run_until(r, ctx, until_ms, e);
    /* What is left of the input would be lost with the connection. */
    while (rc == 0 && until_ms > 0 && (r->input != NULL || talk_unsent(&r->talk)) &&
           (r->leave == NULL || !*r->leave)) {
        rc = run_until(r, ctx, clock_mono_ms() + INPUT_STEP_MS, e);
    }
    if (rc < 0) {
        if (r->stopped) {
            struct err why = *e;
            stop(r, ctx);
            *e = why;
        }
        out->timed_out = r->silent;
        return -1;
    }
    if (rc == 0) {
        leave(r, ctx);
    }
    if (!r->ended) {
        r->result = (struct exec_result){.end = EXEC_RUNNING,
                                         .oom = KNOWN_NOT,
                                         .wall_ms = clock_mono_ms() - began_ms,
                                         .out_bytes = r->next[0],
                                         .err_bytes = r->next[1]};
    }
    *out = r->result;
    return 0;
}
