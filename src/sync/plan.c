/* plan.c - two sorted sequences are merged in one pass; steps come out in their order. */
#include "sync/plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define NS_PER_S    1000000000
#define TOLERANCE_S 1
#define PLAN_ARENA  (1u << 20)

struct merge {
    const struct plan_req *req;
    struct sync_plan *plan;
    /* Below this folder of `to` everything is in the way, or stays. */
    char under[TREE_PATH_MAX];
    size_t under_len;
    enum { UNDER_NOTHING, UNDER_IN_WAY, UNDER_KEPT } under_what;
};

struct sync_plan *plan_new(enum sync_direction direction)
{
    struct sync_plan *p = xcalloc(1, sizeof(*p));

    p->direction = direction;
    arena_init(&p->arena, PLAN_ARENA);
    seq_init(&p->steps);
    seq_init(&p->in_way);
    seq_init(&p->extras);
    return p;
}

void sync_plan_free(struct sync_plan *p)
{
    if (p == NULL) {
        return;
    }
    seq_fini(&p->steps);
    seq_fini(&p->in_way);
    seq_fini(&p->extras);
    arena_fini(&p->arena);
    free(p);
}

/* ---- one difference ------------------------------------------------------------------------ */

static bool is_below(struct str path, struct str folder)
{
    return folder.len == 0 ||
           (path.len > folder.len && path.p[folder.len] == '/' && str_starts(path, folder));
}

static int64_t seconds(int64_t ns)
{
    return (ns / NS_PER_S) - (ns % NS_PER_S < 0 ? 1 : 0);
}

static bool same_time(int64_t a_ns, int64_t b_ns)
{
    return llabs(seconds(a_ns) - seconds(b_ns)) <= TOLERANCE_S;
}

static int add_step(struct merge *m, const struct tree_entry *entry, enum sync_action action,
                    struct err *e)
{
    struct sync_counts *c = &m->plan->counts;

    if (action == SYNC_SET_META) {
        c->metadata++;
    } else if (entry->type == TREE_DIR) {
        c->dirs++;
    } else if (entry->type == TREE_LINK) {
        c->links++;
    } else {
        c->files++;
        c->bytes += entry->size;
    }
    return seq_add(&m->plan->steps, entry, (unsigned)action, e);
}

static int add_new(struct merge *m, const struct tree_entry *from, enum sync_action action,
                   struct err *e)
{
    if (from->type == TREE_OTHER) {
        m->plan->counts.special++;
        return 0;
    }
    return add_step(m, from, from->type == TREE_DIR ? SYNC_MAKE_DIR : action, e);
}

static int add_removal(struct merge *m, struct seq *to, const struct tree_entry *entry,
                       struct err *e)
{
    if (entry->type == TREE_DIR) {
        m->plan->counts.delete_dirs++;
    } else {
        m->plan->counts.delete_files++;
    }
    return seq_add(to, entry, SYNC_DELETE, e);
}

static void set_under(struct merge *m, struct str path, int what)
{
    memcpy(m->under, path.p, path.len);
    m->under_len = path.len;
    m->under_what = what;
}

/* Only the destination has it. */
static int on_extra(struct merge *m, const struct tree_entry *to, struct err *e)
{
    bool is_dir = to->type == TREE_DIR;

    if (!is_below(to->path, (struct str){m->under, m->under_len})) {
        m->under_what = UNDER_NOTHING;
    }
    if (!m->req->delete_extras || m->under_what == UNDER_KEPT) {
        return 0;
    }
    if (m->req->keep != NULL && exclude_match(m->req->keep, to->path, is_dir)) {
        if (is_dir) {
            set_under(m, to->path, UNDER_KEPT);
        }
        return 0;
    }
    return add_removal(m, m->under_what == UNDER_IN_WAY ? &m->plan->in_way : &m->plan->extras, to,
                       e);
}

static bool same_contents(const struct merge *m, const struct tree_entry *a,
                          const struct tree_entry *b)
{
    if (a->size != b->size) {
        return false;
    }
    if (m->req->checksum) {
        return a->has_sum && b->has_sum && memcmp(a->sum, b->sum, TREE_SUM) == 0;
    }
    return same_time(a->mtime_ns, b->mtime_ns);
}

static int on_both_files(struct merge *m, const struct tree_entry *from,
                         const struct tree_entry *to, struct err *e)
{
    struct tree_entry meta = *from;

    if (!same_contents(m, from, to)) {
        return add_step(m, from, SYNC_SEND_CHANGED, e);
    }
    m->plan->counts.unchanged++;
    if (from->mode == to->mode && same_time(from->mtime_ns, to->mtime_ns)) {
        return 0;
    }
    meta.meta_only = true;
    return add_step(m, &meta, SYNC_SET_META, e);
}

