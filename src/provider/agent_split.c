/*
 * agent_split.c - the files of a tree over several connections at once: see agent_trees.h.
 *
 * The source is read by this thread alone, from its beginning to its end. Where a folder begins,
 * the track with the least to send takes it; until the folder ends it may get ahead of what it
 * can send, within bounds, so that the others have something to do meanwhile.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "provider/agent_parts.h"
#include "provider/agent_trees.h"

#define OUT_MOST (2u << 20) /* prepared of a folder that a track has taken */
#define TRY_MS   20         /* between looks for a connection that is being made */

enum track_state {
    TRACK_LATER, /* it may come */
    TRACK_OPEN,
    TRACK_DONE, /* all that went over it is written */
    TRACK_NONE, /* it does not come */
};

/* One connection, and the put over it. */
struct track {
    struct agent_box as; /* what its talk takes for its box */
    int given;           /* the descriptor that the talk gets */
    enum track_state state;
    struct putting put;
    bool is_begun, has_ended, has_told;
    struct put_result told;
};

/* A folder that we are in or below of, and who has its files. */
struct taken {
    size_t len; /* of its path, which ends with '/'; the root's is empty */
    struct track *by;
};

struct split {
    struct box *box;
    const struct ctx *ctx;
    struct str root;
    const struct tree_source *from;
    struct track tracks[LANES_MAX];
    struct track *now; /* the one that has the present folder */
    bool is_read;      /* the source has no more */
    int64_t tried_ms;
    struct taken *taken; /* those on the way to `folder`, from the top */
    size_t n_taken, cap_taken;
    char folder[TREE_PATH_MAX];
};

/* ---- their lives --------------------------------------------------------------------- */

static int give_fd(struct box *b, const struct ctx *ctx, struct err *e)
{
    struct track *t = CONTAINER_OF(b, struct track, as.box);
    int fd = t->given;
    (void)ctx;
    t->given = -1;
    return fd >= 0 ? fd : err_set(e, ERR_UNREACHABLE, "the connection was lost");
}

static struct split *split_new(struct box *b, const struct ctx *ctx, struct str root,
                               const struct tree_source *from)
{
    const struct agent_box *ab = CONTAINER_OF(b, struct agent_box, box);
    struct split *s = xcalloc(1, sizeof *s);
    s->box = b;
    s->ctx = ctx;
    s->root = root;
    s->from = from;
    for (size_t i = 0; i < LANES_MAX; i++) {
        struct track *t = &s->tracks[i];
        t->given = -1;
        t->put.from = from;
        t->as.connect = give_fd;
        t->as.slow = ab->slow;
        t->as.box.provider = b->provider;
        t->as.box.ref = b->ref;
        atomic_init(&t->as.box.refs, 1);
    }
    return s;
}

static int split_free(struct split *s, int rc, struct err *e)
{
    for (size_t i = 0; i < LANES_MAX; i++) {
        struct track *t = &s->tracks[i];
        if (t->is_begun) {
            rc = put_close(&t->put, rc, e);
        }
    }
    free(s->taken);
    free(s);
    return rc;
}

static int track_begin(struct split *s, struct track *t, struct box *b, struct err *e)
{
    t->state = TRACK_OPEN;
    t->is_begun = true;
    return put_begin(&t->put, b, s->ctx, s->root, e);
}

/* Those that have come. */
static int open_more(struct split *s, struct err *e)
{
    const struct agent_box *ab = CONTAINER_OF(s->box, struct agent_box, box);
    int64_t now = clock_mono_ms();
    if (s->is_read || now - s->tried_ms < TRY_MS) {
        return 0;
    }
    s->tried_ms = now;
    for (unsigned i = 1; i < LANES_MAX; i++) {
        struct track *t = &s->tracks[i];
        int fd = t->state == TRACK_LATER ? ab->lane(s->box, i - 1) : AGENT_LANE_LATER;
        if (fd == AGENT_LANE_NONE) {
            t->state = TRACK_NONE;
        }
        if (fd < 0) {
            continue;
        }
        t->given = fd;
        if (track_begin(s, t, &t->as.box, e) < 0) {
            return -1;
        }
    }
    return 0;
}

/* ---- what is sent ---------------------------------------------------------------------- */

static size_t unsent(const struct track *t)
{
    return t->put.x.talk.out.len;
}

static struct track *idlest(struct split *s)
{
    struct track *best = &s->tracks[0];
    for (size_t i = 1; i < LANES_MAX; i++) {
        struct track *t = &s->tracks[i];
        if (t->state == TRACK_OPEN && unsent(t) < unsent(best)) {
            best = t;
        }
    }
    return best;
}

static void take_it(struct split *s, struct str folder)
{
    if (s->n_taken == s->cap_taken) {
        s->cap_taken = s->cap_taken == 0 ? 16 : 2 * s->cap_taken;
        s->taken = xrealloc(s->taken, s->cap_taken, sizeof *s->taken);
    }
    memcpy(s->folder, folder.p, folder.len);
    s->taken[s->n_taken++] = (struct taken){.len = folder.len, .by = idlest(s)};
}

/* The track of the folder that the entry is in. A folder's files may go on after those of the
 * folders in it: then it is still whose it was. */
static struct track *track_of(struct split *s, struct str path)
{
    size_t len = path.len;
    while (len > 0 && path.p[len - 1] != '/') {
        len--;
    }
    struct str folder = str_head(path, len);
    while (s->n_taken > 0 &&
           !str_starts(folder, (struct str){s->folder, s->taken[s->n_taken - 1].len})) {
        s->n_taken--;
    }
    if (s->n_taken == 0 || s->taken[s->n_taken - 1].len < folder.len) {
        take_it(s, folder);
    }
    return s->taken[s->n_taken - 1].by;
}

