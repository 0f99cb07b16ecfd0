/*
 * agent_parts.c - what goes over the lanes: see agent_parts.h.
 *
 * put reads the file once, from its beginning to its end, and gives each piece to the lane
 * that has room for it; a lane tells what is written, so it is known what a lost one still
 * owed, and that is read again. get asks each lane for one range after another. The far
 * side is not trusted: what comes has to lie in the range that was asked for, in order.
 */
#include "provider/agent_parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "provider/agent_lanes.h"

#define OUT_AHEAD  (256u << 10) /* prepared for sending, about */
#define WANT_BYTES (2u << 20)   /* that a lane is asked for at once */
#define WANTS      3            /* and as many times, so that it never waits */

bool parts_fit(const struct box *b, const struct tree_entry *entry)
{
    const struct agent_box *ab = (const struct agent_box *)(const void *)b;
    return ab->lane != NULL && entry->type == TREE_FILE && !entry->meta_only &&
           entry->size >= PART_FILE_MIN && entry->path.len > 0;
}

static bool is_slow(const struct lanes *p)
{
    return CONTAINER_OF(p->req->box, struct agent_box, box)->slow;
}

static struct wire_out request(const struct lanes *p, struct lane *l, uint8_t type)
{
    struct wire_out w = wire_begin(&l->talk.out, type);
    wire_str(&w, p->req->root);
    wire_u8(&w, is_slow(p) ? TREE_COMPRESS : 0);
    wire_str(&w, p->req->path);
    return w;
}

static int finish(struct wire_out *w, struct err *e)
{
    return wire_end(w) ? 0 : err_set(e, ERR_BUG, "a request for a part did not fit its buffer");
}

/* ---- put -------------------------------------------------------------------------------------- */

struct sending {
    struct str temp;
    const struct tree_source *from;
    uint64_t at;   /* where the source is */
    uint64_t next; /* what was not sent yet begins here */
    struct lz *lz; /* NULL: nothing is packed */
    char room[ENTRIES_BLOCK], packed[ENTRIES_BLOCK];
};

static int begin_put(struct lanes *p, struct lane *l, struct err *e)
{
    const struct sending *s = p->arg;
    struct wire_out w = request(p, l, FRAME_TREE_PART_PUT);
    wire_str(&w, s->temp);
    return finish(&w, e);
}

static int send_slice(struct sending *s, struct lane *l, uint64_t at, struct str bytes,
                      struct err *e)
{
    struct wire_out w = wire_begin(&l->talk.out, FRAME_TREE_SLICE);
    size_t packed =
        s->lz != NULL ? lz_pack(s->lz, bytes, s->packed, bytes.len - bytes.len / 16) : 0;
    wire_u64(&w, at);
    wire_u32(&w, packed > 0 ? (uint32_t)bytes.len : 0);
    wire_str(&w, packed > 0 ? (struct str){s->packed, packed} : bytes);
    lane_add_span(l, (struct span){at, at + bytes.len});
    return finish(&w, e);
}

/* What is to be sent next: a part that was lost, else what comes next. False: nothing. */
static bool next_span(const struct lanes *p, struct span *out)
{
    const struct sending *s = p->arg;
    *out = p->n_again > 0 ? p->again[p->n_again - 1] : (struct span){s->next, p->req->size};
    return out->at < out->end;
}

/* Notes that the span is done up to `end`. */
static void sent_until(struct lanes *p, uint64_t end)
{
    struct sending *s = p->arg;
    if (p->n_again == 0) {
        s->next = end;
        return;
    }
    struct span *again = &p->again[p->n_again - 1];
    again->at = end;
    p->n_again -= again->at == again->end ? 1 : 0;
}

/* Reads a piece of the span and sends it. */
static int send_some(struct lanes *p, struct lane *l, struct span span, struct err *e)
{
    struct sending *s = p->arg;
    const struct tree_source *from = s->from;
    uint64_t left = span.end - span.at;
    bool skip = false;
    if (s->at != span.at && from->seek(from->arg, span.at, e) < 0) {
        return -1;
    }
    s->at = span.at;
    uint64_t hole = from->hole != NULL ? from->hole(from->arg) : 0;
    if (hole > 0) {
        s->at += hole;
        sent_until(p, hole < left ? s->at : span.end);
        return 0;
    }
    ssize_t n = from->read(from->arg, s->room,
                           left < sizeof s->room ? (size_t)left : sizeof s->room, &skip, e);
    if (n < 0 && !skip) {
        p->is_stopped = true;
        return -1;
    }
    if (n <= 0) {
        return lanes_fail_file(p,
                               n < 0 ? str_from(e->msg) : S("it became shorter while it was read"));
    }
    s->at += (uint64_t)n;
    sent_until(p, s->at);
    return send_slice(s, l, span.at, (struct str){s->room, (size_t)n}, e);
}

static int feed_put(struct lanes *p, struct lane *l, struct err *e)
{
    struct span span;
    int fed = 0;
    while (l->talk.out.len < OUT_AHEAD && l->n < SPANS_MAX && !p->has_failed &&
           next_span(p, &span)) {
        if (send_some(p, l, span, e) < 0) {
            return -1;
        }
        fed = 1;
    }
    return fed;
}

static int hear_put(struct lanes *p, struct lane *l, struct frame f, struct err *e)
{
    struct wire_in r = wire_read(f.fields);
    uint64_t written = wire_get_u64(&r);
    (void)p;
    if (f.type != FRAME_TREE_WRITTEN || !wire_done(&r) || written < l->answered ||
        written - l->answered > l->n) {
        return talk_bad(e, "what was written");
    }
    for (; l->answered < written; l->answered++) {
        lane_drop_first(l);
    }
    return 0;
}

