/*
 * Whole trees over the agent's protocol: one conversation for each operation.
 *
 * put streams without waiting for anything, get asks for paths while it takes contents; an
 * error that the box sends meanwhile ends both. What the box says is not trusted: blocks are
 * checked by agent/entries.h, and get takes just what was asked for, in that order.
 */
#include "provider/agent_trees.h"

#include <string.h>

#include "agent/entries.h"
#include "base/clock.h"
#include "base/plain.h"
#include "provider/agent_parts.h"
#include "provider/over_agent.h"
#include "provider/talk.h"

_Static_assert((int)TREE_FILE == (int)ENTRY_FILE && (int)TREE_DIR == (int)ENTRY_DIR &&
                   (int)TREE_LINK == (int)ENTRY_LINK && (int)TREE_OTHER == (int)ENTRY_OTHER,
               "the types travel as they are");

#define TIDY_MAX ((size_t)3 * ENTRIES_WHY)

/* ---- the conversation ---------------------------------------------------------------------- */

static int send_block(void *arg, struct str block, uint32_t unpacked, struct err *e)
{
    struct exchange *x = arg;
    struct wire_out w = wire_begin(&x->talk.out, FRAME_TREE_GIVE);
    wire_u32(&w, unpacked);
    wire_str(&w, block);
    return wire_end(&w) ? 0 : err_set(e, ERR_BUG, "a block of a tree did not fit its buffer");
}

static bool is_slow(const struct box *b)
{
    return ((const struct agent_box *)(const void *)b)->slow;
}

/* Opens a conversation whose request begins with the root and the flags. */
static int begin(struct exchange *x, struct box *b, const struct ctx *ctx, struct str root,
                 struct err *e)
{
    x->talk = TALK_NONE;
    x->waits = false;
    x->ctx = ctx;
    entries_out_init(&x->out, is_slow(b), send_block, x);
    entries_in_init(&x->in);
    if (talk_check_text(root, PATH_MAX_BYTES, false, "the path", e) < 0) {
        return -1;
    }
    return talk_open(&x->talk, b, ctx, e);
}

static struct wire_out request(struct exchange *x, struct box *b, uint8_t type, struct str root,
                               unsigned flags)
{
    struct wire_out w = wire_begin(&x->talk.out, type);
    wire_str(&w, root);
    wire_u8(&w, (uint8_t)(flags | (is_slow(b) ? TREE_COMPRESS : 0)));
    return w;
}

static int finish(struct wire_out *w, struct err *e)
{
    if (!wire_end(w)) {
        return err_set(e, ERR_LIMIT,
                       "the request is too long: there are too many exclude patterns");
    }
    return 0;
}

/* Ends it. An agent that knows no trees could not say so in words that help. */
static int end(struct exchange *x, int rc, struct err *e)
{
    bool old = x->talk.greeted && x->talk.version < AGENT_TREES;
    entries_out_fini(&x->out);
    entries_in_fini(&x->in);
    talk_close(&x->talk);
    if (rc < 0 && old && e->kind != ERR_CANCELLED && e->kind != ERR_TIMEOUT) {
        return err_set(e, ERR_UNSUPPORTED,
                       "the sandbox was made by an older anybox, whose agent cannot move whole "
                       "folders; make a new sandbox, or move files one by one");
    }
    return rc;
}

/* What the box calls a reason or a path, made harmless. In the call's arena. */
static struct str tidy(const struct ctx *ctx, struct str said)
{
    struct buf text own_buf = {0};
    buf_init(&text, TIDY_MAX);
    plain_text(str_head(said, TIDY_MAX), &text);
    for (size_t i = 0; i < text.len; i++) {
        if (text.p[i] == '\n' || text.p[i] == '\t') {
            text.p[i] = ' ';
        }
    }
    return arena_str(ctx->arena, buf_str(&text));
}

/* A block from the box. Empty ones only tell that it lives. */
static int take_block(struct exchange *x, struct frame f, const struct tree_sink *to, struct err *e)
{
    struct wire_in r = wire_read(f.fields);
    uint32_t unpacked = wire_get_u32(&r);
    struct str block = wire_get_str(&r);
    if (!wire_done(&r)) {
        return talk_bad(e, "a part of a tree");
    }
    return entries_read(&x->in, block, unpacked, to, e);
}

