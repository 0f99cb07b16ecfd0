/* files.c - looking at files, and reading them. */
#include "boxinit/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/own.h"
#include "base/path.h"
#include "boxinit/command.h"
#include "boxinit/server.h"

#define LIST_DEPTH 256 /* deeper folders are listed, but not what is in them */

int files_stat(struct worker *w, const struct request *r, struct err *e)
{
    const char *path = command_path(w->spec, &w->arena, r->path);
    struct stat is;

    if (fstatat(AT_FDCWD, path, &is, r->follow ? 0 : AT_SYMLINK_NOFOLLOW) < 0) {
        return worker_fail(w, errno, r->path, "look at", e);
    }
    worker_put_entry(w, r->path, &is);
    return 0;
}

/* ---- list ------------------------------------------------------------------ */

/* A folder that is being listed: its names in order, and where we are. */
struct level {
    int fd;
    char **names;
    size_t n, next;
    size_t path_len; /* of the folder's own path */
};

struct listing {
    struct worker *w;
    struct level levels[LIST_DEPTH];
    size_t depth;
    struct buf path;
    uint64_t left; /* entries that may still be given */
    bool more;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* -1 with errno. Takes the descriptor. */
static int read_names(struct level *l, int fd, bool *more)
{
    DIR *dir = fdopendir(fd);
    size_t cap = 0;
    struct dirent *entry;

    if (dir == NULL) {
        (void)close(fd);
        return -1;
    }
    for (entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        if (l->n == NAME_LIST_MAX) {
            *more = true;
            break;
        }
        if (l->n == cap) {
            cap = cap > 0 ? cap * 2 : 32;
            l->names = xrealloc(l->names, cap, sizeof(*l->names));
        }
        l->names[l->n++] = xstrdup(entry->d_name);
    }
    l->fd = fcntl(dirfd(dir), F_DUPFD_CLOEXEC, 0);
    (void)closedir(dir);
    if (l->n > 0) {
        qsort(l->names, l->n, sizeof(*l->names), by_name);
    }
    return l->fd < 0 ? -1 : 0;
}

static void leave_level(struct listing *x)
{
    struct level *l = &x->levels[--x->depth];

    for (size_t i = 0; i < l->n; i++) {
        free(l->names[i]);
    }
    free(l->names);
    if (l->fd >= 0) {
        (void)close(l->fd);
    }
    *l = (struct level){.fd = -1};
}

/* Goes into a folder of the level above, or the one that was asked for. */
static int enter_level(struct listing *x, int dir, const char *name, int flags)
{
    struct level *l = &x->levels[x->depth];
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK | flags);

    if (fd < 0) {
        return -1;
    }
    *l = (struct level){.fd = -1, .path_len = x->path.len};
    x->depth++;
    if (read_names(l, fd, &x->more) < 0) {
        leave_level(x);
        return -1;
    }
    return 0;
}

static void cut_path(struct listing *x, size_t len)
{
    x->path.len = len;
    x->path.p[len] = '\0';
}

/* The next entry of the current level, and into it where that is wanted. */
static int list_one(struct listing *x, bool recursive, struct err *e)
{
    struct level *l = &x->levels[x->depth - 1];
    const char *name = l->names[l->next++];
    struct stat is;

    cut_path(x, l->path_len);
    if (!str_ends(buf_str(&x->path), S("/"))) {
        buf_addc(&x->path, '/');
    }
    buf_add(&x->path, str_from(name));
    if (fstatat(l->fd, name, &is, AT_SYMLINK_NOFOLLOW) < 0) {
        return 0; /* gone in the meantime */
    }
    if (x->left == 0 || x->path.cut) {
        x->more = true;
        x->left = 0;
        return 0;
    }
    x->left--;
    worker_put_entry(x->w, buf_str(&x->path), &is);
    if (x->w->out.len > OUT_HIGH && worker_flush(x->w, e) < 0) {
        return -1;
    }
    if (recursive && S_ISDIR(is.st_mode)) {
        if (x->depth == LIST_DEPTH) {
            x->more = true;
        } else {
            (void)enter_level(x, l->fd, name, O_NOFOLLOW); /* one that is closed to us is empty */
        }
    }
    return 0;
}

static int list_all(struct listing *x, bool recursive, struct err *e)
{
    while (x->depth > 0) {
        const struct level *l = &x->levels[x->depth - 1];

        if (l->next == l->n) {
            leave_level(x);
            continue;
        }
        if (list_one(x, recursive, e) < 0) {
            return -1;
        }
        if (x->left == 0 && x->more) {
            return 0;
        }
    }
    return 0;
}

