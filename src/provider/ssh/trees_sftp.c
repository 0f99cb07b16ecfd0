/*
 * Whole trees by SFTP alone, for hosts that have neither the agent nor GNU's tools.
 *
 * Files go in groups of GROUP: one request of a kind is sent for each of them before the answers
 * are awaited, so a group costs a few round trips instead of several for every file. A file is
 * written under another name and renamed when it is whole.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/id.h"
#include "base/own.h"
#include "base/path.h"
#include "provider/ssh/sftp_file.h"
#include "provider/ssh/trees.h"
#include "tree/apply.h"

#define GROUP      32
#define SMALL      (128u << 10) /* such files are held in memory; a larger one ends its group */
#define AHEAD      32           /* blocks under way */
#define ATTR_MODE  4
#define ATTR_TIMES 8
#define OPEN_TEMP  (SFTP_OPEN_WRITE | SFTP_OPEN_CREATE | SFTP_OPEN_EXCLUSIVE)

/* ---- many questions at once --------------------------------------------------------------- */

/* One entry of a group, and what the host last said about it. */
struct item {
    struct tree_entry entry; /* strings in the group's arena */
    struct str full, temp;   /* paths on the host */
    struct buf bytes;
    struct str handle;
    bool is_open, has_failed;
    bool is_large; /* its contents are still in the source */
    struct err why;
    uint32_t id;
    bool is_asked;
};

struct group {
    struct file_job job;
    struct str root;
    struct arena arena; /* of one group */
    struct item items[GROUP];
    size_t n;
};

static void group_init(struct group *g)
{
    arena_init(&g->arena, 64u << 20);
    for (size_t i = 0; i < GROUP; i++) {
        buf_init(&g->items[i].bytes, SMALL);
    }
}

static void group_fini(struct group *g)
{
    arena_fini(&g->arena);
    for (size_t i = 0; i < GROUP; i++) {
        buf_fini(&g->items[i].bytes);
    }
    file_end(&g->job);
}

static void group_clear(struct group *g)
{
    for (size_t i = 0; i < g->n; i++) {
        struct buf bytes = g->items[i].bytes;
        buf_clear(&bytes);
        g->items[i] = (struct item){.bytes = bytes};
    }
    g->n = 0;
    arena_fini(&g->arena);
}

static struct str full_path(struct group *g, struct str path)
{
    return path.len > 0 ? path_join(&g->arena, g->root, path) : g->root;
}

static int begin(struct group *g, struct box *b, const struct ctx *ctx, struct str root,
                 struct err *e)
{
    group_init(g);
    if (file_begin(&g->job, b, ctx, root, e) < 0) {
        return -1;
    }
    g->root = arena_str(ctx->arena, g->job.path);
    return 0;
}

static void item_failed(struct item *it, const struct sftp_packet *p, const char *doing)
{
    if (!it->has_failed) {
        it->has_failed = true;
        (void)sftp_fail(p, doing, it->entry.path, &it->why);
    }
}

/* Builds the request for an item; false: it has none. */
typedef bool ask_fn(struct group *g, struct item *it);
/* Looks at its answer; -1 ends it all. */
typedef int answer_fn(struct group *g, struct item *it, const struct sftp_packet *p, struct err *e);

static struct item *item_of(struct group *g, uint32_t id)
{
    for (size_t i = 0; i < g->n; i++) {
        if (g->items[i].is_asked && g->items[i].id == id) {
            return &g->items[i];
        }
    }
    return NULL;
}

enum which {
    WELL,
    FAILED,
};

static int ask_all(struct group *g, enum which which, ask_fn *ask, answer_fn *answer, struct err *e)
{
    size_t owed = 0;
    for (size_t i = 0; i < g->n; i++) {
        struct item *it = &g->items[i];
        it->is_asked = it->has_failed == (which == FAILED) && ask(g, it);
        if (it->is_asked) {
            owed++;
            if (sftp_send(g->job.sftp, g->job.ctx, e) < 0) {
                return -1;
            }
        }
    }
    for (; owed > 0; owed--) {
        struct sftp_packet p;
        if (sftp_get(g->job.sftp, g->job.ctx, &p, e) < 0) {
            return -1;
        }
        struct item *it = item_of(g, p.id);
        if (it == NULL) {
            return sftp_bad(g->job.sftp, e);
        }
        it->is_asked = false;
        if (answer(g, it, &p, e) < 0) {
            g->job.sftp->is_broken = owed > 1;
            return -1;
        }
    }
    return 0;
}

