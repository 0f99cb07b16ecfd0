#include "tree/apply.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/id.h"
#include "base/own.h"
#include "tree/dirs.h"

#define TRIES      16   /* to get a folder in place while somebody works against us */
#define HOLE_BLOCK 4096 /* so many zeros at such a place are a hole */
#define MODE_DIR   0755 /* of a folder that no entry speaks of */
#define TEMP_NAME  48

/* What the sequence says of a folder that we are in. */
struct wanted {
    bool known;
    bool swept; /* of old temporary files */
    uint32_t mode;
    int64_t mtime_ns;
};

/* The file that is being written. */
struct file {
    bool begun;  /* entry() was called and done() not yet */
    bool failed; /* and was told: what comes for it is not wanted */
    int fd;
    uint64_t size;  /* as its entry says */
    uint64_t at;    /* where the next byte goes */
    uint64_t end;   /* so much was really written */
    uint64_t high;  /* and so long it is, with the holes */
    uint64_t bytes; /* all that came for it */
    uint32_t mode;
    int64_t mtime_ns;
    char name[DIRS_NAME], temp[TEMP_NAME];
    struct buf path;
};

struct apply {
    struct apply_req req;
    struct apply_stats stats;
    struct tree_sink sink;
    struct dirs dirs;
    struct wanted *wanted; /* for each level of dirs */
    size_t cap;
    struct file file;
    char random[17];
    uint32_t n_temps;
};

/* ---- failures --------------------------------------------------------------------- */

/* Reasons that the next entry will have, too. */
static bool ends_all(int errnum)
{
    switch (errnum) {
    case ENOSPC:
    case EDQUOT:
    case EROFS:
    case EIO:
    case ENOMEM:
    case EMFILE:
    case ENFILE: return true;
    default: return false;
    }
}

/* An entry that cannot be written: 0 when the others may go on. */
static int refuse(struct apply *a, struct str path, struct str why, struct err *e)
{
    a->stats.skipped++;
    if (a->req.failed == NULL) {
        return err_set(e, ERR_INVALID, "\"%.*s\": %.*s", STR_ARG(str_head(path, 300)),
                       STR_ARG(why));
    }
    return a->req.failed(a->req.arg, path, why, e);
}

static int fail(struct apply *a, struct str path, int errnum, struct err *e)
{
    const char *why = errnum == EEXIST || errnum == ENOTEMPTY || errnum == EISDIR
                          ? "a folder with things in it is in the way"
                          : strerror(errnum);
    if (ends_all(errnum) || a->req.failed == NULL) {
        return err_sys(e, errnum, "write \"%.*s\"", STR_ARG(str_head(path, 300)));
    }
    return refuse(a, path, str_from(why), e);
}

/* ---- folders ------------------------------------------------------------------------ */

static struct wanted *wanted_top(struct apply *a)
{
    return &a->wanted[a->dirs.n - 1];
}

static void level_added(struct apply *a)
{
    if (a->dirs.n > a->cap) {
        a->cap *= 2;
        a->wanted = xrealloc(a->wanted, a->cap, sizeof *a->wanted);
    }
    *wanted_top(a) = (struct wanted){0};
}

/* Mode and time of a folder that we leave. 0, or the errno. One that belongs to somebody else
 * stays as it is: to fill it was allowed, and that is what was wanted. */
static int finish_dir(struct apply *a)
{
    const struct wanted *w = wanted_top(a);
    struct dir_level *top = dirs_top(&a->dirs);
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, tree_timespec(w->mtime_ns)};
    int fd = w->known ? dirs_fd(&a->dirs) : -1;
    struct stat is;
    if (!w->known) {
        return 0;
    }
    top->touched = false; /* nothing is to be put back */
    if (fd < 0 || fstat(fd, &is) < 0) {
        return errno;
    }
    mode_t mode = (is.st_mode & 07000) | w->mode;
    if (((is.st_mode & 07777) != mode && fchmod(fd, mode) < 0) || futimens(fd, times) < 0) {
        return errno == EPERM && !top->made ? 0 : errno;
    }
    return 0;
}

static int leave(struct apply *a, struct err *e)
{
    int why = finish_dir(a);
    int rc = why != 0 ? fail(a, dirs_path(&a->dirs), why, e) : 0;
    wanted_top(a)->known = false;
    dirs_leave(&a->dirs);
    return rc;
}