int files_list(struct worker *w, const struct request *r, struct err *e)
{
    const char *path = command_path(w->spec, &w->arena, r->path);
    struct listing *x own_mem = xcalloc(1, sizeof(*x));
    int rc;

    buf_init(&x->path, (size_t)2 * PATH_MAX_BYTES);
    buf_add(&x->path, r->path);
    x->w = w;
    x->left = r->max;
    if (enter_level(x, AT_FDCWD, path, 0) < 0) {
        int why = errno;

        buf_fini(&x->path);
        if (why == ENOTDIR && access(path, F_OK) == 0) {
            return err_set(e, ERR_INVALID, "\"%.*s\" is not a folder", STR_ARG(r->path));
        }
        return worker_fail(w, why, r->path, "list", e);
    }
    rc = list_all(x, r->recursive, e);
    while (x->depth > 0) {
        leave_level(x);
    }
    buf_fini(&x->path);
    if (rc == 0) {
        worker_put_ok(w, x->more);
    }
    return rc;
}

/* ---- read ------------------------------------------------------------------ */

/* Our memory is laid out as PID 1's, and as that of other boxes of the same maker: what /proc
 * tells of ourselves is for nobody, by whatever path it is reached. */
static bool is_about_us(int fd)
{
    char link[64];
    char own[32];
    char path[PATH_MAX_BYTES];
    ssize_t n;

    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    (void)snprintf(own, sizeof(own), "/proc/%d/", (int)getpid());
    n = readlink(link, path, sizeof(path));
    return n > 0 && str_starts((struct str){path, (size_t)n}, str_from(own));
}

/* A regular file, opened; a pipe must neither block us nor be taken from others. */
static int open_regular(struct worker *w, const struct request *r, struct stat *is, int *out,
                        struct err *e)
{
    const char *path = command_path(w->spec, &w->arena, r->path);
    int fd own_fd = -1;

    if (stat(path, is) < 0) {
        return worker_fail(w, errno, r->path, "read", e);
    }
    if (S_ISREG(is->st_mode) || S_ISDIR(is->st_mode)) {
        fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (fd < 0 || fstat(fd, is) < 0) {
            return worker_fail(w, errno, r->path, "read", e);
        }
        if (is_about_us(fd)) {
            return worker_fail(w, EACCES, r->path, "read", e);
        }
    }
    if (S_ISDIR(is->st_mode)) {
        return err_set(e, ERR_INVALID, "\"%.*s\" is a folder; list it instead", STR_ARG(r->path));
    }
    if (!S_ISREG(is->st_mode)) {
        return err_set(e, ERR_INVALID,
                       "\"%.*s\" is not a regular file but a pipe, socket or device",
                       STR_ARG(r->path));
    }
    *out = take_fd(&fd);
    return 0;
}

int files_read(struct worker *w, const struct request *r, struct err *e)
{
    char *bytes own_mem = xmalloc(DATA_MAX);
    struct stat is;
    uint64_t done = 0;
    int fd own_fd = -1;

    if (open_regular(w, r, &is, &fd, e) < 0) {
        return -1;
    }
    worker_put_entry(w, r->path, &is);
    while (done < r->max && r->from + done <= INT64_MAX) {
        size_t want = r->max - done < DATA_MAX ? (size_t)(r->max - done) : DATA_MAX;
        ssize_t n = pread(fd, bytes, want, (off_t)(r->from + done));
        struct wire_out o;

        if (n < 0) {
            return worker_fail(w, errno, r->path, "read", e);
        }
        if (n == 0) {
            break;
        }
        o = wire_begin(&w->out, FRAME_CHUNK);
        wire_str(&o, (struct str){bytes, (size_t)n});
        (void)!wire_end(&o);
        done += (uint64_t)n;
        if (w->out.len > OUT_HIGH && worker_flush(w, e) < 0) {
            return -1;
        }
    }
    worker_put_ok(w, 0);
    return 0;
}

int files_mkdir(struct worker *w, const struct request *r, struct err *e)
{
    const char *path = command_path(w->spec, &w->arena, r->path);
    struct stat is;

    if (fd_mkdirs(path, 0755, e) < 0) {
        return e->sys != 0 ? worker_fail(w, e->sys, r->path, "make", e) : -1;
    }
    if (stat(path, &is) == 0 && !S_ISDIR(is.st_mode)) {
        return worker_fail(w, EEXIST, r->path, "make", e);
    }
    worker_put_ok(w, 0);
    return 0;
}

int files_remove(struct worker *w, const struct request *r, struct err *e)
{
    const char *path = command_path(w->spec, &w->arena, r->path);

    if (fd_remove_tree(AT_FDCWD, path, e) < 0) {
        if (e->sys == EBUSY) {
            return err_set(e, ERR_DENIED,
                           "\"%.*s\" is a fixed part of the sandbox: what was in it is removed, "
                           "the folder stays",
                           STR_ARG(r->path));
        }
        return e->sys != 0 ? worker_fail(w, e->sys, r->path, "remove", e) : -1;
    }
    worker_put_ok(w, 0);
    return 0;
}
