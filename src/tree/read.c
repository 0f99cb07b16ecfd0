#include "tree/read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/own.h"
#include "tree/dirs.h"

#define HOLE_MIN (64u << 10) /* smaller files and shorter holes are not worth a question */

struct tree_reader {
    struct dirs dirs;
    int fd; /* -1: no file is open */
    bool borrowed;
    bool sparse;
    uint64_t at, size;
    uint64_t data_end; /* up to here nothing is a hole */
    char target[TREE_PATH_MAX + 1];
};

struct tree_reader *tree_reader_new(int root_fd)
{
    struct tree_reader *r = xcalloc(1, sizeof *r);
    r->fd = -1;
    dirs_init(&r->dirs, root_fd);
    return r;
}

static void close_file(struct tree_reader *r)
{
    if (r->fd >= 0 && !r->borrowed) {
        (void)close(r->fd);
    }
    r->fd = -1;
    r->borrowed = false;
}

void tree_reader_free(struct tree_reader *r)
{
    if (r == NULL) {
        return;
    }
    close_file(r);
    dirs_fini(&r->dirs);
    free(r);
}

static int cannot_read(struct str path, int errnum, struct err *e)
{
    if (errnum == ENOTDIR || errnum == ELOOP) {
        errnum = ENOENT; /* what was there when it was listed is gone */
    }
    return err_sys(e, errnum, "read \"%.*s\"", STR_ARG(str_head(path, 300)));
}

static void opened(struct tree_reader *r, const struct stat *is)
{
    r->at = 0;
    r->data_end = 0;
    r->size = (uint64_t)is->st_size;
    r->sparse = r->size >= HOLE_MIN && (uint64_t)is->st_blocks * 512 < r->size;
}

/* -1 with errno. */
static int open_named(struct tree_reader *r, const char *name, struct tree_entry *out)
{
    int dir = dirs_fd(&r->dirs);
    struct stat is;
    if (dir < 0) {
        return -1;
    }
    r->fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (r->fd < 0 && errno != ELOOP && errno != ENXIO && errno != EACCES) {
        return -1;
    }
    int why = errno;
    if (r->fd >= 0 ? fstat(r->fd, &is) < 0 : fstatat(dir, name, &is, AT_SYMLINK_NOFOLLOW) < 0) {
        return -1;
    }
    tree_entry_from(out, &is);
    if (out->type == TREE_FILE) {
        errno = why;
        opened(r, &is);
        return r->fd < 0 ? -1 : 0;
    }
    close_file(r);
    if (out->type == TREE_LINK) {
        ssize_t n = readlinkat(dir, name, r->target, sizeof r->target);
        if (n < 0 || n > TREE_PATH_MAX) {
            errno = n < 0 ? errno : ENAMETOOLONG;
            return -1;
        }
        out->target = (struct str){r->target, (size_t)n};
    }
    return 0;
}

static int open_root(struct tree_reader *r, struct tree_entry *out)
{
    struct stat is;
    if (fstat(r->dirs.root_fd, &is) < 0) {
        return -1;
    }
    tree_entry_from(out, &is);
    if (out->type == TREE_FILE) {
        r->fd = r->dirs.root_fd;
        r->borrowed = true;
        opened(r, &is);
    }
    return 0;
}

static int open_path(struct tree_reader *r, struct str path, struct tree_entry *out)
{
    char name[DIRS_NAME];
    size_t cut = path.len;
    if (path.len == 0) {
        return open_root(r, out);
    }
    if (!tree_path_ok(path)) {
        errno = EINVAL;
        return -1;
    }
    while (cut > 0 && path.p[cut - 1] != '/') {
        cut--;
    }
    if (dirs_go(&r->dirs, str_head(path, cut > 0 ? cut - 1 : 0)) < 0) {
        return -1;
    }
    const char *last = dirs_name(str_skip(path, cut), name);
    return last == NULL ? -1 : open_named(r, last, out);
}

int tree_reader_open(struct tree_reader *r, struct str path, struct tree_entry *out, struct err *e)
{
    close_file(r);
    if (open_path(r, path, out) < 0) {
        int why = errno;
        close_file(r);
        return cannot_read(path, why, e);
    }
    out->path = path;
    return 0;
}

/* Behind the end of a file is no hole, though it is told like one. */
static bool has_shrunk(const struct tree_reader *r)
{
    struct stat is;
    return fstat(r->fd, &is) < 0 || (uint64_t)is.st_size < r->size;
}

uint64_t tree_reader_hole(struct tree_reader *r)
{
    if (!r->sparse || r->fd < 0 || r->at < r->data_end || r->at >= r->size) {
        return 0;
    }
    off_t data = lseek(r->fd, (off_t)r->at, SEEK_DATA);
    uint64_t from = r->at;
    if (data < 0 && (errno != ENXIO || has_shrunk(r))) {
        r->sparse = false; /* this file system cannot tell, or there is nothing to tell of */
        return 0;
    }
    r->at = data < 0 || (uint64_t)data > r->size ? r->size : (uint64_t)data;
    off_t hole = lseek(r->fd, (off_t)r->at, SEEK_HOLE);
    r->data_end = hole > 0 ? (uint64_t)hole : r->size;
    return r->at - from;
}

void tree_reader_seek(struct tree_reader *r, uint64_t offset)
{
    r->at = offset;
    r->data_end = 0;
}

ssize_t tree_reader_read(struct tree_reader *r, char *to, size_t cap, struct err *e)
{
    if (r->fd < 0) {
        return 0;
    }
    if (r->sparse && r->at < r->data_end && r->data_end - r->at < cap) {
        cap = (size_t)(r->data_end - r->at);
    }
    for (;;) {
        ssize_t n = pread(r->fd, to, cap, (off_t)r->at);
        if (n >= 0) {
            r->at += (uint64_t)n;
            return n;
        }
        if (errno != EINTR) {
            return err_sys(e, errno, "read the file");
        }
    }
}