bool put_is_sign_of_life(struct frame f)
{
    return f.type == FRAME_TREE_BLOCK && f.fields.len == 2 * sizeof(uint32_t);
}

/* ---- list ------------------------------------------------------------------------------------- */

static int get_facts(const struct ctx *ctx, struct frame f, struct tree_facts *out, struct err *e)
{
    struct wire_in r = wire_read(f.fields);
    out->exists = wire_get_u8(&r) != 0;
    uint8_t type = wire_get_u8(&r);
    struct str real = wire_get_str(&r);
    struct str home = wire_get_str(&r);
    out->same = wire_get_u8(&r) != 0;
    if (f.type != FRAME_TREE_IS || !wire_done(&r) || type > ENTRY_OTHER ||
        real.len > (size_t)2 * PATH_MAX_BYTES || home.len > PATH_MAX_BYTES || str_has(real, '\0') ||
        str_has(home, '\0')) {
        return talk_bad(e, "what a tree is");
    }
    out->type = (enum tree_type)type;
    out->real = arena_str(ctx->arena, real);
    out->home = arena_str(ctx->arena, home);
    return 0;
}

static int get_end(const struct ctx *ctx, struct frame f, struct tree_facts *out, struct err *e)
{
    struct wire_in r = wire_read(f.fields);
    out->unreadable = wire_get_u64(&r);
    out->first_unreadable = tidy(ctx, wire_get_str(&r));
    return wire_done(&r) ? 0 : talk_bad(e, "the end of a tree");
}

static int take_listing(struct exchange *x, const struct tree_sink *to, struct tree_facts *facts,
                        struct err *e)
{
    struct frame f;
    do {
        if (talk_get(&x->talk, x->ctx, &f, e) < 0) {
            return -1;
        }
    } while (put_is_sign_of_life(f));
    if (get_facts(x->ctx, f, facts, e) < 0) {
        return -1;
    }
    for (;;) {
        if (talk_get(&x->talk, x->ctx, &f, e) < 0) {
            return -1;
        }
        if (f.type == FRAME_TREE_END) {
            return get_end(x->ctx, f, facts, e);
        }
        if (f.type != FRAME_TREE_BLOCK) {
            return talk_bad(e, "a part of a tree");
        }
        if (take_block(x, f, to, e) < 0) {
            return -1;
        }
    }
}

static int tree_list(struct box *b, const struct ctx *ctx, const struct tree_req *req,
                     tree_entry_fn *each, void *arg, struct tree_facts *out, struct err *e)
{
    struct exchange x;
    struct tree_facts facts = {0};
    struct tree_sink to = {.entry = each, .arg = arg};
    unsigned flags = (req->legacy_style ? TREE_LEGACY : 0) | (req->gitignore ? TREE_GITIGNORE : 0) |
                     (req->sums ? TREE_SUMS : 0);
    int rc = begin(&x, b, ctx, req->root, e);
    if (rc == 0) {
        struct wire_out w = request(&x, b, FRAME_TREE_LIST, req->root, flags);
        wire_str(&w, (struct str){(const char *)req->expected, req->expected ? TREE_SUM : 0});
        wire_list(&w, req->excludes, req->n_excludes);
        x.in.list_only = true;
        rc = finish(&w, e) < 0 ? -1 : take_listing(&x, &to, &facts, e);
    }
    if (end(&x, rc, e) < 0) {
        return -1;
    }
    *out = facts;
    return 0;
}

/* ---- sending while it listens -------------------------------------------------------------------- */

/* The next frame while `more` prepares what is to be sent: it returns 1, or 0 when there is
 * nothing left. 1 with a frame; -1. */
typedef int more_fn(void *arg, struct err *e);

