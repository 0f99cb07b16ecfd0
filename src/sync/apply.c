/*
 * apply.c - carries a plan out: what is in the way goes, then everything new in one stream,
 * then what is too much goes.
 */
#include "sync/apply.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/own.h"
#include "base/plain.h"
#include "sync/local.h"
#include "tree/apply.h"

#define PATHS_ARENA ((size_t)4 << 30)
#define WHY_MAX     400
#define FOLDER_MODE 0755

int work_tell(struct work *w, struct str path, struct err *e)
{
    if (w->progress == NULL) {
        return 0;
    }
    w->now.path = path;
    return w->progress(w->arg, &w->now, e);
}

void work_failed(struct work *w, struct str path, struct str why)
{
    struct sync_result *r = w->result;

    if (r->failed++ > 0) {
        return;
    }
    r->first_failed =
        path.len == 0 ? arena_str(w->ctx->arena, str_head(why, WHY_MAX))
                      : arena_printf(w->ctx->arena, "%.*s: %.*s", STR_ARG(str_head(path, WHY_MAX)),
                                     STR_ARG(str_head(why, WHY_MAX)));
}

void paths_of(struct path_list *out, const struct seq *s, bool contents_only)
{
    struct seq_reader *r = xmalloc(sizeof(*r));
    struct tree_entry entry;
    size_t cap = 0;

    *out = (struct path_list){0};
    arena_init(&out->arena, PATHS_ARENA);
    seq_read(r, s);
    while (seq_next(r, &entry, NULL)) {
        if (contents_only && (entry.type != TREE_FILE || entry.meta_only)) {
            continue;
        }
        if (out->n == cap) {
            cap = cap == 0 ? 64 : 2 * cap;
            out->items = xrealloc(out->items, cap, sizeof(*out->items));
        }
        out->items[out->n++] = arena_str(&out->arena, entry.path);
    }
    free(r);
}

void paths_fini(struct path_list *l)
{
    free(l->items);
    arena_fini(&l->arena);
}

static int apply_steps(struct work *w, const struct seq *steps, struct err *e)
{
    if (steps->n == 0) {
        return 0;
    }
    return w->plan->direction == SYNC_UP ? send_steps(w, steps, e) : fetch_steps(w, steps, e);
}

static int remove_all(struct work *w, const struct seq *extras, struct err *e)
{
    struct sync_counts *done = &w->result->done;
    struct path_list paths;
    int rc;

    if (extras->n == 0) {
        return 0;
    }
    w->now.phase = SYNC_PHASE_DELETE;
    if (work_tell(w, STR_EMPTY, e) < 0) {
        return -1;
    }
    paths_of(&paths, extras, false);
    if (w->plan->direction == SYNC_UP) {
        struct prune_result pruned = {0};

        rc = box_tree_prune(w->box, w->ctx, w->plan->remote_root, paths.items, paths.n, &pruned, e);
        done->delete_files += pruned.files;
        done->delete_dirs += pruned.dirs;
    } else {
        struct prune_stats pruned = {0};

        rc = tree_prune(w->root_fd, paths.items, paths.n, &pruned, e);
        done->delete_files += pruned.files;
        done->delete_dirs += pruned.dirs;
    }
    paths_fini(&paths);
    w->now.phase = SYNC_PHASE_SEND;
    return rc;
}

/* The folder that paths are below, here. It is made where files are fetched into it. */
static int open_root(const struct sync_plan *p, struct err *e)
{
    const char *root = p->local_root.p;
    int fd;

    if (p->direction == SYNC_DOWN && fd_mkdirs(root, FOLDER_MODE, e) < 0) {
        return -1;
    }
    fd = local_open(root, O_RDONLY | O_DIRECTORY);
    return fd < 0 ? err_sys(e, errno, "open %s", root) : fd;
}

static int apply_all(struct work *w, struct err *e)
{
    struct sync_plan *p = w->plan;

    if (remove_all(w, &p->in_way, e) < 0 || apply_steps(w, &p->steps, e) < 0 ||
        remove_all(w, &p->extras, e) < 0) {
        return -1;
    }
    w->now.phase = SYNC_PHASE_DONE;
    return work_tell(w, STR_EMPTY, e);
}

int sync_apply(struct sync_plan *p, struct box *b, const struct ctx *ctx,
               sync_progress_fn *progress, void *arg, struct sync_result *out, struct err *e)
{
    int root own_fd = -1;
    struct work w = {
        .plan = p,
        .box = b,
        .ctx = ctx,
        .progress = progress,
        .arg = arg,
        .now = {.files_total = p->counts.files + p->counts.links, .bytes_total = p->counts.bytes},
        .result = out,
    };

    *out = (struct sync_result){.done = {.unchanged = p->counts.unchanged,
                                         .metadata = p->counts.metadata,
                                         .excluded = p->counts.excluded,
                                         .unreadable = p->counts.unreadable,
                                         .special = p->counts.special}};
    if (p->steps.n + p->in_way.n + p->extras.n > 0) {
        root = open_root(p, e);
        if (root < 0) {
            return -1;
        }
    }
    w.root_fd = root;
    return apply_all(&w, e);
}