static int leave_to(struct apply *a, struct str path, struct err *e)
{
    for (;;) {
        struct str here = dirs_path(&a->dirs);
        bool inside = here.len == 0 ||
                      (str_starts(path, here) && (path.len == here.len || path.p[here.len] == '/'));
        if (inside) {
            return 0;
        }
        if (leave(a, e) < 0) {
            return -1;
        }
    }
}

/* Gives us the rights on our own folder that opening it needs. Not by its name: a link that takes its
 * place would be followed. */
static bool allow_open(int dir, const char *name)
{
    int fd own_fd = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    char link[64];
    struct stat is;
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    return fd >= 0 && fstat(fd, &is) == 0 && is.st_uid == geteuid() &&
           chmod(link, (is.st_mode & 07777) | S_IRWXU) == 0;
}

/* Clears the way for a folder after dirs_enter() failed. 0: try again; else the errno. */
static int clear_way(struct apply *a, const char *name, int why, bool *made)
{
    int dir;
    if (why != ENOENT && why != ENOTDIR && why != EACCES) {
        return why;
    }
    if (dirs_touch(&a->dirs) < 0) {
        return errno;
    }
    dir = dirs_fd(&a->dirs);
    if (why == EACCES) {
        return allow_open(dir, name) ? 0 : EACCES;
    }
    if (why == ENOTDIR && unlinkat(dir, name, 0) < 0 && errno != ENOENT) {
        return errno;
    }
    if (mkdirat(dir, name, MODE_DIR) < 0) {
        return errno == EEXIST ? 0 : errno;
    }
    *made = true;
    return 0;
}

/* 0, or the errno. */
static int enter_or_make(struct apply *a, struct str name)
{
    char copy[DIRS_NAME];
    const char *as = dirs_name(name, copy);
    bool made = false;
    int why = 0;
    if (as == NULL) {
        return errno;
    }
    for (int i = 0; i < TRIES && why == 0; i++) {
        if (dirs_enter(&a->dirs, name) == 0) {
            level_added(a);
            dirs_top(&a->dirs)->made = made;
            wanted_top(a)->swept = made;
            a->stats.dirs += made ? 1 : 0;
            return 0;
        }
        why = clear_way(a, as, errno, &made);
    }
    return why != 0 ? why : EBUSY;
}

/* To the folder of `path`. 0, or the errno; -1 with *e. */
static int go(struct apply *a, struct str path, struct err *e)
{
    size_t len = path.len;
    while (len > 0 && path.p[len - 1] != '/') {
        len--;
    }
    struct str folder = str_head(path, len > 0 ? len - 1 : 0);
    if (leave_to(a, folder, e) < 0) {
        return -1;
    }
    while (a->dirs.path.len < folder.len) {
        size_t here = a->dirs.path.len;
        struct str rest = str_skip(folder, here > 0 ? here + 1 : 0);
        int why = enter_or_make(a, str_cut(rest, '/', &rest));
        if (why != 0) {
            return why;
        }
    }
    return 0;
}

static struct str last_part(struct str path)
{
    size_t len = path.len;
    while (len > 0 && path.p[len - 1] != '/') {
        len--;
    }
    return str_skip(path, len);
}

static int put_dir(struct apply *a, const struct tree_entry *entry, struct err *e)
{
    int why = go(a, entry->path, e);
    if (why == 0 && entry->path.len > 0) {
        why = enter_or_make(a, last_part(entry->path));
    }
    if (why != 0) {
        return why < 0 ? -1 : fail(a, entry->path, why, e);
    }
    struct wanted *w = wanted_top(a);
    w->known = true;
    w->mode = entry->mode & 0777;
    w->mtime_ns = entry->mtime_ns;
    return 0;
}

/* ---- temporary names ------------------------------------------------------------------ */

static void name_temp(struct apply *a, char to[TEMP_NAME])
{
    (void)snprintf(to, TEMP_NAME, TREE_TEMP_PREFIX "%.16s%x", a->random, a->n_temps++);
}

/* Removes a temporary file that whoever wrote it no longer holds. */
static bool sweep_name(void *arg, const char *name)
{
    int dir = *(const int *)arg;
    if (!str_starts(str_from(name), S(TREE_TEMP_PREFIX))) {
        return true;
    }
    int fd own_fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    bool is_link = fd < 0 && errno == ELOOP;
    if (is_link || (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)) {
        (void)unlinkat(dir, name, 0); /* a folder of that name stays */
    }
    return true;
}