static int answer_handle(struct group *g, struct item *it, const struct sftp_packet *p,
                         struct err *e)
{
    struct sftp_in in = {.rest = p->body};
    if (p->type != SFTP_HANDLE) {
        item_failed(it, p, "open");
        return 0;
    }
    it->handle = arena_str(&g->arena, sftp_get_text(&in));
    it->is_open = true;
    return in.bad ? sftp_bad(g->job.sftp, e) : 0;
}

static int answer_status(struct group *g, struct item *it, const struct sftp_packet *p,
                         struct err *e)
{
    (void)g, (void)e;
    if (sftp_status_of(p) != SFTP_OK) {
        item_failed(it, p, "write");
    }
    return 0;
}

static int answer_ignored(struct group *g, struct item *it, const struct sftp_packet *p,
                          struct err *e)
{
    (void)g, (void)it, (void)p, (void)e;
    return 0;
}

static bool ask_close(struct group *g, struct item *it)
{
    if (!it->is_open) {
        return false;
    }
    it->is_open = false;
    it->id = sftp_begin(g->job.sftp, SFTP_CLOSE);
    sftp_text(g->job.sftp, it->handle);
    return true;
}

static void add_attrs(struct sftp *s, const struct tree_entry *x)
{
    int64_t seconds = tree_timespec(x->mtime_ns).tv_sec;
    uint32_t time = seconds < 0 ? 0 : seconds > UINT32_MAX ? UINT32_MAX : (uint32_t)seconds;
    sftp_u32(s, ATTR_MODE | ATTR_TIMES);
    sftp_u32(s, x->mode & 0777);
    sftp_u32(s, time);
    sftp_u32(s, time);
}

/* ---- put ----------------------------------------------------------------------------------------- */

struct putting {
    struct group g;
    const struct tree_source *from;
    struct put_result *result;
    struct tree_entry *later; /* modes and times of folders, and of files that are right */
    size_t n_later, cap_later;
    struct arena names; /* of those */
};

static bool ask_make(struct group *g, struct item *it)
{
    struct sftp *s = g->job.sftp;
    char random[17];
    id_hex(random, 8);
    it->temp = path_join(&g->arena, path_dir(it->full),
                         arena_printf(&g->arena, TREE_TEMP_PREFIX "%s", random));
    if (it->entry.type == TREE_LINK) {
        it->id = sftp_begin(s, SFTP_SYMLINK);
        sftp_text(s, it->entry.target); /* this order is OpenSSH's, which all others follow */
        sftp_text(s, it->temp);
        return true;
    }
    it->id = sftp_begin(s, SFTP_OPEN);
    sftp_text(s, it->temp);
    sftp_u32(s, OPEN_TEMP);
    sftp_u32(s, ATTR_MODE);
    sftp_u32(s, 0600);
    return true;
}

static int answer_make(struct group *g, struct item *it, const struct sftp_packet *p, struct err *e)
{
    return it->entry.type == TREE_LINK ? answer_status(g, it, p, e) : answer_handle(g, it, p, e);
}

static bool ask_attrs(struct group *g, struct item *it)
{
    if (!it->is_open) {
        return false;
    }
    it->id = sftp_begin(g->job.sftp, SFTP_FSETSTAT);
    sftp_text(g->job.sftp, it->handle);
    add_attrs(g->job.sftp, &it->entry);
    return true;
}

static bool ask_rename(struct group *g, struct item *it)
{
    struct sftp *s = g->job.sftp;
    it->id = sftp_begin(s, s->has_posix_rename ? SFTP_EXTENDED : SFTP_RENAME);
    if (s->has_posix_rename) {
        sftp_text(s, S("posix-rename@openssh.com"));
    }
    sftp_text(s, it->temp);
    sftp_text(s, it->full);
    return true;
}

static bool ask_remove_temp(struct group *g, struct item *it)
{
    if (it->temp.len == 0) {
        return false;
    }
    it->id = sftp_begin(g->job.sftp, SFTP_REMOVE);
    sftp_text(g->job.sftp, it->temp);
    return true;
}

