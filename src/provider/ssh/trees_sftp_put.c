/*
 * The same for writing. A file is written under another name and renamed when it is whole; a larger
 * one ends its group and is read while it is sent.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/id.h"
#include "base/own.h"
#include "base/path.h"
#include "provider/ssh/sftp_group.h"
#include "provider/ssh/trees.h"
#include "tree/apply.h"

#define AHEAD      32 /* blocks under way */
#define ATTR_MODE  4
#define ATTR_TIMES 8
#define OPEN_TEMP  (SFTP_OPEN_WRITE | SFTP_OPEN_CREATE | SFTP_OPEN_EXCLUSIVE)

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
    return it->entry.type == TREE_LINK ? group_answer_status(g, it, p, e)
                                       : group_answer_handle(g, it, p, e);
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
    return group_ask(g, FAILED, group_ask_close, group_answer_ignored, e) < 0
               ? -1
               : group_ask(g, FAILED, ask_remove_temp, group_answer_ignored, e);
}

static int put_files(struct putting *p, struct err *e)
{
    struct group *g = &p->g;
    if (group_ask(g, WELL, ask_make, answer_make, e) < 0 || write_all(p, e) < 0 ||
        group_ask(g, WELL, ask_attrs, group_answer_status, e) < 0 ||
        group_ask(g, WELL, group_ask_close, group_answer_status, e) < 0 ||
        group_ask(g, WELL, ask_rename, group_answer_status, e) < 0) {
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
    struct str full = group_path(&p->g, path);
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
        it->full = group_path(g, it->entry.path);
        if (g->n == GROUP || p->n_later == 0) {
            if (group_ask(g, WELL, ask_setstat, group_answer_ignored, e) < 0) {
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
        size_t cap = GROUP_SMALL - it->bytes.len;
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
    it->full = group_path(&p->g, it->entry.path);
    it->is_large = x->type == TREE_FILE && x->size >= GROUP_SMALL;
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
    int rc = group_begin(&p->g, b, ctx, root, e) < 0 ? -1 : put_all(p, e);
    group_fini(&p->g);
    arena_fini(&p->names);
    free(p->later);
    return rc;
}
