/*
 * send.c - local files as a source of entries that the box pulls.
 *
 * What is told of a file is what it is when it is opened, not what the plan says; what it grows
 * by while it is read is left for the next sync, which sees by its mtime that it changed. One
 * that has vanished or become something else meanwhile is passed over and told.
 */
#include <fcntl.h>
#include <string.h>

#include "base/alloc.h"
#include "sync/apply.h"
#include "tree/read.h"

#define LARGE_FILE ((uint64_t)32 << 20) /* see provider/agent_parts.h */
#define DIR_RIGHTS (S_IRUSR | S_IXUSR)  /* without which nobody comes into a folder */

struct sending {
    struct work *work;
    struct seq_reader steps;
    enum tree_share share; /* only these */
    struct tree_reader *files;
    bool in_file;
    uint64_t size, left; /* of it */
    uint64_t dirs;       /* to make, as far as the box took them */
};

static bool open_file(struct sending *s, struct tree_entry *entry)
{
    struct work *w = s->work;
    struct str path = entry->path;
    struct err why;

    if (tree_reader_open(s->files, w->plan->is_file ? w->plan->local_name : path, entry, &why) <
        0) {
        work_failed(w, path,
                    why.kind == ERR_NOT_FOUND ? S("it vanished meanwhile") : str_from(why.msg));
        return false;
    }
    if (entry->type != TREE_FILE) {
        work_failed(w, path, S("it is no file any more"));
        return false;
    }
    entry->path = path;
    s->size = s->left = entry->size;
    return true;
}

static bool is_of_share(const struct sending *s, const struct tree_entry *entry)
{
    return s->share == TREE_ALL || (s->share == TREE_FOLDERS) == (entry->type == TREE_DIR);
}

static int next(void *arg, struct tree_entry *out, struct err *e)
{
    struct sending *s = arg;
    struct work *w = s->work;
    unsigned tag;

    w->now.files += s->in_file ? 1 : 0;
    s->in_file = false;
    while (seq_next(&s->steps, out, &tag)) {
        bool has_contents = out->type == TREE_FILE && !out->meta_only;

        if (!is_of_share(s, out)) {
            continue;
        }
        if (has_contents && !open_file(s, out)) {
            w->now.files++;
            continue;
        }
        s->in_file = has_contents;
        s->dirs += tag == SYNC_MAKE_DIR ? 1 : 0;
        w->now.files += out->type == TREE_LINK ? 1 : 0;
        return work_tell(w, out->path, e) < 0 ? -1 : 1;
    }
    return 0;
}

static struct str present(const struct sending *s)
{
    return (struct str){s->steps.path, s->steps.path_len};
}

static ssize_t read_file(void *arg, char *to, size_t cap, bool *skip, struct err *e)
{
    struct sending *s = arg;
    ssize_t n =
        s->left == 0 ? 0 : tree_reader_read(s->files, to, cap < s->left ? cap : (size_t)s->left, e);

    if (n < 0) {
        *skip = true;
        return -1;
    }
    s->left -= (uint64_t)n;
    s->work->now.bytes += (uint64_t)n;
    return work_tell(s->work, present(s), e) < 0 ? -1 : n;
}

static uint64_t pass_hole(void *arg)
{
    struct sending *s = arg;
    uint64_t n = s->left == 0 ? 0 : tree_reader_hole(s->files);

    n = n < s->left ? n : s->left;
    s->left -= n;
    s->work->now.bytes += n;
    return n;
}

static int seek_file(void *arg, uint64_t offset, struct err *e)
{
    struct sending *s = arg;

    if (offset > s->size) {
        return err_set(e, ERR_BUG, "a part of a file lies behind its end");
    }
    s->work->now.bytes -= s->size - s->left;
    s->work->now.bytes += offset;
    s->left = s->size - offset;
    tree_reader_seek(s->files, offset);
    return 0;
}

/* `as` is what the box may take the share for. */
static int send_share(struct work *w, const struct seq *steps, enum tree_share share,
                      enum tree_share as, struct err *e)
{
    struct sending *s = xcalloc(1, sizeof(*s));
    struct tree_source source = {.next = next,
                                 .read = read_file,
                                 .hole = pass_hole,
                                 .seek = seek_file,
                                 .share = as,
                                 .arg = s};
    struct put_result put = {0};
    struct sync_counts *done = &w->result->done;
    int rc;

    s->work = w;
    s->share = share;
    s->files = tree_reader_new(w->root_fd);
    seq_read(&s->steps, steps);
    rc = box_tree_put(w->box, w->ctx, w->plan->remote_root, &source, &put, e);
    done->dirs += rc == 0 || s->dirs < put.dirs ? s->dirs : put.dirs;
    done->files += put.files;
    done->links += put.links;
    done->bytes += put.bytes;
    if (put.skipped > 0) {
        work_failed(w, STR_EMPTY, put.first_skipped);
        w->result->failed += put.skipped - 1;
    }
    tree_reader_free(s->files);
    free(s);
    return rc;
}

/* What decides whether it goes over several connections. */
struct shape {
    uint64_t bytes;
    bool has_folders;
    bool fits; /* no folder gets rights that keep those from it who write what is in it, and no
                * file is so large that it alone is worth them */
};

static struct shape shape_of(const struct seq *steps)
{
    struct seq_reader *r = xmalloc(sizeof(*r));
    struct shape shape = {.fits = true};
    struct tree_entry entry;

    seq_read(r, steps);
    while (seq_next(r, &entry, NULL)) {
        bool has_contents = entry.type == TREE_FILE && !entry.meta_only;
        bool is_dir = entry.type == TREE_DIR;

        shape.bytes += has_contents ? entry.size : 0;
        shape.has_folders = shape.has_folders || is_dir;
        shape.fits = shape.fits && (!is_dir || (entry.mode & DIR_RIGHTS) == DIR_RIGHTS) &&
                     (!has_contents || entry.size < LARGE_FILE);
    }
    free(r);
    return shape;
}

/* The folders first, so that what is in them can be written by several. When one of the
 * connections is lost, all of it goes over the first. */
static int send_split(struct work *w, const struct seq *steps, const struct shape *shape,
                      struct err *e)
{
    struct sync_progress before;
    struct sync_result result;

    if (shape->has_folders && send_share(w, steps, TREE_FOLDERS, TREE_FOLDERS, e) < 0) {
        return -1;
    }
    before = w->now;
    result = *w->result;
    if (send_share(w, steps, TREE_FILES, TREE_FILES, e) == 0) {
        return 0;
    }
    if (e->kind != ERR_UNREACHABLE) {
        return -1;
    }
    w->now = before;
    *w->result = result;
    return send_share(w, steps, TREE_FILES, TREE_ALL, e);
}

int send_steps(struct work *w, const struct seq *steps, struct err *e)
{
    struct shape shape = shape_of(steps);

    return !w->plan->is_file && shape.fits && box_tree_splits(w->box, shape.bytes)
               ? send_split(w, steps, &shape, e)
               : send_share(w, steps, TREE_ALL, TREE_ALL, e);
}