/* One answer to a WRITE; -1 when there is none. */
static int take_write(struct group *g, struct item *it, struct err *e)
{
    struct sftp_packet p;
    if (sftp_get(g->job.sftp, g->job.ctx, &p, e) < 0) {
        return -1;
    }
    if (sftp_status_of(&p) != SFTP_OK) {
        item_failed(it, &p, "write");
    }
    return 0;
}

/* The next block of an item: as read(). */
static ssize_t next_block(struct putting *p, struct item *it, uint64_t at, char *to, bool *skip,
                          struct err *e)
{
    if (it->is_large) {
        return p->from->read(p->from->arg, to, SFTP_BLOCK, skip, e);
    }
    struct str rest = str_head(str_skip(buf_str(&it->bytes), (size_t)at), SFTP_BLOCK);
    if (rest.len > 0) {
        memcpy(to, rest.p, rest.len);
    }
    return (ssize_t)rest.len;
}

static int send_block(struct putting *p, const struct item *it, uint64_t at, struct str bytes,
                      struct err *e)
{
    struct sftp *s = p->g.job.sftp;
    (void)sftp_begin(s, SFTP_WRITE);
    sftp_text(s, it->handle);
    sftp_u64(s, at);
    sftp_text(s, bytes);
    return sftp_send(s, p->g.job.ctx, e);
}

/* Its contents, to the end or to the first refusal. All answers have come when it returns, or the
 * conversation is broken. */
static int write_blocks(struct putting *p, struct item *it, char *block, struct err *e)
{
    unsigned owed = 0;
    int rc = 0;
    it->entry.size = 0;
    while (rc == 0 && !it->has_failed) {
        bool skip = false;
        ssize_t n = next_block(p, it, it->entry.size, block, &skip, e);
        if (n < 0) {
            it->has_failed = true;
            it->why = *e;
            rc = skip ? 0 : -1;
        }
        if (n <= 0) {
            it->is_large = false; /* there is no more to read */
            break;
        }
        rc = send_block(p, it, it->entry.size, (struct str){block, (size_t)n}, e);
        it->entry.size += (uint64_t)n;
        owed++;
        if (rc == 0 && owed == AHEAD) {
            owed--;
            rc = take_write(&p->g, it, e);
        }
    }
    struct err ignored;
    while (owed > 0 && take_write(&p->g, it, rc == 0 ? e : &ignored) == 0) {
        owed--;
    }
    p->g.job.sftp->is_broken = p->g.job.sftp->is_broken || owed > 0;
    return owed > 0 ? -1 : rc;
}

static int write_item(struct putting *p, struct item *it, char *block, struct err *e)
{
    bool was_well = !it->has_failed;
    if (write_blocks(p, it, block, e) < 0) {
        return -1;
    }
    /* A server that takes no more bytes of a file that it let us open has one reason. */
    if (was_well && it->has_failed && it->why.kind == ERR_SYSTEM && it->is_open) {
        return err_set(e, ERR_LIMIT,
                       "\"%.*s\": the host took no more bytes; no space left there, or the "
                       "user's quota is reached",
                       STR_ARG(str_head(it->entry.path, 300)));
    }
    /* What could not even be opened is read to its end all the same: the next one follows. */
    for (bool skip = false; it->is_large && it->has_failed && !skip;) {
        ssize_t n = p->from->read(p->from->arg, block, SFTP_BLOCK, &skip, e);
        if (n <= 0) {
            return n < 0 && !skip ? -1 : 0;
        }
    }
    return 0;
}

/* Counts what a group brought. */
static void settle(struct putting *p)
{
    struct put_result *r = p->result;
    for (size_t i = 0; i < p->g.n; i++) {
        const struct item *it = &p->g.items[i];
        if (it->has_failed) {
            if (r->skipped++ == 0) {
                r->first_skipped =
                    arena_printf(p->g.job.ctx->arena, "%.*s: %s",
                                 STR_ARG(str_head(it->entry.path, 300)), it->why.msg);
            }
        } else if (it->entry.type == TREE_LINK) {
            r->links++;
        } else {
            r->files++;
            r->bytes += it->entry.size;
        }
    }
}

