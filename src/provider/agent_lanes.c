/* agent_lanes.c - conversations over several connections: see agent_parts.h. */
#include "provider/agent_lanes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"

#define TRY_MS   20    /* between looks for a lane that is being made */
#define ALIVE_MS 60000 /* the conversation that waits is ended when it hears nothing for long */

/* ---- spans ------------------------------------------------------------------------------ */

void lane_add_span(struct lane *l, struct span s)
{
    l->spans[(l->first + l->n++) % SPANS_MAX] = s;
}

struct span *lane_first(struct lane *l)
{
    return l->n > 0 ? &l->spans[l->first] : NULL;
}

void lane_drop_first(struct lane *l)
{
    l->first = (l->first + 1) % SPANS_MAX;
    l->n--;
}

bool lanes_quiet(const struct lanes *p)
{
    for (size_t i = 0; i < LANES_MAX; i++) {
        if (p->lanes[i].n > 0) {
            return false;
        }
    }
    return true;
}

int lanes_fail_file(struct lanes *p, struct str why)
{
    why = str_head(why, ENTRIES_WHY);
    memcpy(p->why, why.p, why.len);
    p->why[why.len] = '\0';
    p->has_failed = true;
    return 0;
}

/* ---- their lives -------------------------------------------------------------------------- */

static int give_fd(struct box *b, const struct ctx *ctx, struct err *e)
{
    struct lane *l = CONTAINER_OF(b, struct lane, as.box);
    int fd = l->given;
    (void)ctx;
    l->given = -1;
    return fd >= 0 ? fd : err_set(e, ERR_UNREACHABLE, "the connection was lost");
}

struct lanes *lanes_new(const struct parts_req *req, const struct lane_ops *ops, void *arg)
{
    struct lanes *p = xcalloc(1, sizeof *p);
    p->req = req;
    p->ops = ops;
    p->arg = arg;
    p->heard_ms = p->told_ms = clock_mono_ms();
    for (size_t i = 0; i < LANES_MAX; i++) {
        struct lane *l = &p->lanes[i];
        l->talk = TALK_NONE;
        l->given = -1;
        l->as.connect = give_fd;
        l->as.box.provider = req->box->provider;
        l->as.box.ref = req->box->ref;
        atomic_init(&l->as.box.refs, 1);
    }
    return p;
}

void lanes_free(struct lanes *p)
{
    for (size_t i = 0; i < LANES_MAX; i++) {
        talk_close(&p->lanes[i].talk);
    }
    free(p->again);
    free(p);
}

/* What it was at, others do. */
static void lose(struct lanes *p, struct lane *l)
{
    if (p->n_again + l->n > p->cap_again) {
        p->cap_again = p->n_again + SPANS_MAX;
        p->again = xrealloc(p->again, p->cap_again, sizeof *p->again);
    }
    for (const struct span *s = lane_first(l); s != NULL; s = lane_first(l)) {
        if (s->at < s->end) { /* else all of it has come, and only its end was not told */
            p->again[p->n_again++] = *s;
        }
        lane_drop_first(l);
    }
    talk_close(&l->talk);
    l->state = LANE_OVER;
}

static int open_first(struct lanes *p, struct err *e)
{
    struct lane *l = &p->lanes[0];
    l->state = LANE_OPEN;
    return talk_open(&l->talk, p->req->box, p->req->ctx, e) < 0 ? -1 : p->ops->begin(p, l, e);
}

/* Those that have come. */
static int open_more(struct lanes *p, struct err *e)
{
    const struct agent_box *ab = CONTAINER_OF(p->req->box, struct agent_box, box);
    int64_t now = clock_mono_ms();
    if (now - p->tried_ms < TRY_MS) {
        return 0;
    }
    p->tried_ms = now;
    for (unsigned i = 1; i < LANES_MAX; i++) {
        struct lane *l = &p->lanes[i];
        if (l->state != LANE_LATER) {
            continue;
        }
        int fd = ab->lane(p->req->box, i - 1);
        if (fd < 0) {
            l->state = fd == AGENT_LANE_NONE ? LANE_OVER : LANE_LATER;
            continue;
        }
        l->given = fd;
        l->state = LANE_OPEN;
        if (talk_open(&l->talk, &l->as.box, p->req->ctx, e) < 0 || p->ops->begin(p, l, e) < 0) {
            return -1;
        }
    }
    return 0;
}

/* ---- a turn ----------------------------------------------------------------------------------- */

/* Reasons that another lane has, too. */
static bool is_of_the_host(const struct err *why)
{
    switch (why->sys) {
    case ENOSPC:
    case EDQUOT:
    case EROFS:
    case EIO: return true;
    default: return why->kind == ERR_CANCELLED || why->kind == ERR_TIMEOUT;
    }
}