/* Before a name in the lowest folder is made. 0, or the errno. */
static int prepare_dir(struct apply *a)
{
    int fd;
    if (dirs_touch(&a->dirs) < 0) {
        return errno;
    }
    fd = dirs_fd(&a->dirs);
    if (!wanted_top(a)->swept) {
        wanted_top(a)->swept = true;
        (void)dirs_each_name(fd, sweep_name, &fd);
    }
    return 0;
}

/* Gives what has a temporary name its own, in place of what is there. 0, or the errno. */
static int place(int dir, const char *temp, const char *name)
{
    if (renameat(dir, temp, dir, name) == 0) {
        return 0;
    }
    int why = errno;
    if (why != EISDIR && why != ENOTEMPTY && why != EEXIST) {
        return why;
    }
    if (unlinkat(dir, name, AT_REMOVEDIR) < 0) {
        return errno;
    }
    return renameat(dir, temp, dir, name) == 0 ? 0 : errno;
}

/* ---- links ------------------------------------------------------------------------------ */

static bool is_same_link(int dir, const char *name, const char *target)
{
    char is[TREE_PATH_MAX + 1];
    ssize_t n = readlinkat(dir, name, is, sizeof is);
    return n > 0 && (size_t)n == strlen(target) && memcmp(is, target, (size_t)n) == 0;
}

/* 0, or the errno. */
static int make_link(struct apply *a, const struct tree_entry *entry, const char *target)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, tree_timespec(entry->mtime_ns)};
    char copy[DIRS_NAME];
    char temp[TEMP_NAME];
    const char *name = dirs_name(last_part(entry->path), copy);
    if (name == NULL) {
        return errno;
    }
    int why = prepare_dir(a);
    int dir = why == 0 ? dirs_fd(&a->dirs) : -1;
    if (why != 0 || dir < 0) {
        return why != 0 ? why : errno;
    }
    if (symlinkat(target, dir, name) < 0) {
        if (errno != EEXIST) {
            return errno;
        }
        if (!is_same_link(dir, name, target)) {
            name_temp(a, temp);
            why = symlinkat(target, dir, temp) == 0 ? place(dir, temp, name) : errno;
            if (why != 0) {
                (void)unlinkat(dir, temp, 0);
                return why;
            }
        }
    }
    return utimensat(dir, name, times, AT_SYMLINK_NOFOLLOW) == 0 ? 0 : errno;
}

static int put_link(struct apply *a, const struct tree_entry *entry, struct err *e)
{
    char target[TREE_PATH_MAX + 1];
    if (entry->target.len == 0 || entry->target.len > TREE_PATH_MAX ||
        str_has(entry->target, '\0')) {
        return refuse(a, entry->path, S("a link without a proper target"), e);
    }
    memcpy(target, entry->target.p, entry->target.len);
    target[entry->target.len] = '\0';
    int why = go(a, entry->path, e);
    if (why == 0) {
        why = make_link(a, entry, target);
    }
    if (why != 0) {
        return why < 0 ? -1 : fail(a, entry->path, why, e);
    }
    a->stats.links++;
    return 0;
}

/* ---- files ------------------------------------------------------------------------------- */

static void drop_file(struct apply *a)
{
    struct file *f = &a->file;
    int dir = f->fd >= 0 ? dirs_fd(&a->dirs) : -1;
    if (dir >= 0) {
        (void)unlinkat(dir, f->temp, 0);
    }
    if (f->fd >= 0) {
        (void)close(f->fd);
    }
    f->fd = -1;
}

static int file_failed(struct apply *a, int errnum, struct err *e)
{
    drop_file(a);
    a->file.failed = true;
    return fail(a, buf_str(&a->file.path), errnum, e);
}