static int write_all(struct putting *p, struct err *e)
{
    char *block own_mem = xmalloc(SFTP_BLOCK);
    for (size_t i = 0; i < p->g.n; i++) {
        struct item *it = &p->g.items[i];
        bool has_bytes = it->entry.type == TREE_FILE && (it->is_open || it->is_large);
        if (has_bytes && write_item(p, it, block, e) < 0) {
            return -1;
        }
    }
    return 0;
}

/* Of what could not be finished nothing is left. */
static int clean_up(struct group *g, struct err *e)
{
    return ask_all(g, FAILED, ask_close, answer_ignored, e) < 0
               ? -1
               : ask_all(g, FAILED, ask_remove_temp, answer_ignored, e);
}

static int put_files(struct putting *p, struct err *e)
{
    struct group *g = &p->g;
    if (ask_all(g, WELL, ask_make, answer_make, e) < 0 || write_all(p, e) < 0 ||
        ask_all(g, WELL, ask_attrs, answer_status, e) < 0 ||
        ask_all(g, WELL, ask_close, answer_status, e) < 0 ||
        ask_all(g, WELL, ask_rename, answer_status, e) < 0) {
        return -1;
    }
    settle(p);
    return clean_up(g, e);
}

/* Sends the group that was collected. */
static int put_group(struct putting *p, struct err *e)
{
    struct group *g = &p->g;
    int rc = g->n > 0 ? put_files(p, e) : 0;
    if (rc < 0 && !g->job.sftp->is_broken) {
        struct err ignored;
        for (size_t i = 0; i < g->n; i++) {
            g->items[i].has_failed = true;
        }
        (void)!clean_up(g, &ignored);
    }
    group_clear(g);
    return rc;
}

/* ---- folders ------------------------------------------------------------------------------------- */

/* A link or a file in the way is replaced. */
static int put_folder(struct putting *p, struct str path, struct err *e)
{
    struct file_job *j = &p->g.job;
    struct file_info is;
    struct err why = {0};
    struct str full = full_path(&p->g, path);
    bool is_there = file_look(j, SFTP_LSTAT, full, &is, &why) == 0;
    if (is_there && is.type == FILE_DIR) {
        return 0;
    }
    if (!is_there && why.kind != ERR_NOT_FOUND) {
        *e = why;
        return -1;
    }
    if (is_there && file_simple(j, SFTP_REMOVE, full, "replace", e) < 0) {
        return -1;
    }
    p->result->dirs++;
    return file_simple(j, SFTP_MKDIR, full, "make", e);
}

static void put_later(struct putting *p, const struct tree_entry *x)
{
    if (p->n_later == p->cap_later) {
        p->cap_later = p->cap_later > 0 ? 2 * p->cap_later : 64;
        p->later = xrealloc(p->later, p->cap_later, sizeof *p->later);
    }
    p->later[p->n_later] = *x;
    p->later[p->n_later++].path = arena_str(&p->names, x->path);
}

static bool ask_setstat(struct group *g, struct item *it)
{
    it->id = sftp_begin(g->job.sftp, SFTP_SETSTAT);
    sftp_text(g->job.sftp, it->full);
    add_attrs(g->job.sftp, &it->entry);
    return true;
}

/* Contents first, the deepest folder first. */
static int put_meta(struct putting *p, struct err *e)
{
    struct group *g = &p->g;
    while (p->n_later > 0) {
        struct item *it = &g->items[g->n++];
        it->entry = p->later[--p->n_later];
        it->full = full_path(g, it->entry.path);
        if (g->n == GROUP || p->n_later == 0) {
            if (ask_all(g, WELL, ask_setstat, answer_ignored, e) < 0) {
                return -1;
            }
            group_clear(g);
        }
    }
    return 0;
}

/* ---- the sequence -------------------------------------------------------------------------------- */