static int next_frame(struct exchange *x, more_fn *more, void *arg, bool *sent, struct frame *out,
                      struct err *e)
{
    struct talk *t = &x->talk;
    for (;;) {
        int got = talk_next(t, out, e);
        if (got != 0) {
            return got;
        }
        if (t->closed) {
            return talk_ended(t, x->ctx, e);
        }
        while (!*sent && !x->waits && t->out.len < OUT_AHEAD) {
            int some = more(arg, e);
            if (some < 0) {
                return -1;
            }
            *sent = some == 0;
        }
        if (talk_flush(t, e) < 0) {
            return -1;
        }
        if (!talk_unsent(t) && !*sent && !x->waits) {
            /* There is more to send and room for it; only what came meanwhile is looked at. */
            if (ctx_check(x->ctx, e) < 0 || talk_read(t, e) < 0) {
                return -1;
            }
            continue;
        }
        int ready = talk_wait(t, x->ctx, NULL, clock_mono_ms() + TALK_SILENT_MS, e);
        if (ready <= 0) {
            return ready < 0 ? -1 : talk_silent(e, TALK_SILENT_MS);
        }
    }
}

int put_end(struct exchange *x, struct err *e)
{
    if (entries_flush(&x->out, e) < 0) {
        return -1;
    }
    return send_block(x, STR_EMPTY, 0, e);
}

/* ---- put -------------------------------------------------------------------------------------------- */

int put_more_of_file(struct putting *p, struct err *e)
{
    char *to = NULL;
    size_t cap = 0;
    bool skip = false;
    uint64_t hole = p->from->hole != NULL ? p->from->hole(p->from->arg) : 0;
    if (hole > 0) {
        return p->to.hole(p->to.arg, hole, e) < 0 ? -1 : 1;
    }
    if (entries_room(&p->x.out, &to, &cap, e) < 0) {
        return -1;
    }
    ssize_t n = p->from->read(p->from->arg, to, cap, &skip, e);
    if (n > 0) {
        entries_filled(&p->x.out, (size_t)n);
        return 1;
    }
    p->in_file = false;
    if (n == 0) {
        return p->to.done(p->to.arg, true, STR_EMPTY, e) < 0 ? -1 : 1;
    }
    if (!skip) {
        return -1;
    }
    struct err why = *e;
    return p->to.done(p->to.arg, false, str_from(why.msg), e) < 0 ? -1 : 1;
}

/* A large file: its entry, and then it is waited for where its parts go. */
static int announce_parts(struct putting *p, const struct tree_entry *entry, struct err *e)
{
    p->large = *entry;
    memcpy(p->path, entry->path.p, entry->path.len);
    p->large.path.p = p->path;
    p->x.waits = true;
    if (p->to.entry(p->to.arg, entry, e) < 0 || entries_put_parts(&p->x.out, e) < 0) {
        return -1;
    }
    return entries_flush(&p->x.out, e) < 0 ? -1 : 1;
}

static int put_parts(struct putting *p, struct frame f, struct err *e)
{
    struct wire_in r = wire_read(f.fields);
    struct str temp = wire_get_str(&r);
    char name[256];
    char why[ENTRIES_WHY + 1];
    struct parts_req req = {
        .box = p->box,
        .ctx = p->x.ctx,
        .root = p->root,
        .path = p->large.path,
        .size = p->large.size,
        .main = &p->x.talk,
        .alive = &p->x.out,
    };
    if (!p->x.waits || !wire_done(&r) || temp.len >= sizeof name) {
        return talk_bad(e, "where a file goes");
    }
    p->x.waits = false;
    if (temp.len == 0) {
        return p->to.done(p->to.arg, false, STR_EMPTY, e);
    }
    memcpy(name, temp.p, temp.len);
    int whole = parts_put(&req, (struct str){name, temp.len}, p->from, why, e);
    return whole < 0 ? -1 : p->to.done(p->to.arg, whole > 0, str_from(whole > 0 ? "" : why), e);
}

static int more_to_put(void *arg, struct err *e)
{
    struct putting *p = arg;
    struct tree_entry entry;
    if (p->in_file) {
        return put_more_of_file(p, e);
    }
    int got = p->from->next(p->from->arg, &entry, e);
    if (got <= 0) {
        return got < 0 ? -1 : put_end(&p->x, e);
    }
    if (p->from->seek != NULL && parts_fit(p->box, &entry)) {
        return announce_parts(p, &entry, e);
    }
    p->in_file = entry.type == TREE_FILE && !entry.meta_only;
    return p->to.entry(p->to.arg, &entry, e) < 0 ? -1 : 1;
}

