/*
 * fetch.c - files of a box into a local folder.
 *
 * The box sends the files that were asked for, in their order, and nothing else: what is not
 * the next one of the plan ends it. Folders, links and modes come from the plan and are
 * written between them, in the plan's order. Files may have grown since they were listed, but
 * not without bounds: a box cannot fill the disk with what it did not announce.
 */
#include <fcntl.h>
#include <string.h>

#include "base/alloc.h"
#include "sync/apply.h"
#include "tree/apply.h"

#define MORE_MAX ((uint64_t)64 << 20) /* bytes beyond what was planned */

struct fetching {
    struct work *work;
    const struct tree_sink *sink; /* of the local folder */
    struct seq_reader reader;
    struct tree_entry step; /* the next one that is not done */
    unsigned tag;
    bool has_step;
    bool skips; /* this file is not wanted any more */
    uint64_t bytes_max;
};

static bool has_contents(const struct tree_entry *entry)
{
    return entry->type == TREE_FILE && !entry->meta_only;
}

static void advance(struct fetching *f)
{
    f->has_step = seq_next(&f->reader, &f->step, &f->tag);
}

/* Everything that comes before the next file. */
static int write_steps(struct fetching *f, struct err *e)
{
    while (f->has_step && !has_contents(&f->step)) {
        if (f->sink->entry(f->sink->arg, &f->step, e) < 0) {
            return -1;
        }
        f->work->result->done.dirs += f->tag == SYNC_MAKE_DIR ? 1 : 0;
        f->work->now.files += f->step.type == TREE_LINK ? 1 : 0;
        advance(f);
    }
    return 0;
}

/* The name in the box and the name here differ only where there is one file. */
static bool is_expected(const struct fetching *f, struct str path)
{
    const struct sync_plan *p = f->work->plan;

    return f->has_step && str_eq(path, p->is_file ? p->remote_name : f->step.path);
}

static int on_entry(void *arg, const struct tree_entry *entry, struct err *e)
{
    struct fetching *f = arg;
    struct tree_entry here = *entry;

    if (write_steps(f, e) < 0) {
        return -1;
    }
    if (!is_expected(f, entry->path)) {
        return err_set(e, ERR_PROTOCOL, "the sandbox sent a file that was not asked for");
    }
    here.path = f->step.path;
    here.meta_only = false;
    f->skips = entry->type != TREE_FILE;
    if (f->skips) {
        f->work->now.files++;
        work_failed(f->work, here.path, S("it is no file any more"));
        advance(f);
        return 0;
    }
    if (work_tell(f->work, here.path, e) < 0) {
        return -1;
    }
    return f->sink->entry(f->sink->arg, &here, e);
}

static int count(struct fetching *f, uint64_t n, struct err *e)
{
    struct work *w = f->work;

    if (n > f->bytes_max - w->now.bytes) {
        return err_set(e, ERR_PROTOCOL, "the sandbox sent much more than it had announced");
    }
    w->now.bytes += n;
    return work_tell(w, f->step.path, e);
}

static int on_data(void *arg, struct str bytes, struct err *e)
{
    struct fetching *f = arg;

    if (f->skips) {
        return 0;
    }
    return count(f, bytes.len, e) < 0 ? -1 : f->sink->data(f->sink->arg, bytes, e);
}

static int on_hole(void *arg, uint64_t n, struct err *e)
{
    struct fetching *f = arg;

    if (f->skips) {
        return 0;
    }
    return count(f, n, e) < 0 ? -1 : f->sink->hole(f->sink->arg, n, e);
}

static int on_at(void *arg, uint64_t offset, struct err *e)
{
    struct fetching *f = arg;

    return f->skips ? 0 : f->sink->at(f->sink->arg, offset, e);
}

static int on_done(void *arg, bool ok, struct str why, struct err *e)
{
    struct fetching *f = arg;
    struct work *w = f->work;

    if (f->skips) {
        f->skips = false;
        return 0;
    }
    if (f->sink->done(f->sink->arg, ok, why, e) < 0) {
        return -1;
    }
    w->now.files++;
    advance(f);
    return 0;
}

static int on_local_failure(void *arg, struct str path, struct str why, struct err *e)
{
    (void)e;
    work_failed(arg, path, why);
    return 0;
}

static int fetch_files(struct fetching *f, const struct seq *steps, struct err *e)
{
    struct work *w = f->work;
    struct tree_sink sink = {.entry = on_entry,
                             .data = on_data,
                             .hole = on_hole,
                             .at = on_at,
                             .done = on_done,
                             .arg = f};
    struct path_list paths;
    int rc = 0;

    paths_of(&paths, steps, true);
    if (w->plan->is_file && paths.n == 1) {
        paths.items[0] = w->plan->remote_name;
    }
    if (paths.n > 0) {
        rc = box_tree_get(w->box, w->ctx, w->plan->remote_root, paths.items, paths.n, &sink, e);
    }
    paths_fini(&paths);
    if (rc == 0 && write_steps(f, e) < 0) {
        return -1;
    }
    if (rc == 0 && f->has_step) {
        return err_set(e, ERR_PROTOCOL, "the sandbox did not send all files that were asked for");
    }
    return rc;
}

int fetch_steps(struct work *w, const struct seq *steps, struct err *e)
{
    struct fetching *f = xcalloc(1, sizeof(*f));
    struct apply_req req = {.root_fd = w->root_fd, .failed = on_local_failure, .arg = w};
    struct apply *a = apply_open(&req);
    struct sync_counts *done = &w->result->done;
    struct err closing;
    int rc;

    f->work = w;
    f->sink = apply_sink(a);
    f->bytes_max = w->now.bytes_total + MORE_MAX;
    seq_read(&f->reader, steps);
    advance(f);
    rc = fetch_files(f, steps, e);
    done->files += apply_stats(a)->files;
    done->links += apply_stats(a)->links;
    done->bytes += apply_stats(a)->bytes;
    if (apply_close(a, rc == 0, rc == 0 ? e : &closing) < 0) {
        rc = -1;
    }
    free(f);
    return rc;
}
