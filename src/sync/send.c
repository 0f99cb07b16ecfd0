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

struct sending {
    struct work *work;
    struct seq_reader steps;
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

static int next(void *arg, struct tree_entry *out, struct err *e)
{
    struct sending *s = arg;
    struct work *w = s->work;
    unsigned tag;

    w->now.files += s->in_file ? 1 : 0;
    s->in_file = false;
    while (seq_next(&s->steps, out, &tag)) {
        bool has_contents = out->type == TREE_FILE && !out->meta_only;

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

int send_steps(struct work *w, const struct seq *steps, struct err *e)
{
    struct sending *s = xcalloc(1, sizeof(*s));
    struct tree_source source = {
        .next = next, .read = read_file, .hole = pass_hole, .seek = seek_file, .arg = s};
    struct put_result put = {0};
    struct sync_counts *done = &w->result->done;
    int rc;

    s->work = w;
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