int put_told(const struct ctx *ctx, struct frame f, struct put_result *out, struct err *e)
{
    struct wire_in r = wire_read(f.fields);
    out->dirs = wire_get_u64(&r);
    out->files = wire_get_u64(&r);
    out->links = wire_get_u64(&r);
    out->bytes = wire_get_u64(&r);
    out->skipped = wire_get_u64(&r);
    out->first_skipped = tidy(ctx, wire_get_str(&r));
    return wire_done(&r) ? 0 : talk_bad(e, "what was written");
}

static int put_all(struct putting *p, struct put_result *out, struct err *e)
{
    bool sent = false;
    bool told = false;
    for (;;) {
        struct frame f;
        if (next_frame(&p->x, more_to_put, p, &sent, &f, e) < 0) {
            return -1;
        }
        if (f.type == FRAME_PUT_IS) {
            if (put_told(p->x.ctx, f, out, e) < 0) {
                return -1;
            }
            told = true;
        } else if (f.type == FRAME_TREE_PARTS) {
            if (put_parts(p, f, e) < 0) {
                return -1;
            }
        } else if (f.type == FRAME_OK && told && sent) {
            return 0;
        } else if (!put_is_sign_of_life(f)) {
            return talk_bad(e, "an answer");
        }
    }
}

int put_begin(struct putting *p, struct box *b, const struct ctx *ctx, struct str root,
              struct err *e)
{
    p->box = b;
    p->root = root;
    if (begin(&p->x, b, ctx, root, e) < 0) {
        return -1;
    }
    struct wire_out w = request(&p->x, b, FRAME_TREE_PUT, root, 0);
    p->to = entries_sink(&p->x.out);
    return finish(&w, e);
}

int put_close(struct putting *p, int rc, struct err *e)
{
    return end(&p->x, rc, e);
}

static int tree_put(struct box *b, const struct ctx *ctx, struct str root,
                    const struct tree_source *from, struct put_result *out, struct err *e)
{
    const struct agent_box *ab = CONTAINER_OF(b, struct agent_box, box);
    struct putting p = {.from = from};
    *out = (struct put_result){0};
    if (from->share == TREE_FILES && ab->lane != NULL) {
        return split_put(b, ctx, root, from, out, e);
    }
    int rc = put_begin(&p, b, ctx, root, e) < 0 ? -1 : put_all(&p, out, e);
    return put_close(&p, rc, e);
}

/* ---- get ---------------------------------------------------------------------------------------------- */

struct getting {
    struct exchange x;
    const struct tree_sink *to;
    const struct str *paths;
    size_t n, asked, came;
    struct box *box;
    struct str root;
    struct tree_entry large; /* the last one that came, which may go in parts */
    bool has_failed;         /* it did, and so it has */
    char why[ENTRIES_WHY + 1];
};

static int more_to_ask(void *arg, struct err *e)
{
    struct getting *g = arg;
    if (g->asked == g->n) {
        return put_end(&g->x, e);
    }
    return entries_put_path(&g->x.out, g->paths[g->asked++], e) < 0 ? -1 : 1;
}

static int got_entry(void *arg, const struct tree_entry *entry, struct err *e)
{
    struct getting *g = arg;
    if (g->came == g->n || !str_eq(entry->path, g->paths[g->came])) {
        return talk_bad(e, "a file that was not asked for, or one");
    }
    g->large = *entry;
    g->large.path = g->paths[g->came++];
    g->has_failed = false;
    return g->to->entry(g->to->arg, entry, e);
}

static int got_parts(void *arg, struct err *e)
{
    struct getting *g = arg;
    struct parts_req req = {
        .box = g->box,
        .ctx = g->x.ctx,
        .root = g->root,
        .path = g->large.path,
        .size = g->large.size,
        .mtime_ns = g->large.mtime_ns,
    };
    if (!parts_fit(g->box, &g->large)) {
        return talk_bad(e, "a file in parts");
    }
    int whole = parts_get(&req, g->to, g->why, e);
    g->has_failed = whole == 0;
    return whole < 0 ? -1 : 0;
}

static int got_data(void *arg, struct str bytes, struct err *e)
{
    const struct getting *g = arg;
    return g->to->data(g->to->arg, bytes, e);
}

static int got_hole(void *arg, uint64_t n, struct err *e)
{
    const struct getting *g = arg;
    static const char zeros[4096];
    if (g->to->hole != NULL) {
        return g->to->hole(g->to->arg, n, e);
    }
    while (n > 0) {
        size_t some = n < sizeof zeros ? (size_t)n : sizeof zeros;
        if (ctx_check(g->x.ctx, e) < 0 ||
            g->to->data(g->to->arg, (struct str){zeros, some}, e) < 0) {
            return -1;
        }
        n -= some;
    }
    return 0;
}

