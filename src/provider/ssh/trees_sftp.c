/*
 * Whole trees by SFTP alone, for hosts that have neither the agent nor GNU's tools: reading and
 * removing. Files go in groups (sftp_group.h).
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/own.h"
#include "provider/ssh/sftp_group.h"
#include "provider/ssh/trees.h"

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
    return it->entry.type == TREE_LINK ? answer_link(g, it, p, e)
                                       : group_answer_handle(g, it, p, e);
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
    const struct getting *t = arg;
    (void)from;
    return t->to->data(t->to->arg, bytes, e);
}

static int give_large(struct getting *t, struct item *it, struct err *e)
{
    struct sink sink = {.write = large_bytes, .arg = t};
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
    if (group_ask(g, WELL, ask_lstat, answer_lstat, e) < 0 ||
        group_ask(g, WELL, ask_content, answer_content, e) < 0 ||
        group_ask(g, WELL, ask_read, answer_read, e) < 0 ||
        group_ask(g, WELL, group_ask_close, group_answer_ignored, e) < 0 ||
        group_ask(g, FAILED, group_ask_close, group_answer_ignored, e) < 0) {
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

int sftp_tree_get(struct box *b, const struct ctx *ctx, struct str root, const struct str *paths,
                  size_t n, const struct tree_sink *to, struct err *e)
{
    struct getting *t own_mem = xcalloc(1, sizeof *t);
    t->to = to;
    t->box = b;
    int rc = group_begin(&t->g, b, ctx, root, e);
    for (size_t i = 0; i < n && rc == 0; i++) {
        group_add(&t->g, paths[i]);
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
    size_t asked[GROUP] = {0};
    int rc = group_begin(g, b, ctx, root, e);
    for (size_t i = 0; i < n && rc == 0; i++) {
        if (entries[i].type == TREE_LINK) {
            asked[g->n] = i;
            group_add(g, entries[i].path);
            g->items[g->n - 1].entry.type = TREE_LINK;
        }
        if (g->n == GROUP || (i + 1 == n && g->n > 0)) {
            rc = group_ask(g, WELL, ask_content, answer_content, e);
            for (size_t k = 0; k < g->n && rc == 0; k++) {
                entries[asked[k]].target = arena_str(names, g->items[k].entry.target);
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
    int rc = group_begin(g, b, ctx, root, e);
    for (size_t i = n; i-- > 0 && rc == 0;) {
        group_add(g, paths[i]);
        if (g->n < GROUP && i > 0) {
            continue;
        }
        /* A server answers in the order of the questions: a folder comes after its contents. */
        rc = group_ask(g, WELL, ask_lstat, answer_lstat, e) < 0 ||
                     group_ask(g, WELL, ask_remove, group_answer_status, e) < 0
                 ? -1
                 : count_removed(g, out, e);
        group_clear(g);
    }
    group_fini(g);
    return rc;
}