/* 0, or the errno. The lock tells others that the file is no leftover. */
static int open_temp(struct apply *a)
{
    struct file *f = &a->file;
    int why = dirs_name(last_part(buf_str(&f->path)), f->name) != NULL ? prepare_dir(a) : errno;
    int dir = why == 0 ? dirs_fd(&a->dirs) : -1;
    if (why != 0 || dir < 0) {
        return why != 0 ? why : errno;
    }
    name_temp(a, f->temp);
    f->fd = openat(dir, f->temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (f->fd < 0) {
        return errno;
    }
    (void)flock(f->fd, LOCK_EX | LOCK_NB);
    return 0;
}

static int put_file(struct apply *a, const struct tree_entry *entry, struct err *e)
{
    struct file *f = &a->file;
    f->begun = true;
    f->failed = false;
    f->at = f->end = f->high = f->bytes = 0;
    f->size = entry->size;
    f->mode = entry->mode & 0777;
    f->mtime_ns = entry->mtime_ns;
    buf_clear(&f->path);
    buf_add(&f->path, entry->path);
    int why = go(a, entry->path, e);
    if (why == 0) {
        why = open_temp(a);
    }
    if (why < 0) {
        f->failed = true;
        return -1;
    }
    return why != 0 ? file_failed(a, why, e) : 0;
}

/* Mode and time of a file that has its contents already, by a descriptor that may be good for
 * nothing else. 0, or the errno. */
static int set_meta(int fd, const struct tree_entry *entry)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, tree_timespec(entry->mtime_ns)};
    char link[64];
    struct stat is;
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (fstat(fd, &is) < 0) {
        return errno;
    }
    if (!S_ISREG(is.st_mode)) {
        return ENOENT;
    }
    bool done = chmod(link, entry->mode & 0777) == 0 && utimensat(AT_FDCWD, link, times, 0) == 0;
    return done ? 0 : errno;
}

static int put_meta(struct apply *a, const struct tree_entry *entry, struct err *e)
{
    char copy[DIRS_NAME];
    const char *name = dirs_name(last_part(entry->path), copy);
    if (name == NULL) {
        return fail(a, entry->path, errno, e);
    }
    int why = go(a, entry->path, e);
    if (why == 0) {
        int dir = dirs_fd(&a->dirs);
        int fd own_fd = dir < 0 ? -1 : openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        why = fd < 0 ? errno : set_meta(fd, entry);
    }
    if (why != 0) {
        return why < 0 ? -1 : fail(a, entry->path, why, e);
    }
    return 0;
}

/* 0, or the errno. */
static int write_at(struct file *f, struct str bytes)
{
    while (bytes.len > 0) {
        ssize_t n = pwrite(f->fd, bytes.p, bytes.len, (off_t)f->at);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return errno;
        }
        f->at += (uint64_t)n;
        f->end = f->at > f->end ? f->at : f->end;
        bytes = str_skip(bytes, (size_t)n);
    }
    return 0;
}

static bool all_zero(const char *p, size_t n)
{
    return p[0] == '\0' && p[n - 1] == '\0' && memcmp(p, p + 1, n - 1) == 0;
}

/* How much of the bytes goes on as they begin: zero blocks (*hole), or anything else. */
static size_t run_of(const struct file *f, struct str bytes, bool *hole)
{
    size_t n = (HOLE_BLOCK - f->at % HOLE_BLOCK) % HOLE_BLOCK; /* up to the next block */
    *hole = n == 0 && bytes.len >= HOLE_BLOCK && all_zero(bytes.p, HOLE_BLOCK);
    while (n + HOLE_BLOCK <= bytes.len && all_zero(bytes.p + n, HOLE_BLOCK) == *hole) {
        n += HOLE_BLOCK;
    }
    if (*hole) {
        return n;
    }
    bool zeros_next = n + HOLE_BLOCK <= bytes.len;
    return zeros_next && n > 0 ? n : bytes.len;
}

static int sink_data(void *arg, struct str bytes, struct err *e)
{
    struct apply *a = arg;
    struct file *f = &a->file;
    if (!f->begun || f->failed) {
        return 0;
    }
    f->bytes += bytes.len;
    while (bytes.len > 0) {
        bool hole;
        size_t n = run_of(f, bytes, &hole);
        int why = hole ? 0 : write_at(f, str_head(bytes, n));
        if (why != 0) {
            return file_failed(a, why, e);
        }
        f->at += hole ? n : 0;
        f->high = f->at > f->high ? f->at : f->high;
        bytes = str_skip(bytes, n);
    }
    return 0;
}

static int sink_hole(void *arg, uint64_t n, struct err *e)
{
    struct apply *a = arg;
    struct file *f = &a->file;
    if (!f->begun || f->failed) {
        return 0;
    }
    if (n > INT64_MAX - f->at) {
        return file_failed(a, EFBIG, e);
    }
    f->at += n;
    f->high = f->at > f->high ? f->at : f->high;
    f->bytes += n;
    return 0;
}