static int read_small(struct putting *p, struct item *it, struct err *e)
{
    for (;;) {
        char *to = buf_room(&it->bytes, 1);
        bool skip = false;
        if (to == NULL) {
            /* It has grown: the rest will come with its next sync. */
            char dropped;
            ssize_t n = p->from->read(p->from->arg, &dropped, 1, &skip, e);
            return n < 0 && !skip ? -1 : 0;
        }
        size_t cap = SMALL - it->bytes.len;
        to = buf_room(&it->bytes, cap);
        ssize_t n = p->from->read(p->from->arg, to, cap, &skip, e);
        if (n < 0 && !skip) {
            return -1;
        }
        if (n < 0) {
            it->has_failed = true;
            it->why = *e;
        }
        if (n <= 0) {
            return 0;
        }
        it->bytes.len += (size_t)n;
    }
}

static int add_item(struct putting *p, const struct tree_entry *x, struct err *e)
{
    struct item *it = &p->g.items[p->g.n++];
    it->entry = *x;
    it->entry.path = arena_str(&p->g.arena, x->path);
    it->entry.target = arena_str(&p->g.arena, x->target);
    it->full = full_path(&p->g, it->entry.path);
    it->is_large = x->type == TREE_FILE && x->size >= SMALL;
    if (x->type == TREE_FILE && !it->is_large && read_small(p, it, e) < 0) {
        return -1;
    }
    return it->is_large || p->g.n == GROUP ? put_group(p, e) : 0;
}

static int put_entry(struct putting *p, const struct tree_entry *x, struct err *e)
{
    if (x->type == TREE_FILE && !x->meta_only) {
        return add_item(p, x, e);
    }
    if (x->type == TREE_LINK) {
        return add_item(p, x, e);
    }
    if (x->type == TREE_DIR) {
        put_later(p, x);
        return x->path.len == 0 ? 0 : put_folder(p, x->path, e);
    }
    if (x->meta_only) {
        put_later(p, x);
    }
    return 0;
}

static int put_all(struct putting *p, struct err *e)
{
    struct tree_entry x;
    int got = 1;
    if (file_make_folders(&p->g.job, p->g.root, e) < 0) {
        return -1;
    }
    while (got > 0) {
        got = p->from->next(p->from->arg, &x, e);
        if (got < 0 || (got > 0 && put_entry(p, &x, e) < 0)) {
            return -1;
        }
    }
    return put_group(p, e) < 0 ? -1 : put_meta(p, e);
}

int sftp_tree_put(struct box *b, const struct ctx *ctx, struct str root,
                  const struct tree_source *from, struct put_result *out, struct err *e)
{
    struct putting *p own_mem = xcalloc(1, sizeof *p);
    p->from = from;
    p->result = out;
    *out = (struct put_result){0};
    arena_init(&p->names, (size_t)1 << 30);
    int rc = begin(&p->g, b, ctx, root, e) < 0 ? -1 : put_all(p, e);
    group_fini(&p->g);
    arena_fini(&p->names);
    free(p->later);
    return rc;
}

/* ---- get ------------------------------------------------------------------------------------------ */

static bool ask_lstat(struct group *g, struct item *it)
{
    it->id = sftp_begin(g->job.sftp, SFTP_LSTAT);
    sftp_text(g->job.sftp, it->full);
    return true;
}

static enum tree_type type_of(enum file_type type)
{
    switch (type) {
    case FILE_REGULAR: return TREE_FILE;
    case FILE_DIR: return TREE_DIR;
    case FILE_SYMLINK: return TREE_LINK;
    case FILE_OTHER: break;
    }
    return TREE_OTHER;
}

static int answer_lstat(struct group *g, struct item *it, const struct sftp_packet *p,
                        struct err *e)
{
    struct sftp_in in = {.rest = p->body};
    struct file_info is = {0};
    if (p->type != SFTP_ATTRS) {
        item_failed(it, p, "read");
        return 0;
    }
    sftp_get_attrs(&in, &is);
    it->entry.type = type_of(is.type);
    it->entry.mode = is.mode & 0777;
    it->entry.size = is.type == FILE_REGULAR ? (uint64_t)is.size : 0;
    it->entry.mtime_ns = is.mtime_s * 1000000000;
    return in.bad ? sftp_bad(g->job.sftp, e) : 0;
}

static bool ask_content(struct group *g, struct item *it)
{
    struct sftp *s = g->job.sftp;
    if (it->entry.type == TREE_LINK) {
        it->id = sftp_begin(s, SFTP_READLINK);
        sftp_text(s, it->full);
        return true;
    }
    if (it->entry.type != TREE_FILE) {
        return false;
    }
    it->id = sftp_begin(s, SFTP_OPEN);
    sftp_text(s, it->full);
    sftp_u32(s, SFTP_OPEN_READ);
    sftp_u32(s, 0);
    return true;
}