static bool put_is_over(const struct lanes *p)
{
    struct span ignored;
    return !next_span(p, &ignored) && lanes_quiet(p);
}

int parts_put(const struct parts_req *req, struct str temp, const struct tree_source *from,
              char why[ENTRIES_WHY + 1], struct err *e)
{
    static const struct lane_ops ops = {
        .begin = begin_put, .feed = feed_put, .hear = hear_put, .is_over = put_is_over};
    struct sending *s = xcalloc(1, sizeof *s);
    struct lanes *p = lanes_new(req, &ops, s);
    s->temp = temp;
    s->from = from;
    s->lz = is_slow(p) ? xcalloc(1, sizeof *s->lz) : NULL;
    int rc = lanes_run(p, e);
    rc = rc < 0 ? -1 : p->has_failed ? 0 : 1;
    memcpy(why, p->why, ENTRIES_WHY + 1);
    lanes_free(p);
    free(s->lz);
    free(s);
    return rc;
}

/* ---- get -------------------------------------------------------------------------------------- */

struct fetching {
    const struct tree_sink *to;
    uint64_t next; /* what was not asked for yet begins here */
    char room[ENTRIES_BLOCK];
};

static int begin_get(struct lanes *p, struct lane *l, struct err *e)
{
    struct wire_out w = request(p, l, FRAME_TREE_PART_GET);
    return finish(&w, e);
}

static int feed_get(struct lanes *p, struct lane *l, struct err *e)
{
    struct fetching *g = p->arg;
    int fed = 0;
    while (l->n < WANTS && (p->n_again > 0 || g->next < p->req->size)) {
        struct span want = {g->next, g->next + WANT_BYTES};
        want.end = want.end < p->req->size ? want.end : p->req->size;
        if (p->n_again > 0) {
            want = p->again[--p->n_again];
        } else {
            g->next = want.end;
        }
        struct wire_out w = wire_begin(&l->talk.out, FRAME_TREE_WANT);
        wire_u64(&w, want.at);
        wire_u64(&w, want.end - want.at);
        lane_add_span(l, want);
        if (finish(&w, e) < 0) {
            return -1;
        }
        fed = 1;
    }
    return fed;
}

/* The file that a lane has opened may be another one by now. */
static int check_file(struct lanes *p, struct lane *l, struct frame f, struct err *e)
{
    struct wire_in r = wire_read(f.fields);
    uint64_t size = wire_get_u64(&r);
    int64_t mtime_ns = (int64_t)wire_get_u64(&r);
    if (f.type != FRAME_TREE_FILE || !wire_done(&r)) {
        return talk_bad(e, "what a file is");
    }
    l->is_checked = true;
    if (size != p->req->size || mtime_ns != p->req->mtime_ns) {
        return lanes_fail_file(p, S("it changed while it was read"));
    }
    return 0;
}

/* Up to `at` are zeros. */
static int take_hole(struct lanes *p, const struct span *s, uint64_t at, struct err *e)
{
    const struct tree_sink *to = ((struct fetching *)p->arg)->to;
    if (at == s->at) {
        return 0;
    }
    return to->at(to->arg, s->at, e) < 0 ? -1 : to->hole(to->arg, at - s->at, e);
}

static int take_piece(struct lanes *p, struct span *s, uint64_t at, struct str bytes, struct err *e)
{
    const struct tree_sink *to = ((struct fetching *)p->arg)->to;
    if (take_hole(p, s, at, e) < 0) {
        return -1;
    }
    s->at = at + bytes.len;
    if (bytes.len == 0) {
        return 0;
    }
    return to->at(to->arg, at, e) < 0 ? -1 : to->data(to->arg, bytes, e);
}

static int hear_get(struct lanes *p, struct lane *l, struct frame f, struct err *e)
{
    struct fetching *g = p->arg;
    struct wire_in r = wire_read(f.fields);
    struct span *s = lane_first(l);
    if (!l->is_checked) {
        return check_file(p, l, f, e);
    }
    uint64_t at = wire_get_u64(&r);
    uint32_t unpacked = wire_get_u32(&r);
    struct str bytes = wire_get_str(&r);
    if (f.type != FRAME_TREE_PIECE || !wire_done(&r) || s == NULL || unpacked > ENTRIES_BLOCK) {
        return talk_bad(e, "a part of a file");
    }
    if (unpacked > 0) {
        if (lz_unpack(bytes, g->room, unpacked) != (ssize_t)unpacked) {
            return talk_bad(e, "a part of a file");
        }
        bytes = (struct str){g->room, unpacked};
    }
    bool is_end = bytes.len == 0;
    if (at < s->at || at > s->end || bytes.len > s->end - at || (is_end && at != s->end)) {
        return talk_bad(e, "a part of a file that was not asked for, or one");
    }
    if (take_piece(p, s, at, bytes, e) < 0) {
        p->is_stopped = true;
        return -1;
    }
    if (is_end) {
        lane_drop_first(l);
    }
    return 0;
}

static bool get_is_over(const struct lanes *p)
{
    const struct fetching *g = p->arg;
    return g->next == p->req->size && p->n_again == 0 && lanes_quiet(p);
}

int parts_get(const struct parts_req *req, const struct tree_sink *to, char why[ENTRIES_WHY + 1],
              struct err *e)
{
    static const struct lane_ops ops = {
        .begin = begin_get, .feed = feed_get, .hear = hear_get, .is_over = get_is_over};
    struct fetching *g = xcalloc(1, sizeof *g);
    struct lanes *p = lanes_new(req, &ops, g);
    g->to = to;
    int rc = lanes_run(p, e);
    rc = rc < 0 ? -1 : p->has_failed ? 0 : 1;
    memcpy(why, p->why, ENTRIES_WHY + 1);
    lanes_free(p);
    free(g);
    return rc;
}