/* The root keeps its own mode and mtime: it may be a home, which is nobody else's business. */
static int on_both_dirs(struct merge *m, const struct tree_entry *from, const struct tree_entry *to,
                        struct err *e)
{
    bool differs = from->mode != to->mode || !same_time(from->mtime_ns, to->mtime_ns);

    return differs && from->path.len > 0 ? add_step(m, from, SYNC_SET_META, e) : 0;
}

static int on_both(struct merge *m, const struct tree_entry *from, const struct tree_entry *to,
                   struct err *e)
{
    if (from->type == TREE_OTHER) {
        if (to->type == TREE_DIR) {
            set_under(m, to->path, UNDER_KEPT);
        }
        m->plan->counts.special++;
        return 0;
    }
    if (from->type == to->type && from->type == TREE_DIR) {
        return on_both_dirs(m, from, to, e);
    }
    if (from->type == to->type && from->type == TREE_FILE) {
        return on_both_files(m, from, to, e);
    }
    if (from->type == to->type && str_eq(from->target, to->target)) {
        m->plan->counts.unchanged++;
        return 0;
    }
    if (to->type == TREE_DIR) {
        set_under(m, to->path, UNDER_IN_WAY);
        if (m->req->delete_extras && add_removal(m, &m->plan->in_way, to, e) < 0) {
            return -1;
        }
    }
    return add_new(m, from, SYNC_SEND_CHANGED, e);
}

/* ---- the whole ------------------------------------------------------------------------------- */

static int merge_all(struct merge *m, struct seq_reader *a, struct seq_reader *b, struct err *e)
{
    struct tree_entry from;
    struct tree_entry to;
    bool has_from = seq_next(a, &from, NULL);
    bool has_to = seq_next(b, &to, NULL);

    while (has_from || has_to) {
        int order = !has_from ? 1 : !has_to ? -1 : tree_path_cmp(from.path, to.path);
        int rc = order == 0  ? on_both(m, &from, &to, e)
                 : order < 0 ? add_new(m, &from, SYNC_SEND_NEW, e)
                             : on_extra(m, &to, e);
        if (rc < 0) {
            return -1;
        }
        if (order <= 0) {
            has_from = seq_next(a, &from, NULL);
        }
        if (order >= 0) {
            has_to = seq_next(b, &to, NULL);
        }
    }
    return 0;
}

int plan_compare(struct sync_plan *p, const struct plan_req *req, struct err *e)
{
    struct seq_reader *readers = xcalloc(2, sizeof(*readers));
    struct merge *m = xcalloc(1, sizeof(*m));
    int rc;

    m->req = req;
    m->plan = p;
    seq_read(&readers[0], req->from);
    seq_read(&readers[1], req->to);
    rc = merge_all(m, &readers[0], &readers[1], e);
    free(m);
    free(readers);
    return rc;
}

/* ---- what a plan tells -------------------------------------------------------------------------- */

const struct sync_counts *sync_plan_counts(const struct sync_plan *p)
{
    return &p->counts;
}

bool sync_plan_is_file(const struct sync_plan *p)
{
    return p->is_file;
}

struct str sync_plan_remote(const struct sync_plan *p)
{
    return p->remote;
}

struct str sync_plan_local(const struct sync_plan *p)
{
    return p->local;
}

struct str sync_plan_held(const struct sync_plan *p)
{
    return p->held;
}

struct str sync_plan_unreadable(const struct sync_plan *p)
{
    return p->unreadable;
}

static int each_of(const struct seq *s, struct seq_reader *r, sync_step_fn *each, void *arg,
                   struct err *e)
{
    struct tree_entry entry;
    unsigned tag;

    seq_read(r, s);
    while (seq_next(r, &entry, &tag)) {
        if (each(arg, (enum sync_action)tag, &entry, e) < 0) {
            return -1;
        }
    }
    return 0;
}

int sync_plan_each(const struct sync_plan *p, sync_step_fn *each, void *arg, struct err *e)
{
    struct seq_reader *r = xmalloc(sizeof(*r));
    int rc = 0;

    if (each_of(&p->steps, r, each, arg, e) < 0 || each_of(&p->in_way, r, each, arg, e) < 0 ||
        each_of(&p->extras, r, each, arg, e) < 0) {
        rc = -1;
    }
    free(r);
    return rc;
}