/* The file's own misfortune, as opposed to a connection's. */
static bool is_of_the_file(const struct err *why)
{
    return why->kind == ERR_NOT_FOUND || why->kind == ERR_DENIED || why->kind == ERR_INVALID ||
           why->kind == ERR_SYSTEM;
}

/* A lane cannot go on. Only the first one's end is an end. */
static int lane_failed(struct lanes *p, struct lane *l, const struct err *why, struct err *e)
{
    if (p->is_stopped || is_of_the_host(why)) {
        *e = *why;
        return -1;
    }
    if (l != &p->lanes[0]) {
        lose(p, l);
        return 0;
    }
    if (is_of_the_file(why)) {
        return lanes_fail_file(p, str_from(why->msg));
    }
    *e = *why;
    return -1;
}

/* 1: something was sent or heard; 0; -1. */
static int lane_turn(struct lanes *p, struct lane *l, struct err *e)
{
    struct frame f;
    int moved = 0;
    if (talk_read(&l->talk, e) < 0) {
        return -1;
    }
    for (int got = talk_next(&l->talk, &f, e); got != 0; got = talk_next(&l->talk, &f, e)) {
        if (got < 0 || p->ops->hear(p, l, f, e) < 0) {
            return -1;
        }
        p->heard_ms = clock_mono_ms();
        moved = 1;
    }
    if (l->talk.closed) {
        return l == &p->lanes[0] ? talk_ended(&l->talk, p->req->ctx, e)
                                 : err_set(e, ERR_UNREACHABLE, "the connection was lost");
    }
    int fed = p->ops->feed(p, l, e);
    if (fed < 0 || talk_flush(&l->talk, e) < 0) {
        return -1;
    }
    return moved > 0 || (fed > 0 && !talk_unsent(&l->talk)) ? 1 : 0;
}

/* The conversation that waits has nothing to say but that it cannot go on. */
static int main_turn(struct lanes *p, struct err *e)
{
    struct talk *t = p->req->main;
    struct frame f;
    int64_t now = clock_mono_ms();
    if (t == NULL) {
        return 0;
    }
    if (now - p->told_ms > ALIVE_MS) {
        p->told_ms = now;
        if (entries_put_parts(p->req->alive, e) < 0 || entries_flush(p->req->alive, e) < 0 ||
            talk_flush(t, e) < 0) {
            return -1;
        }
    }
    int got = talk_read(t, e) < 0 ? -1 : talk_next(t, &f, e);
    if (got > 0) {
        return talk_bad(e, "an answer before its time, or one");
    }
    return got == 0 && t->closed ? talk_ended(t, p->req->ctx, e) : got;
}

static int wait_for_some(struct lanes *p, struct err *e)
{
    struct pollfd fds[LANES_MAX + 1];
    nfds_t n = 0;
    bool some_later = false;
    int64_t until_ms = p->heard_ms + TALK_SILENT_MS;
    for (size_t i = 0; i < LANES_MAX; i++) {
        const struct lane *l = &p->lanes[i];
        some_later = some_later || l->state == LANE_LATER;
        if (l->state == LANE_OPEN) {
            fds[n++] =
                (struct pollfd){.fd = l->talk.fd,
                                .events = (short)(POLLIN | (talk_unsent(&l->talk) ? POLLOUT : 0))};
        }
    }
    if (p->req->main != NULL) {
        fds[n++] = (struct pollfd){.fd = p->req->main->fd, .events = POLLIN};
    }
    int64_t look_ms = clock_mono_ms() + TRY_MS;
    if (some_later && look_ms < until_ms) {
        return ctx_wait(p->req->ctx, fds, n, look_ms, e) < 0 ? -1 : 0;
    }
    int ready = ctx_wait(p->req->ctx, fds, n, until_ms, e);
    return ready == 0 ? talk_silent(e, TALK_SILENT_MS) : ready < 0 ? -1 : 0;
}

int lanes_run(struct lanes *p, struct err *e)
{
    if (open_first(p, e) < 0) {
        return -1;
    }
    for (;;) {
        bool moved = false;
        if (open_more(p, e) < 0 || main_turn(p, e) < 0) {
            return -1;
        }
        for (size_t i = 0; i < LANES_MAX; i++) {
            struct lane *l = &p->lanes[i];
            struct err why = {0};
            int rc = l->state == LANE_OPEN ? lane_turn(p, l, &why) : 0;
            if (rc < 0 && lane_failed(p, l, &why, e) < 0) {
                return -1;
            }
            if (p->has_failed || p->ops->is_over(p)) {
                return 0;
            }
            moved = moved || rc != 0;
        }
        if (ctx_check(p->req->ctx, e) < 0 || (!moved && wait_for_some(p, e) < 0)) {
            return -1;
        }
    }
}
