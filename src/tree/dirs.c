#include "tree/dirs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/own.h"
#include "tree/entry.h"

#define OPEN_DIR (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK)

void dirs_init(struct dirs *d, int root_fd)
{
    *d = (struct dirs){.root_fd = root_fd, .n = 1, .cap = 16};
    buf_init(&d->path, TREE_PATH_MAX + 1);
    d->levels = xcalloc(d->cap, sizeof *d->levels);
    d->levels[0].fd = root_fd;
}

void dirs_fini(struct dirs *d)
{
    if (d->levels == NULL) {
        return;
    }
    dirs_leave_to(d, STR_EMPTY);
    dirs_leave(d);
    free(d->levels);
    buf_fini(&d->path);
    *d = (struct dirs){.root_fd = -1};
}

struct str dirs_path(const struct dirs *d)
{
    return buf_str(&d->path);
}

struct dir_level *dirs_top(struct dirs *d)
{
    return &d->levels[d->n - 1];
}

const char *dirs_name(struct str name, char to[DIRS_NAME])
{
    if (name.len >= DIRS_NAME) {
        errno = ENAMETOOLONG;
        return NULL;
    }
    if (name.len == 0 || !tree_path_ok(name) || str_has(name, '/')) {
        errno = EINVAL;
        return NULL;
    }
    memcpy(to, name.p, name.len);
    to[name.len] = '\0';
    return to;
}

static int open_named(int dir, struct str name)
{
    char copy[DIRS_NAME];
    const char *as = dirs_name(name, copy);
    if (as == NULL) {
        return -1;
    }
    int fd = openat(dir, as, OPEN_DIR);
    if (fd < 0 && errno == ELOOP) {
        errno = ENOTDIR;
    }
    return fd;
}

/* The last part of a level's path. */
static struct str level_name(const struct dirs *d, size_t level)
{
    size_t above = d->levels[level - 1].path_len;
    struct str path = str_head(buf_str(&d->path), d->levels[level].path_len);
    return str_skip(path, above > 0 ? above + 1 : 0);
}

int dirs_fd(struct dirs *d)
{
    size_t open = d->n - 1;
    while (d->levels[open].fd < 0) {
        open--;
    }
    for (; open + 1 < d->n; open++) {
        struct dir_level *next = &d->levels[open + 1];
        next->fd = open_named(d->levels[open].fd, level_name(d, open + 1));
        if (next->fd < 0) {
            return -1;
        }
        if (open > 0 && d->n - open > DIRS_OPEN) {
            (void)close(d->levels[open].fd);
            d->levels[open].fd = -1;
        }
    }
    return d->levels[open].fd;
}

int dirs_enter(struct dirs *d, struct str name)
{
    size_t need = d->path.len + (d->path.len > 0 ? 1 : 0) + name.len;
    int above = dirs_fd(d);
    if (above < 0) {
        return -1;
    }
    if (need > TREE_PATH_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int fd = open_named(above, name);
    if (fd < 0) {
        return -1;
    }
    if (d->n == d->cap) {
        d->cap *= 2;
        d->levels = xrealloc(d->levels, d->cap, sizeof *d->levels);
    }
    if (d->path.len > 0) {
        buf_addc(&d->path, '/');
    }
    buf_add(&d->path, name);
    d->levels[d->n++] = (struct dir_level){.fd = fd, .path_len = d->path.len};
    if (d->n > DIRS_OPEN + 1) {
        struct dir_level *far = &d->levels[d->n - DIRS_OPEN - 1];
        if (far->fd >= 0) {
            (void)close(far->fd);
            far->fd = -1;
        }
    }
    return 0;
}

/* What it was like before. Nobody waits for this to succeed. */
static void settle(struct dirs *d, const struct dir_level *top)
{
    int fd = top->touched ? dirs_fd(d) : -1;
    if (fd < 0) {
        return;
    }
    if (top->loosened) {
        (void)!fchmod(fd, top->mode);
    }
    if (!top->made) {
        struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, top->mtime};
        (void)!futimens(fd, times);
    }
}

void dirs_leave(struct dirs *d)
{
    struct dir_level *top = dirs_top(d);
    settle(d, top);
    if (d->n == 1) {
        top->touched = false;
        return;
    }
    if (top->fd >= 0) {
        (void)close(top->fd);
    }
    d->n--;
    d->path.len = d->levels[d->n - 1].path_len;
    d->path.p[d->path.len] = '\0';
}

/* True when `path` is `dir` or below it. */
static bool on_the_way(struct str dir, struct str path)
{
    return dir.len == 0 ||
           (str_starts(path, dir) && (path.len == dir.len || path.p[dir.len] == '/'));
}

void dirs_leave_to(struct dirs *d, struct str path)
{
    while (d->n > 1 && !on_the_way(dirs_path(d), path)) {
        dirs_leave(d);
    }
}

int dirs_go(struct dirs *d, struct str path)
{
    dirs_leave_to(d, path);
    while (d->path.len < path.len) {
        struct str rest = str_skip(path, d->path.len > 0 ? d->path.len + 1 : 0);
        if (dirs_enter(d, str_cut(rest, '/', &rest)) < 0) {
            return -1;
        }
    }
    return 0;
}

int dirs_touch(struct dirs *d)
{
    struct dir_level *top = dirs_top(d);
    struct stat is;
    int fd = dirs_fd(d);
    if (top->touched || fd < 0) {
        return fd < 0 ? -1 : 0;
    }
    if (fstat(fd, &is) < 0) {
        return -1;
    }
    top->touched = true;
    top->mode = is.st_mode & 07777;
    top->mtime = is.st_mtim;
    if ((top->mode & S_IRWXU) != S_IRWXU && is.st_uid == geteuid()) {
        top->loosened = fchmod(fd, top->mode | S_IRWXU) == 0;
    }
    return 0;
}

int dirs_each_name(int fd, dirs_name_fn *each, void *arg)
{
    enum { SIZE = 32 << 10 };
    int own own_fd = openat(fd, ".", OPEN_DIR); /* with a place of its own in the folder */
    char *some own_mem = xmalloc(SIZE);
    while (own >= 0) {
        ssize_t n = getdents64(own, some, SIZE);
        if (n <= 0) {
            return n < 0 ? -1 : 0;
        }
        for (ssize_t at = 0; at < n;) {
            const struct dirent64 *entry = (const void *)(some + at);
            const char *name = entry->d_name;
            at += entry->d_reclen;
            if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && !each(arg, name)) {
                return 0;
            }
        }
    }
    return -1;
}