static int answer_link(struct group *g, struct item *it, const struct sftp_packet *p, struct err *e)
{
    struct sftp_in in = {.rest = p->body};
    if (p->type != SFTP_NAME || sftp_get_u32(&in) != 1) {
        item_failed(it, p, "read");
        return 0;
    }
    struct str target = sftp_get_text(&in);
    if (in.bad || target.len == 0 || target.len > TREE_PATH_MAX || str_has(target, '\0')) {
        return sftp_bad(g->job.sftp, e);
    }
    it->entry.target = arena_str(&g->arena, target);
    return 0;
}

static int answer_content(struct group *g, struct item *it, const struct sftp_packet *p,
                          struct err *e)
{
    return it->entry.type == TREE_LINK ? answer_link(g, it, p, e) : answer_handle(g, it, p, e);
}

/* The first block of each. */
static bool ask_read(struct group *g, struct item *it)
{
    if (!it->is_open || it->entry.size == 0 || it->entry.size > SFTP_BLOCK) {
        return false;
    }
    it->id = sftp_begin(g->job.sftp, SFTP_READ);
    sftp_text(g->job.sftp, it->handle);
    sftp_u64(g->job.sftp, 0);
    sftp_u32(g->job.sftp, (uint32_t)it->entry.size);
    return true;
}

static int answer_read(struct group *g, struct item *it, const struct sftp_packet *p, struct err *e)
{
    struct sftp_in in = {.rest = p->body};
    if (p->type == SFTP_STATUS) {
        if (sftp_status_of(p) != SFTP_EOF) {
            item_failed(it, p, "read");
        }
        return 0;
    }
    struct str bytes = sftp_get_text(&in);
    if (in.bad || bytes.len > it->entry.size) {
        return sftp_bad(g->job.sftp, e);
    }
    buf_add(&it->bytes, bytes);
    return 0;
}

struct getting {
    struct group g;
    const struct tree_sink *to;
    struct box *box;
};

/* A larger one is read by itself, with many requests under way. */
static int large_bytes(void *arg, enum stream from, struct str bytes, struct err *e)
{
    const struct tree_sink *to = arg;
    (void)from;
    return to->data(to->arg, bytes, e);
}

static int give_large(struct getting *t, struct item *it, struct err *e)
{
    struct sink sink = {.write = large_bytes, .arg = (void *)(uintptr_t)t->to};
    struct file_info is = {0};
    struct err why = {0};
    int rc = ssh_files_plain.read(t->box, t->g.job.ctx, it->full, 0, (int64_t)it->entry.size, &sink,
                                  &is, &why);
    if (rc < 0 && why.kind != ERR_NOT_FOUND && why.kind != ERR_DENIED) {
        *e = why;
        return -1;
    }
    bool is_whole = rc == 0 && (uint64_t)is.size >= it->entry.size;
    return t->to->done(t->to->arg, is_whole,
                       is_whole ? STR_EMPTY : S("it became shorter while it was read"), e);
}

static int give_item(struct getting *t, struct item *it, struct err *e)
{
    const struct tree_sink *to = t->to;
    if (it->has_failed) {
        it->entry = (struct tree_entry){.path = it->entry.path};
    }
    if (to->entry(to->arg, &it->entry, e) < 0) {
        return -1;
    }
    if (it->has_failed) {
        return to->done(to->arg, false, str_from(it->why.msg), e);
    }
    if (it->entry.type != TREE_FILE) {
        return 0;
    }
    if (it->entry.size > SFTP_BLOCK) {
        return give_large(t, it, e);
    }
    bool is_whole = it->bytes.len == it->entry.size;
    if (it->bytes.len > 0 && to->data(to->arg, buf_str(&it->bytes), e) < 0) {
        return -1;
    }
    return to->done(to->arg, is_whole,
                    is_whole ? STR_EMPTY : S("it became shorter while it was read"), e);
}

