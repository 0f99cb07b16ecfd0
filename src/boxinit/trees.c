/* trees.c - reading whole trees: listings, and the contents of many files. */
#include "boxinit/trees.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "base/path.h"
#include "boxinit/box.h"
#include "boxinit/command.h"
#include "boxinit/server.h"
#include "tree/digest.h"
#include "tree/read.h"
#include "tree/walk.h"

#define ALIVE_MS     5000       /* a client that waits hears something so often */
#define HELD_MAX     (8u << 20) /* of a listing that may turn out not to be wanted */
#define PARTS_S      86400      /* that a large file may take over other connections */
#define LOOK_EVERY   512        /* names between two looks at the client */
#define PATTERNS_MAX (1u << 30) /* memory of a request's excludes, which a frame bounds */

/* ---- the conversation -------------------------------------------------------------------- */

static void put_block(struct buf *to, struct str block, uint32_t unpacked)
{
    struct wire_out o = wire_begin(to, FRAME_TREE_BLOCK);
    wire_u32(&o, unpacked);
    wire_str(&o, block);
    (void)!wire_end(&o); /* blocks are bounded and the buffer is flushed early */
}

int trees_send(void *arg, struct str block, uint32_t unpacked, struct err *e)
{
    struct worker *w = arg;
    put_block(&w->out, block, unpacked);
    return w->out.len > OUT_HIGH ? worker_flush(w, e) : 0;
}

int trees_alive(struct worker *w, struct err *e)
{
    if (clock_mono_ms() - w->said_ms < ALIVE_MS) {
        return 0;
    }
    put_block(&w->out, STR_EMPTY, 0);
    return worker_flush(w, e);
}

int trees_next(struct worker *w, struct request *out, struct err *e)
{
    struct frame frame;
    if (worker_next(w, &frame, e) < 0 || request_parse(frame, &w->arena, out, e) < 0) {
        return -1;
    }
    if (out->type != FRAME_TREE_GIVE) {
        return err_set(e, ERR_PROTOCOL, "request %u in the middle of a tree", out->type);
    }
    return out->bytes.len > 0 ? 1 : 0;
}

int trees_refuse(struct worker *w, struct err *e)
{
    struct request ignored;
    int more = 1;
    if (e->kind == ERR_PROTOCOL || e->kind == ERR_CANCELLED) {
        return -1; /* the conversation is over */
    }
    box_put_fail(&w->out, e);
    if (worker_flush(w, e) < 0) {
        return err_set(e, ERR_CANCELLED, "the client is gone");
    }
    while (more > 0) {
        more = trees_next(w, &ignored, e);
    }
    return more;
}

/* ---- listing ------------------------------------------------------------------------------- */

struct listing {
    struct worker *w;
    struct entries_out out;
    struct tree_digest digest;
    const char *path;
    bool exists;
    uint8_t type;
    bool holding; /* blocks are kept: perhaps the client has the same */
    struct buf held;
    unsigned ticks;
    uint64_t n_unreadable;
    struct buf unreadable; /* the first one */
};

/* The real path of what exists of `path`, and the rest as it stands. */
static struct str real_path(struct arena *a, const char *path)
{
    struct str there = path_clean(a, str_from(path));
    struct str rest = STR_EMPTY;
    for (;;) {
        char *real own_mem = realpath(arena_cstr(a, there), NULL);
        if (real != NULL) {
            struct str found = arena_str(a, str_from(real));
            return rest.len > 0 ? path_join(a, found, rest) : found;
        }
        if (there.len <= 1) {
            return path_clean(a, str_from(path));
        }
        struct str last = path_base(there);
        rest = rest.len > 0 ? path_join(a, last, rest) : last;
        there = path_dir(there);
    }
}

static void put_is(struct listing *l, bool same)
{
    struct worker *w = l->w;
    struct wire_out o = wire_begin(&w->out, FRAME_TREE_IS);
    wire_u8(&o, l->exists ? 1 : 0);
    wire_u8(&o, l->type);
    wire_str(&o, real_path(&w->arena, l->path));
    wire_str(&o, str_from(command_path(w->spec, &w->arena, S("~"))));
    wire_u8(&o, same ? 1 : 0);
    (void)!wire_end(&o);
}

/* The client gets it all, after all. */
static int stop_holding(struct listing *l, struct err *e)
{
    struct worker *w = l->w;
    l->holding = false;
    put_is(l, false);
    if (worker_flush(w, e) < 0) {
        return -1;
    }
    struct buf empty = w->out;
    w->out = l->held;
    int rc = worker_flush(w, e);
    l->held = w->out;
    w->out = empty;
    return rc;
}