static int got_done(void *arg, bool ok, struct str why, struct err *e)
{
    const struct getting *g = arg;
    if (g->has_failed) {
        ok = false;
        why = str_from(g->why);
    }
    return g->to->done(g->to->arg, ok, ok ? STR_EMPTY : tidy(g->x.ctx, why), e);
}

static bool takes_parts(const struct getting *g)
{
    const struct agent_box *ab = CONTAINER_OF(g->box, struct agent_box, box);
    return ab->lane != NULL && g->to->at != NULL && g->to->hole != NULL;
}

static int get_all(struct getting *g, struct err *e)
{
    struct tree_sink to = {
        .entry = got_entry, .data = got_data, .hole = got_hole, .done = got_done, .arg = g};
    bool sent = false;
    to.parts = takes_parts(g) ? got_parts : NULL;
    for (;;) {
        struct frame f;
        if (next_frame(&g->x, more_to_ask, g, &sent, &f, e) < 0) {
            return -1;
        }
        if (f.type == FRAME_TREE_END) {
            if (g->came < g->n) {
                return talk_bad(e, "fewer files than were asked for, or some");
            }
            return entries_end(&g->x.in, e);
        }
        if (f.type != FRAME_TREE_BLOCK) {
            return talk_bad(e, "a part of a tree");
        }
        if (take_block(&g->x, f, &to, e) < 0) {
            return -1;
        }
    }
}

static int tree_get(struct box *b, const struct ctx *ctx, struct str root, const struct str *paths,
                    size_t n, const struct tree_sink *to, struct err *e)
{
    struct getting g = {.to = to, .paths = paths, .n = n, .box = b, .root = root};
    int rc = begin(&g.x, b, ctx, root, e);
    if (rc == 0) {
        struct wire_out w =
            request(&g.x, b, FRAME_TREE_GET, root, takes_parts(&g) ? TREE_IN_PARTS : 0);
        g.x.in.sized = true;
        rc = finish(&w, e) < 0 ? -1 : get_all(&g, e);
    }
    return end(&g.x, rc, e);
}

/* ---- prune -------------------------------------------------------------------------------------------- */

struct pruning {
    struct exchange x;
    const struct str *paths;
    size_t left;
};

static int more_to_prune(void *arg, struct err *e)
{
    struct pruning *p = arg;
    if (p->left == 0) {
        return put_end(&p->x, e);
    }
    return entries_put_path(&p->x.out, p->paths[--p->left], e) < 0 ? -1 : 1;
}

static int prune_all(struct pruning *p, struct prune_result *out, struct err *e)
{
    bool sent = false;
    for (;;) {
        struct frame f;
        if (next_frame(&p->x, more_to_prune, p, &sent, &f, e) < 0) {
            return -1;
        }
        if (f.type == FRAME_PRUNE_IS) {
            struct wire_in r = wire_read(f.fields);
            out->files = wire_get_u64(&r);
            out->dirs = wire_get_u64(&r);
            (void)wire_get_u64(&r);
            if (!wire_done(&r)) {
                return talk_bad(e, "what was removed");
            }
        } else if (f.type == FRAME_OK && sent) {
            return 0;
        } else if (!put_is_sign_of_life(f)) {
            return talk_bad(e, "an answer");
        }
    }
}

static int tree_remove(struct box *b, const struct ctx *ctx, struct str root,
                       const struct str *paths, size_t n, struct prune_result *out, struct err *e)
{
    struct pruning p = {.paths = paths, .left = n};
    *out = (struct prune_result){0};
    int rc = begin(&p.x, b, ctx, root, e);
    if (rc == 0) {
        struct wire_out w = request(&p.x, b, FRAME_TREE_PRUNE, root, 0);
        rc = finish(&w, e) < 0 ? -1 : prune_all(&p, out, e);
    }
    return end(&p.x, rc, e);
}

const struct tree_ops trees_over_agent = {
    .list = tree_list,
    .put = tree_put,
    .get = tree_get,
    .prune = tree_remove,
};