static int get_group(struct getting *t, struct err *e)
{
    struct group *g = &t->g;
    if (ask_all(g, WELL, ask_lstat, answer_lstat, e) < 0 ||
        ask_all(g, WELL, ask_content, answer_content, e) < 0 ||
        ask_all(g, WELL, ask_read, answer_read, e) < 0 ||
        ask_all(g, WELL, ask_close, answer_ignored, e) < 0 ||
        ask_all(g, FAILED, ask_close, answer_ignored, e) < 0) {
        return -1;
    }
    for (size_t i = 0; i < g->n; i++) {
        if (give_item(t, &g->items[i], e) < 0) {
            return -1;
        }
    }
    group_clear(g);
    return 0;
}

static void add_path(struct group *g, struct str path)
{
    struct item *it = &g->items[g->n++];
    it->entry.path = path;
    it->full = full_path(g, path);
}

int sftp_tree_get(struct box *b, const struct ctx *ctx, struct str root, const struct str *paths,
                  size_t n, const struct tree_sink *to, struct err *e)
{
    struct getting *t own_mem = xcalloc(1, sizeof *t);
    t->to = to;
    t->box = b;
    int rc = begin(&t->g, b, ctx, root, e);
    for (size_t i = 0; i < n && rc == 0; i++) {
        add_path(&t->g, paths[i]);
        if (t->g.n == GROUP || i + 1 == n) {
            rc = get_group(t, e);
        }
    }
    group_fini(&t->g);
    return rc;
}

/* ---- links of a listing, and removing ---------------------------------------------------------------- */

int sftp_tree_links(struct box *b, const struct ctx *ctx, struct str root,
                    struct tree_entry *entries, size_t n, struct arena *names, struct err *e)
{
    struct group *g own_mem = xcalloc(1, sizeof *g);
    struct tree_entry *asked[GROUP];
    int rc = begin(g, b, ctx, root, e);
    for (size_t i = 0; i < n && rc == 0; i++) {
        if (entries[i].type == TREE_LINK) {
            asked[g->n] = &entries[i];
            add_path(g, entries[i].path);
            g->items[g->n - 1].entry.type = TREE_LINK;
        }
        if (g->n == GROUP || (i + 1 == n && g->n > 0)) {
            rc = ask_all(g, WELL, ask_content, answer_content, e);
            for (size_t k = 0; k < g->n && rc == 0; k++) {
                asked[k]->target = arena_str(names, g->items[k].entry.target);
            }
            group_clear(g);
        }
    }
    group_fini(g);
    return rc;
}

static bool ask_remove(struct group *g, struct item *it)
{
    it->id = sftp_begin(g->job.sftp, it->entry.type == TREE_DIR ? SFTP_RMDIR : SFTP_REMOVE);
    sftp_text(g->job.sftp, it->full);
    return true;
}

/* What is gone is fine, and so is a folder that is not empty: it stays. */
static int count_removed(const struct group *g, struct prune_result *out, struct err *e)
{
    for (size_t i = 0; i < g->n; i++) {
        const struct item *it = &g->items[i];
        bool is_dir = it->entry.type == TREE_DIR;
        if (!it->has_failed) {
            out->dirs += is_dir ? 1 : 0;
            out->files += is_dir ? 0 : 1;
        } else if (it->why.kind != ERR_NOT_FOUND && !(is_dir && it->why.kind == ERR_SYSTEM)) {
            *e = it->why;
            return -1;
        }
    }
    return 0;
}

int sftp_tree_prune(struct box *b, const struct ctx *ctx, struct str root, const struct str *paths,
                    size_t n, struct prune_result *out, struct err *e)
{
    struct group *g own_mem = xcalloc(1, sizeof *g);
    *out = (struct prune_result){0};
    int rc = begin(g, b, ctx, root, e);
    for (size_t i = n; i-- > 0 && rc == 0;) {
        add_path(g, paths[i]);
        if (g->n < GROUP && i > 0) {
            continue;
        }
        /* A server answers in the order of the questions: a folder comes after its contents. */
        rc = ask_all(g, WELL, ask_lstat, answer_lstat, e) < 0 ||
                     ask_all(g, WELL, ask_remove, answer_status, e) < 0
                 ? -1
                 : count_removed(g, out, e);
        group_clear(g);
    }
    group_fini(g);
    return rc;
}