static int sink_at(void *arg, uint64_t offset, struct err *e)
{
    struct apply *a = arg;
    struct file *f = &a->file;
    if (!f->begun || f->failed) {
        return 0;
    }
    if (offset > INT64_MAX) {
        return file_failed(a, EFBIG, e);
    }
    f->at = offset;
    return 0;
}

static int sink_parts(void *arg, struct err *e)
{
    struct apply *a = arg;
    struct file *f = &a->file;
    if (!f->begun || f->failed) {
        return a->req.parts(a->req.arg, STR_EMPTY, e);
    }
    f->high = f->bytes = f->size;
    return a->req.parts(a->req.arg, str_from(f->temp), e);
}

/* 0, or the errno. */
static int finish_file(struct apply *a)
{
    struct file *f = &a->file;
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, tree_timespec(f->mtime_ns)};
    int dir = dirs_fd(&a->dirs);
    if (dir < 0 || (f->high > f->end && ftruncate(f->fd, (off_t)f->high) < 0) ||
        fchmod(f->fd, f->mode) < 0 || futimens(f->fd, times) < 0) {
        return errno;
    }
    return place(dir, f->temp, f->name);
}

static int sink_done(void *arg, bool ok, struct str why, struct err *e)
{
    struct apply *a = arg;
    struct file *f = &a->file;
    bool failed = !f->begun || f->failed;
    f->begun = false;
    if (failed) {
        return 0;
    }
    if (!ok) {
        drop_file(a);
        a->stats.skipped++;
        return a->req.failed != NULL ? a->req.failed(a->req.arg, buf_str(&f->path), why, e) : 0;
    }
    int errnum = finish_file(a);
    if (errnum != 0) {
        return file_failed(a, errnum, e);
    }
    (void)close(f->fd);
    f->fd = -1;
    a->stats.files++;
    a->stats.bytes += f->bytes;
    return 0;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static int sink_entry(void *arg, const struct tree_entry *entry, struct err *e)
{
    struct apply *a = arg;
    struct str name = last_part(entry->path);
    if (a->file.begun) {
        return err_set(e, ERR_BUG, "an entry comes before the last file is done");
    }
    if (!tree_path_ok(entry->path) || str_starts(name, S(TREE_TEMP_PREFIX)) ||
        (entry->path.len == 0 && entry->type != TREE_DIR)) {
        a->file.begun = entry->type == TREE_FILE && !entry->meta_only;
        a->file.failed = true;
        return refuse(a, entry->path, S("this name cannot be written"), e);
    }
    switch (entry->type) {
    case TREE_DIR: return put_dir(a, entry, e);
    case TREE_LINK: return put_link(a, entry, e);
    case TREE_FILE: return entry->meta_only ? put_meta(a, entry, e) : put_file(a, entry, e);
    case TREE_OTHER: break;
    }
    return refuse(a, entry->path, S("devices, pipes and sockets are not written"), e);
}

struct apply *apply_open(const struct apply_req *req)
{
    struct apply *a = xcalloc(1, sizeof *a);
    a->req = *req;
    a->sink = (struct tree_sink){
        .entry = sink_entry,
        .data = sink_data,
        .hole = sink_hole,
        .at = sink_at,
        .parts = req->parts != NULL ? sink_parts : NULL,
        .done = sink_done,
        .arg = a,
    };
    a->cap = 16;
    a->wanted = xcalloc(a->cap, sizeof *a->wanted);
    a->file.fd = -1;
    buf_init(&a->file.path, TREE_PATH_MAX);
    dirs_init(&a->dirs, req->root_fd);
    id_hex(a->random, 8);
    return a;
}

const struct tree_sink *apply_sink(struct apply *a)
{
    return &a->sink;
}

const struct apply_stats *apply_stats(const struct apply *a)
{
    return &a->stats;
}

int apply_close(struct apply *a, bool whole, struct err *e)
{
    struct err first;
    struct err *to = e;
    int rc = 0;
    drop_file(a);
    for (size_t left = a->dirs.n; left > 0; left--) {
        if (leave(a, to) < 0) {
            rc = -1;
            to = &first; /* the others' reasons are not told */
        }
    }
    dirs_fini(&a->dirs);
    buf_fini(&a->file.path);
    free(a->wanted);
    free(a);
    return whole ? rc : 0;
}