/* 1: something was prepared; 0: the source has no more; -1. */
static int prepare(struct split *s, struct err *e)
{
    struct tree_entry entry;
    if (s->now != NULL && s->now->put.in_file) {
        return put_more_of_file(&s->now->put, e);
    }
    int got = s->from->next(s->from->arg, &entry, e);
    if (got <= 0) {
        return got;
    }
    s->now = track_of(s, entry.path);
    struct putting *p = &s->now->put;
    p->in_file = entry.type == TREE_FILE && !entry.meta_only;
    return p->to.entry(p->to.arg, &entry, e) < 0 ? -1 : 1;
}

static int end_all(struct split *s, struct err *e)
{
    s->is_read = true;
    for (size_t i = 0; i < LANES_MAX; i++) {
        struct track *t = &s->tracks[i];
        if (t->state != TRACK_OPEN) {
            continue;
        }
        t->has_ended = true;
        if (put_end(&t->put.x, e) < 0) {
            return -1;
        }
    }
    return 0;
}

static bool has_room(struct split *s)
{
    return (s->now == NULL || unsent(s->now) < OUT_MOST) && unsent(idlest(s)) < OUT_AHEAD;
}

static int feed(struct split *s, struct err *e)
{
    while (!s->is_read && has_room(s)) {
        int some = prepare(s, e);
        if (some < 0 || (some == 0 && end_all(s, e) < 0)) {
            return -1;
        }
    }
    return 0;
}

/* ---- what is heard --------------------------------------------------------------------- */

static int hear(struct split *s, struct track *t, struct frame f, struct err *e)
{
    if (f.type == FRAME_PUT_IS) {
        t->has_told = true;
        return put_told(s->ctx, f, &t->told, e);
    }
    if (f.type == FRAME_OK && t->has_told && t->has_ended) {
        t->state = TRACK_DONE;
        return 0;
    }
    return put_is_sign_of_life(f) ? 0 : talk_bad(e, "an answer");
}

static int turn(struct split *s, struct track *t, struct err *e)
{
    struct talk *talk = &t->put.x.talk;
    struct frame f;
    if (talk_flush(talk, e) < 0 || talk_read(talk, e) < 0) {
        return -1;
    }
    for (int got = talk_next(talk, &f, e); got != 0; got = talk_next(talk, &f, e)) {
        if (got < 0 || hear(s, t, f, e) < 0) {
            return -1;
        }
    }
    if (talk->closed && t->state == TRACK_OPEN) {
        return t == &s->tracks[0] ? talk_ended(talk, s->ctx, e)
                                  : err_set(e, ERR_UNREACHABLE, "one of its connections was lost");
    }
    return 0;
}

static int turn_all(struct split *s, struct err *e)
{
    for (size_t i = 0; i < LANES_MAX; i++) {
        struct track *t = &s->tracks[i];
        if (t->state == TRACK_OPEN && turn(s, t, e) < 0) {
            return -1;
        }
    }
    return 0;
}

static bool is_over(const struct split *s)
{
    for (size_t i = 0; i < LANES_MAX; i++) {
        if (s->tracks[i].state == TRACK_OPEN) {
            return false;
        }
    }
    return s->is_read;
}

static int wait_for_some(struct split *s, struct err *e)
{
    struct pollfd fds[LANES_MAX];
    nfds_t n = 0;
    bool some_later = false;
    for (size_t i = 0; i < LANES_MAX; i++) {
        const struct track *t = &s->tracks[i];
        const struct talk *talk = &t->put.x.talk;
        some_later = some_later || t->state == TRACK_LATER;
        if (t->state == TRACK_OPEN) {
            fds[n++] = (struct pollfd){
                .fd = talk->fd, .events = (short)(POLLIN | (talk_unsent(talk) ? POLLOUT : 0))};
        }
    }
    bool looks = some_later && !s->is_read;
    int64_t wait_ms = looks ? TRY_MS : TALK_SILENT_MS;
    int ready = ctx_wait(s->ctx, fds, n, clock_mono_ms() + wait_ms, e);
    return ready == 0 && !looks ? talk_silent(e, TALK_SILENT_MS) : ready < 0 ? -1 : 0;
}

static int run(struct split *s, struct err *e)
{
    if (track_begin(s, &s->tracks[0], s->box, e) < 0) {
        return -1;
    }
    for (;;) {
        if (open_more(s, e) < 0 || feed(s, e) < 0 || turn_all(s, e) < 0) {
            return -1;
        }
        if (is_over(s)) {
            return 0;
        }
        if (ctx_check(s->ctx, e) < 0 || ((s->is_read || !has_room(s)) && wait_for_some(s, e) < 0)) {
            return -1;
        }
    }
}

static void add_up(const struct split *s, struct put_result *out)
{
    for (size_t i = 0; i < LANES_MAX; i++) {
        const struct put_result *r = &s->tracks[i].told;
        out->dirs += r->dirs;
        out->files += r->files;
        out->links += r->links;
        out->bytes += r->bytes;
        out->skipped += r->skipped;
        if (out->first_skipped.len == 0) {
            out->first_skipped = r->first_skipped;
        }
    }
}

int split_put(struct box *b, const struct ctx *ctx, struct str root, const struct tree_source *from,
              struct put_result *out, struct err *e)
{
    struct split *s = split_new(b, ctx, root, from);
    int rc = run(s, e);
    add_up(s, out);
    return split_free(s, rc, e);
}
