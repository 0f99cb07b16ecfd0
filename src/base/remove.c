/*
 * fd_remove_tree(): rm -rf of a tree that somebody hostile may have built.
 *
 * Every step is relative to an open folder and follows no link, so the tree cannot
 * lead us elsewhere, even when it changes meanwhile; what is mounted in it stays. Folders may be nested deeper
 * than we may have descriptors: a folder at DEPTH_MAX is moved up, into the tree's
 * root, and met again by the next pass. A pass goes on after a failure, so that as
 * much as possible is gone; passes end when the root is gone or one achieved nothing.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/id.h"
#include "base/own.h"

#define DEPTH_MAX 24
#define OPEN_DIR  (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

struct level {
    DIR *dir;
    char name[NAME_MAX + 1]; /* in the level above; unused for the root */
};

struct sweep {
    struct level levels[DEPTH_MAX];
    size_t depth; /* levels in use */
    dev_t dev;
    unsigned long removed; /* things removed or moved in this pass */
    bool failed;
    struct err first; /* what failed first in this pass */
};

static void note_failure(struct sweep *s, int errnum, const char *what, const char *name)
{
    if (!s->failed) {
        (void)err_sys(&s->first, errnum, "%s %s", what, name);
        s->failed = true;
    }
}

/* Gives us all rights on a folder that cannot be opened. Not by name: a link that
 * takes its place would be followed. */
static void allow_open(int dir, const char *name)
{
    int fd own_fd = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    char link[64];

    if (fd >= 0) {
        (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        (void)chmod(link, 0700); /* the next open tells whether it helped */
    }
}

static int open_folder(int dir, const char *name, struct stat *st)
{
    int fd = openat(dir, name, OPEN_DIR);

    if (fd < 0 && errno == EACCES) {
        allow_open(dir, name);
        fd = openat(dir, name, OPEN_DIR);
    }
    if (fd < 0) {
        return -1;
    }
    if (fstat(fd, st) == 0 && (st->st_mode & S_IRWXU) != S_IRWXU) {
        (void)fchmod(fd, (st->st_mode & 07777) | S_IRWXU);
    }
    return fd;
}

/* Takes ownership of fd. */
static void push(struct sweep *s, int fd, const char *name)
{
    struct level *level = &s->levels[s->depth];

    level->dir = fdopendir(fd);
    if (level->dir == NULL) {
        note_failure(s, errno, "read", name);
        (void)close(fd);
        return;
    }
    (void)snprintf(level->name, sizeof(level->name), "%s", name);
    s->depth++;
}

static int top_fd(const struct sweep *s)
{
    return dirfd(s->levels[s->depth - 1].dir);
}

static void move_up(struct sweep *s, const char *name)
{
    char moved[40] = ".anybox-";

    id_hex(moved + sizeof(".anybox-") - 1, 8);
    if (renameat(top_fd(s), name, dirfd(s->levels[0].dir), moved) == 0) {
        s->removed++;
    } else if (errno != ENOENT) {
        note_failure(s, errno, "move", name);
    }
}

/* Also one of the same file system, which only the newer call can tell: without it (before
 * Linux 5.6) nothing is. */
static bool is_mount(int dir, const char *name)
{
    struct open_how how = {.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC, .resolve = RESOLVE_NO_XDEV};
    int fd own_fd = (int)syscall(SYS_openat2, dir, name, &how, sizeof(how));

    return fd < 0 && errno == EXDEV;
}

static void enter(struct sweep *s, const char *name)
{
    struct stat st = {0};

    if (is_mount(top_fd(s), name)) {
        note_failure(s, EBUSY, "remove what is mounted at", name);
        return;
    }
    int fd = open_folder(top_fd(s), name, &st);

    if (fd < 0) {
        if (errno != ENOENT) {
            note_failure(s, errno, "open", name);
        }
        return;
    }
    if (st.st_dev != s->dev) {
        (void)close(fd);
        note_failure(s, EXDEV, "remove", name);
        return;
    }
    if (s->depth == DEPTH_MAX) {
        (void)close(fd);
        move_up(s, name);
        return;
    }
    push(s, fd, name);
}

static void remove_entry(struct sweep *s, const struct dirent *entry)
{
    struct stat st;
    bool is_dir = entry->d_type == DT_DIR;

    if (entry->d_type == DT_UNKNOWN) {
        is_dir =
            fstatat(top_fd(s), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
    }
    if (is_dir) {
        enter(s, entry->d_name);
        return;
    }
    if (unlinkat(top_fd(s), entry->d_name, 0) == 0) {
        s->removed++;
    } else if (errno != ENOENT) {
        note_failure(s, errno, "remove", entry->d_name);
    }
}

/* The folder on top is done: back to the one that holds it. */
static void leave(struct sweep *s)
{
    struct level *level = &s->levels[--s->depth];

    (void)closedir(level->dir);
    if (s->depth == 0) {
        return;
    }
    if (unlinkat(top_fd(s), level->name, AT_REMOVEDIR) == 0) {
        s->removed++;
    } else if (errno != ENOENT && !(errno == ENOTEMPTY && s->failed)) {
        note_failure(s, errno, "remove", level->name);
    }
}

static bool is_dot(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* One pass over everything below the root; the root itself stays. */
static void run_pass(struct sweep *s, int fd, const char *name)
{
    s->depth = 0;
    s->removed = 0;
    s->failed = false;
    push(s, fd, name);
    while (s->depth > 0) {
        struct dirent *entry = readdir(s->levels[s->depth - 1].dir);

        if (entry == NULL) {
            leave(s);
        } else if (!is_dot(entry->d_name)) {
            remove_entry(s, entry);
        }
    }
}

static int remove_folder(int dir, const char *path, struct err *e)
{
    struct sweep sweep;

    for (;;) {
        struct stat st = {0};
        int fd = open_folder(dir, path, &st);
        int errnum;

        if (fd < 0) {
            return errno == ENOENT ? 0 : err_sys(e, errno, "remove %s", path);
        }
        sweep.dev = st.st_dev;
        run_pass(&sweep, fd, path);
        if (unlinkat(dir, path, AT_REMOVEDIR) == 0 || errno == ENOENT) {
            return 0;
        }
        errnum = errno;
        if (sweep.removed > 0 && errnum == ENOTEMPTY) {
            continue;
        }
        if (sweep.failed) {
            *e = sweep.first;
            return err_wrap(e, "remove %s", path);
        }
        return err_sys(e, errnum, "remove %s", path);
    }
}

int fd_remove_tree(int dir, const char *path, struct err *e)
{
    struct stat st;

    if (fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        return errno == ENOENT || errno == ENOTDIR ? 0 : err_sys(e, errno, "remove %s", path);
    }
    if (S_ISDIR(st.st_mode)) {
        return remove_folder(dir, path, e);
    }
    if (unlinkat(dir, path, 0) < 0 && errno != ENOENT) {
        return err_sys(e, errno, "remove %s", path);
    }
    return 0;
}
