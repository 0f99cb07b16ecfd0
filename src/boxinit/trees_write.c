/* trees_write.c - writing whole trees, and removing parts of them. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "boxinit/command.h"
#include "boxinit/trees.h"
#include "tree/apply.h"

/* ---- put ------------------------------------------------------------------------------------- */

struct putting {
    struct worker *w;
    struct apply_stats stats;
    struct buf skipped; /* the first of those */
};

static int note_skipped(void *arg, struct str path, struct str why, struct err *e)
{
    struct putting *p = arg;
    (void)e;
    if (p->stats.skipped++ == 0) {
        buf_addf(&p->skipped, "%.*s: %.*s", STR_ARG(str_head(path, ENTRIES_WHY)),
                 STR_ARG(str_head(why, ENTRIES_WHY)));
    }
    return 0;
}

/* The client waits for it. */
static int say_parts(void *arg, struct str temp, struct err *e)
{
    struct putting *p = arg;
    struct wire_out o = wire_begin(&p->w->out, FRAME_TREE_PARTS);
    wire_str(&o, temp);
    (void)!wire_end(&o);
    return worker_flush(p->w, e);
}

static void say_put(struct putting *p)
{
    struct wire_out o = wire_begin(&p->w->out, FRAME_PUT_IS);
    wire_u64(&o, p->stats.dirs);
    wire_u64(&o, p->stats.files);
    wire_u64(&o, p->stats.links);
    wire_u64(&o, p->stats.bytes);
    wire_u64(&o, p->stats.skipped);
    wire_str(&o, buf_str(&p->skipped));
    (void)!wire_end(&o);
}

static int take_blocks(struct worker *w, const struct tree_sink *to, struct entries_in *in,
                       struct err *e)
{
    for (;;) {
        struct request r;
        int more = trees_next(w, &r, e);
        if (more <= 0) {
            return more < 0 ? -1 : entries_end(in, e);
        }
        if (entries_read(in, r.bytes, r.unpacked, to, e) < 0 || trees_alive(w, e) < 0) {
            return -1;
        }
    }
}

/* The sentences of files for the reasons that a whole tree shares with one. */
static int in_words(const struct worker *w, const struct request *r, struct err *e)
{
    switch (e->sys) {
    case ENOSPC:
    case EDQUOT:
    case EROFS: return worker_fail(w, e->sys, r->path, "write to", e);
    default: return -1;
    }
}

static int write_tree(struct putting *p, int root, struct err *e)
{
    struct apply *a = apply_open(
        &(struct apply_req){.root_fd = root, .failed = note_skipped, .parts = say_parts, .arg = p});
    struct entries_in in;
    struct err ignored;
    entries_in_init(&in);
    in.any_order = true;
    int rc = take_blocks(p->w, apply_sink(a), &in, e);
    uint64_t skipped = p->stats.skipped;
    p->stats = *apply_stats(a);
    p->stats.skipped = skipped;
    if (apply_close(a, rc == 0, rc == 0 ? e : &ignored) < 0) {
        rc = -1;
    }
    entries_in_fini(&in);
    return rc;
}

static int open_target(struct worker *w, const struct request *r, int *out, struct err *e)
{
    const char *path = command_path(w->spec, &w->arena, r->path);
    int why = 0;
    if (fd_mkdirs(path, 0755, e) < 0) {
        why = e->kind == ERR_EXISTS ? EEXIST : e->sys != 0 ? e->sys : EINVAL;
    } else {
        *out = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        why = *out < 0 ? errno : 0;
    }
    if (why == EEXIST || why == ENOTDIR) {
        return err_set(e, ERR_INVALID, "\"%.*s\": a file is there, where a folder is meant",
                       STR_ARG(r->path));
    }
    return why != 0 ? worker_fail(w, why, r->path, "write to", e) : 0;
}

int trees_put(struct worker *w, const struct request *r, struct err *e)
{
    struct putting p = {.w = w};
    int root own_fd = -1;
    buf_init(&p.skipped, (size_t)3 * ENTRIES_WHY);
    int rc = open_target(w, r, &root, e);
    if (rc == 0) {
        rc = write_tree(&p, root, e);
        rc = rc < 0 ? in_words(w, r, e) : 0;
    }
    say_put(&p);
    buf_fini(&p.skipped);
    if (rc < 0) {
        return trees_refuse(w, e);
    }
    worker_put_ok(w, 0);
    return 0;
}

/* ---- prune ------------------------------------------------------------------------------------- */

static int remove_one(void *arg, const struct tree_entry *entry, struct err *e)
{
    (void)e;
    pruner_remove(arg, entry->path);
    return 0;
}

int trees_prune(struct worker *w, const struct request *r, struct err *e)
{
    const char *path = command_path(w->spec, &w->arena, r->path);
    int root own_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct prune_stats stats;
    struct entries_in in;
    struct err why;
    if (root < 0) {
        (void)worker_fail(w, errno, r->path, "remove from", e);
        return trees_refuse(w, e);
    }
    struct pruner *p = pruner_open(root);
    struct tree_sink named = {.entry = remove_one, .arg = p};
    entries_in_init(&in);
    in.any_order = true;
    in.list_only = true;
    int rc = take_blocks(w, &named, &in, e);
    entries_in_fini(&in);
    bool failed = pruner_close(p, &stats, &why) < 0;
    struct wire_out o = wire_begin(&w->out, FRAME_PRUNE_IS);
    wire_u64(&o, stats.files);
    wire_u64(&o, stats.dirs);
    wire_u64(&o, stats.kept_dirs);
    (void)!wire_end(&o);
    if (rc < 0) {
        return -1;
    }
    if (failed) {
        *e = why;
        return -1;
    }
    worker_put_ok(w, 0);
    return 0;
}