static int send_listed(void *arg, struct str block, uint32_t unpacked, struct err *e)
{
    struct listing *l = arg;
    if (!l->holding) {
        return trees_send(l->w, block, unpacked, e);
    }
    put_block(&l->held, block, unpacked);
    return l->held.len + (size_t)2 * ENTRIES_BLOCK > HELD_MAX ? stop_holding(l, e) : 0;
}

static int add_entry(void *arg, const struct tree_entry *entry, struct err *e)
{
    struct listing *l = arg;
    struct tree_sink to = entries_sink(&l->out);
    if (l->holding) {
        tree_digest_add(&l->digest, entry);
    }
    return to.entry(to.arg, entry, e);
}

static int add_unreadable(void *arg, struct str path, int errnum, struct err *e)
{
    struct listing *l = arg;
    (void)e;
    if (l->n_unreadable++ == 0) {
        buf_addf(&l->unreadable, "%.*s: %s", STR_ARG(str_head(path, ENTRIES_WHY)),
                 strerror(errnum));
    }
    return 0;
}

/* Nobody goes on for a client that has gone. */
static int list_tick(void *arg, struct err *e)
{
    struct listing *l = arg;
    char byte;
    if (++l->ticks % LOOK_EVERY != 0) {
        return 0;
    }
    if (recv(l->w->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0) {
        return err_set(e, ERR_CANCELLED, "the client is gone");
    }
    return trees_alive(l->w, e);
}

static int walk_it(struct listing *l, int fd, const struct request *r, struct err *e)
{
    bool legacy = (r->flags & TREE_LEGACY) != 0;
    struct arena patterns own_arena = {0};
    arena_init(&patterns, PATTERNS_MAX);
    struct exclude *x = exclude_new(&patterns, legacy ? EXCLUDE_LEGACY : EXCLUDE_GIT);
    struct walk_req req = {
        .root_fd = fd,
        .exclude = x,
        .gitignore = (r->flags & TREE_GITIGNORE) != 0,
        .sums = (r->flags & TREE_SUMS) != 0,
        .unreadable = add_unreadable,
        .tick = list_tick,
        .arg = l,
    };
    for (size_t i = 0; i < r->n_excludes; i++) {
        if (exclude_add(x, STR_EMPTY, r->excludes[i], e) < 0) {
            return -1;
        }
    }
    if (tree_walk(&req, add_entry, l, e) < 0) {
        return -1;
    }
    return entries_flush(&l->out, e);
}

/* Sends what is to be sent in the end. */
static int finish_list(struct listing *l, struct str digest, struct err *e)
{
    if (l->holding) {
        uint8_t own[TREE_SUM];
        tree_digest_end(&l->digest, own);
        if (memcmp(own, digest.p, TREE_SUM) == 0) {
            put_is(l, true);
        } else if (stop_holding(l, e) < 0) {
            return -1;
        }
    }
    struct wire_out o = wire_begin(&l->w->out, FRAME_TREE_END);
    wire_u64(&o, l->n_unreadable);
    wire_str(&o, buf_str(&l->unreadable));
    (void)!wire_end(&o);
    return 0;
}

/* A folder or a file is opened, anything else only looked at. -1 with errno; ENOENT is fine. */
static int open_root(struct listing *l, int *fd)
{
    struct stat is;
    if (stat(l->path, &is) < 0) {
        return errno == ENOENT ? 0 : -1;
    }
    l->exists = true;
    l->type = S_ISDIR(is.st_mode) ? ENTRY_DIR : S_ISREG(is.st_mode) ? ENTRY_FILE : ENTRY_OTHER;
    if (l->type != ENTRY_OTHER) {
        *fd = open(l->path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        return *fd < 0 ? -1 : 0;
    }
    return 0;
}

int trees_list(struct worker *w, const struct request *r, struct err *e)
{
    struct listing l = {.w = w, .type = ENTRY_OTHER, .holding = r->digest.len > 0};
    int fd own_fd = -1;
    int rc = 0;
    l.path = command_path(w->spec, &w->arena, r->path);
    if (open_root(&l, &fd) < 0) {
        return worker_fail(w, errno, r->path, "list", e);
    }
    buf_init(&l.held, HELD_MAX);
    buf_init(&l.unreadable, (size_t)2 * ENTRIES_WHY);
    tree_digest_init(&l.digest);
    entries_out_init(&l.out, (r->flags & TREE_COMPRESS) != 0, send_listed, &l);
    l.out.whole_seconds = true;
    if (!l.holding) {
        put_is(&l, false);
    }
    if (fd >= 0) {
        rc = walk_it(&l, fd, r, e);
    }
    if (rc == 0) {
        rc = finish_list(&l, r->digest, e);
    }
    entries_out_fini(&l.out);
    buf_fini(&l.held);
    buf_fini(&l.unreadable);
    return rc;
}

/* ---- contents ------------------------------------------------------------------------------- */

struct getting {
    struct worker *w;
    struct tree_reader *files;
    struct entries_out out;
    struct tree_sink to;
    bool in_parts; /* large files go by others */
};

/* The bytes of the open file, as many as it had. */
static int send_bytes(struct getting *g, uint64_t left, struct err *e)
{
    while (left > 0) {
        struct err why;
        size_t cap = 0;
        char *to = NULL;
        uint64_t hole = tree_reader_hole(g->files);
        hole = hole < left ? hole : left;
        if (hole > 0) {
            left -= hole;
            if (g->to.hole(g->to.arg, hole, e) < 0) {
                return -1;
            }
            continue;
        }
        if (entries_room(&g->out, &to, &cap, e) < 0) {
            return -1;
        }
        ssize_t n = tree_reader_read(g->files, to, left < cap ? (size_t)left : cap, &why);
        if (n <= 0) {
            struct str said = n < 0 ? str_from(why.msg) : S("it became shorter while it was read");
            return g->to.done(g->to.arg, false, said, e);
        }
        entries_filled(&g->out, (size_t)n);
        left -= (uint64_t)n;
    }
    return g->to.done(g->to.arg, true, STR_EMPTY, e);
}

static int get_path(void *arg, const struct tree_entry *asked, struct err *e)
{
    struct getting *g = arg;
    struct tree_entry entry;
    struct err why;
    if (trees_alive(g->w, e) < 0) {
        return -1;
    }
    if (tree_reader_open(g->files, asked->path, &entry, &why) < 0) {
        entry = (struct tree_entry){.path = asked->path};
        if (g->to.entry(g->to.arg, &entry, e) < 0) {
            return -1;
        }
        return g->to.done(g->to.arg, false, str_from(why.msg), e);
    }
    if (g->to.entry(g->to.arg, &entry, e) < 0) {
        return -1;
    }
    if (entry.type != TREE_FILE) {
        return 0;
    }
    if (g->in_parts && entry.size >= PART_FILE_MIN) {
        /* The client reads on when it has all of the file. */
        struct timeval patience = {.tv_sec = PARTS_S};
        (void)setsockopt(g->w->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
        return entries_put_parts(&g->out, e) < 0 ? -1 : g->to.done(g->to.arg, true, STR_EMPTY, e);
    }
    return send_bytes(g, entry.size, e);
}

static int get_all(struct getting *g, struct err *e)
{
    struct entries_in in;
    struct tree_sink asked = {.entry = get_path, .arg = g};
    struct request r;
    int more;
    entries_in_init(&in);
    in.list_only = true;
    for (;;) {
        more = trees_next(g->w, &r, e);
        if (more <= 0 || entries_read(&in, r.bytes, r.unpacked, &asked, e) < 0) {
            break;
        }
        /* What the client asked for so far it gets, even when it thinks before it goes on. */
        if (entries_flush(&g->out, e) < 0 || worker_flush(g->w, e) < 0) {
            break;
        }
    }
    entries_in_fini(&in);
    return more == 0 ? 0 : -1;
}

int trees_get(struct worker *w, const struct request *r, struct err *e)
{
    const char *path = command_path(w->spec, &w->arena, r->path);
    int fd own_fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    struct getting g = {.w = w, .in_parts = (r->flags & TREE_IN_PARTS) != 0};
    if (fd < 0) {
        (void)worker_fail(w, errno, r->path, "read", e);
        return trees_refuse(w, e);
    }
    g.files = tree_reader_new(fd);
    entries_out_init(&g.out, (r->flags & TREE_COMPRESS) != 0, trees_send, w);
    g.to = entries_sink(&g.out);
    int rc = get_all(&g, e);
    tree_reader_free(g.files);
    entries_out_fini(&g.out);
    if (rc == 0) {
        struct wire_out o = wire_begin(&w->out, FRAME_TREE_END);
        wire_u64(&o, 0);
        wire_str(&o, STR_EMPTY);
        (void)!wire_end(&o);
    }
    return rc;
}
