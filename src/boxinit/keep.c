#include "boxinit/keep.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/own.h"
#include "boxinit/kill.h"

#define TEXT_MAX      8192
#define RESERVE       ".reserve"
#define RESERVE_BYTES (64u << 10)
#define RESERVE_ROOM  (1u << 20) /* with so much free it can be had again */
#define LOOK_EVERY    (1u << 20) /* bytes between two looks at the disk */
#define STATUS_BYTES  160
#define GAPS_BYTES    48
#define NAMES_LOOKED  4096 /* at most, in a folder that the payload may be able to fill */
#define FILES_REMOVED 64   /* at most, of a folder that has nine */

/* Where the payload has our uid it can put a pipe, or a lease, where a file of ours was. Who waits
 * for those serves nobody, and keeps no time. */
#define NO_WAIT (O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)

static const char *const stream_names[] = {"stdout", "stderr"};

/* On a host nobody else is to read it; in a box there is nobody else. */
static mode_t mode_of(const struct server *s)
{
    return s->spec->is_plain ? 0600 : 0644;
}

static int open_root(const struct server *s)
{
    struct err ignored = {0};

    if (s->spec->kept_dir == NULL || fd_mkdirs(s->spec->kept_dir, 0700, &ignored) < 0) {
        return -1;
    }
    return open(s->spec->kept_dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* An id is the client's choice, and the name of a folder here. */
static bool is_name(const char *id)
{
    return id[0] != '\0' && strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                       "0123456789_-") == strlen(id);
}

/* ---- the past ------------------------------------------------------------------ */

struct past {
    char name[ID_MAX + 1];
    time_t ended;
};

/* How many have ended, and which of them first. */
static size_t find_oldest(int root, struct past *oldest)
{
    size_t n = 0;
    size_t looked = 0;
    DIR *dir = fdopendir(fcntl(root, F_DUPFD_CLOEXEC, 0));
    struct dirent *entry;

    if (dir == NULL) {
        return 0;
    }
    rewinddir(dir);
    for (entry = readdir(dir); entry != NULL && looked++ < NAMES_LOOKED; entry = readdir(dir)) {
        char path[ID_MAX + 16];
        struct stat is;

        if (strlen(entry->d_name) > ID_MAX || entry->d_name[0] == '.') {
            continue;
        }
        (void)snprintf(path, sizeof(path), "%.*s/status", ID_MAX, entry->d_name);
        if (fstatat(root, path, &is, AT_SYMLINK_NOFOLLOW) < 0) {
            continue;
        }
        if (n++ == 0 || is.st_mtime < oldest->ended) {
            (void)snprintf(oldest->name, sizeof(oldest->name), "%.*s", ID_MAX, entry->d_name);
            oldest->ended = is.st_mtime;
        }
    }
    (void)closedir(dir);
    return n;
}

/* Not as a tree: somebody may fill it faster than it can be emptied. What is not ours stays. */
static void remove_folder(int root, const char *name)
{
    int folder own_fd = openat(root, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fdopendir(fcntl(folder, F_DUPFD_CLOEXEC, 0));

    if (dir == NULL) {
        return;
    }
    for (int i = 0; i < FILES_REMOVED; i++) {
        struct dirent *entry = readdir(dir);

        if (entry == NULL) {
            break;
        }
        (void)!unlinkat(folder, entry->d_name, 0);
    }
    (void)closedir(dir);
    (void)!unlinkat(root, name, AT_REMOVEDIR);
}

static void forget_old(int root)
{
    struct past oldest;

    if (find_oldest(root, &oldest) > KEPT_FOLDERS) {
        remove_folder(root, oldest.name);
    }
}

/* ---- the folder of a command ----------------------------------------------------- */

static int write_file(const struct server *s, struct task *t, const char *name, struct str text)
{
    struct err ignored = {0};

    return fd_replace_file(t->kept.dir, name, text, mode_of(s), &ignored);
}

static int write_started(const struct server *s, struct task *t)
{
    struct buf text own_buf = {0};

    buf_init(&text, TEXT_MAX);
    buf_addf(&text, "%s 0 %lld exec\n%s/%s/stdout\n%s\n%s\n", t->id,
             (long long)(t->started_wall_ms / 1000), s->spec->kept_dir, t->id, t->cwd, t->head);
    return write_file(s, t, "started", buf_str(&text));
}

/* With the time of its birth, by which a pid that was used again is told apart. */
static int write_process(const struct server *s, struct task *t, const char *name, pid_t pid)
{
    char path[64];
    char line[1024];
    struct proc_stat is;
    struct err ignored = {0};
    ssize_t n;

    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    int fd own_fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? -1 : fd_read(fd, line, sizeof(line), &ignored);
    if (n <= 0 || !kill_parse_stat((struct str){line, (size_t)n}, &is)) {
        return 0; /* it has ended: the status will tell */
    }
    n = snprintf(line, sizeof(line), "%s %d %llu\n", t->id, (int)pid, is.start);
    return write_file(s, t, name, (struct str){line, (size_t)n});
}

/* A file of so many blanks: what is written over them needs no room on the disk. */
static int take_place(const struct server *s, struct task *t, const char *name, size_t bytes)
{
    char blanks[STATUS_BYTES];

    memset(blanks, ' ', sizeof(blanks));
    blanks[bytes - 1] = '\n';
    return write_file(s, t, name, (struct str){blanks, bytes});
}

static int fill_place(struct task *t, const char *name, struct str text)
{
    int fd own_fd = openat(t->kept.dir, name, O_WRONLY | NO_WAIT);

    return fd >= 0 && pwrite(fd, text.p, text.len, 0) == (ssize_t)text.len ? 0 : -1;
}

static void close_all(struct task *t)
{
    for (int i = 0; i < 2; i++) {
        if (t->kept.fd[i] >= 0) {
            (void)close(take_fd(&t->kept.fd[i]));
        }
    }
    if (t->kept.dir >= 0) {
        (void)close(take_fd(&t->kept.dir));
    }
}

static int make_folder(const struct server *s, struct task *t, int root)
{
    if (mkdirat(root, t->id, s->spec->is_plain ? 0700 : 0755) < 0) {
        return -1;
    }
    t->kept.dir = openat(root, t->id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (t->kept.dir < 0) {
        return -1;
    }
    for (int i = 0; i < 2; i++) {
        t->kept.fd[i] = openat(t->kept.dir, stream_names[i],
                               O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, mode_of(s));
        if (t->kept.fd[i] < 0) {
            return -1;
        }
    }
    if (!t->reaped && write_process(s, t, "job", t->pid) < 0) {
        return -1;
    }
    return take_place(s, t, "status.new", STATUS_BYTES) < 0 ||
                   take_place(s, t, "gaps", GAPS_BYTES) < 0 ||
                   write_process(s, t, "keeper", getpid()) < 0 || write_started(s, t) < 0
               ? -1
               : 0;
}

static void begin(struct server *s, struct task *t)
{
    int root own_fd = -1;

    t->kept.is_begun = true;
    if (!is_name(t->id)) {
        return;
    }
    root = open_root(s);
    if (root < 0) {
        return;
    }
    forget_old(root);
    for (int tries = 0; make_folder(s, t, root) < 0; tries++) {
        close_all(t);
        remove_folder(root, t->id);
        /* The disk is full: this is what the reserve is for. */
        if (tries > 0 || unlinkat(root, RESERVE, 0) < 0) {
            return;
        }
        s->has_disk_reserve = false;
    }
    keep_reserve(s);
}

/* ---- the reserve ----------------------------------------------------------------- */

static int open_kept(const struct server *s)
{
    return open(s->spec->kept_dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

void keep_reserve(struct server *s)
{
    if (s->has_disk_reserve || s->spec->kept_dir == NULL || s->spec->is_plain) {
        return;
    }
    int dir own_fd = open_kept(s);
    int fd own_fd = dir < 0 ? -1 : openat(dir, RESERVE, O_WRONLY | O_CREAT | NO_WAIT, 0600);
    s->has_disk_reserve = fd >= 0 && posix_fallocate(fd, 0, RESERVE_BYTES) == 0;
    if (fd >= 0 && !s->has_disk_reserve) {
        (void)!unlinkat(dir, RESERVE, 0);
    }
}

void keep_release(struct server *s)
{
    struct statvfs is;

    if (!s->has_disk_reserve) {
        return;
    }
    int dir own_fd = open_kept(s);
    if (dir < 0 || fstatvfs(dir, &is) < 0 || is.f_bavail * is.f_frsize < RESERVE_ROOM) {
        return;
    }
    s->has_disk_reserve = unlinkat(dir, RESERVE, 0) < 0;
}

/* ---- streams --------------------------------------------------------------------- */

/* How much of it is in the file now. */
static size_t put(struct task *t, int i, struct str bytes)
{
    size_t done = 0;

    while (done < bytes.len) {
        ssize_t n = write(t->kept.fd[i], bytes.p + done, bytes.len - done);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            break; /* a full disk: the spool holds on as long as it can */
        }
        done += (size_t)n;
    }
    return done;
}

/* All of it or nothing. */
static bool put_line(struct task *t, int i, struct str line)
{
    struct stat is;

    if (fstat(t->kept.fd[i], &is) < 0) {
        return false;
    }
    if (put(t, i, line) == line.len) {
        return true;
    }
    (void)!ftruncate(t->kept.fd[i], is.st_size);
    return false;
}

static void note_gaps(struct task *t)
{
    char text[GAPS_BYTES];
    int n = snprintf(text, sizeof(text), "%llu \n",
                     (unsigned long long)(t->kept.lost[0] + t->kept.lost[1]));

    (void)!fill_place(t, "gaps", (struct str){text, (size_t)n});
}

/* Bytes up to `to` have left the spool and are not in the file: it says so itself. */
static bool skip_to(struct task *t, int i, uint64_t to)
{
    char text[96];
    uint64_t gap = to - t->kept.at[i];
    int n = snprintf(text, sizeof(text), "\n... [%llu bytes were not kept] ...\n",
                     (unsigned long long)gap);

    if (!put_line(t, i, (struct str){text, (size_t)n})) {
        return false;
    }
    t->kept.at[i] = to;
    t->kept.lost[i] += gap;
    note_gaps(t);
    return true;
}

/* What the spool has and the file does not. */
static void catch_up(struct task *t, int i)
{
    const struct capture *spool = &t->spool[i];

    while (t->kept.fd[i] >= 0 && t->kept.at[i] < spool->total) {
        uint64_t at = t->kept.at[i];
        struct str bytes = capture_at(spool, &at);

        if (bytes.len == 0 || (at > t->kept.at[i] && !skip_to(t, i, at))) {
            return;
        }
        size_t done = put(t, i, bytes);
        t->kept.at[i] += done;
        if (done < bytes.len) {
            return;
        }
    }
}

/* While a client listens, a part of the disk is left to the programs of the box: most likely what
 * is kept here goes when the client has heard the end. */
static bool has_room(struct task *t, int i)
{
    struct statvfs disk;

    if (t->client == NULL) {
        return true;
    }
    if (t->spool[i].total >= t->kept.look_at[i]) {
        t->kept.look_at[i] = t->spool[i].total + LOOK_EVERY;
        t->kept.is_tight =
            fstatvfs(t->kept.dir, &disk) == 0 && disk.f_bavail < disk.f_blocks / KEPT_LEAVES;
    }
    return !t->kept.is_tight;
}

void keep_before(struct server *s, struct task *t, int stream, size_t n)
{
    const struct capture *spool = &t->spool[stream];

    if (!t->keep || t->kept.is_begun || spool->total + n <= spool->head_max + spool->tail_max) {
        return;
    }
    begin(s, t);
    catch_up(t, 0);
    catch_up(t, 1);
}

void keep_after(struct task *t, int stream)
{
    if (t->kept.is_begun && t->kept.dir >= 0 && has_room(t, stream)) {
        catch_up(t, stream);
    }
}

/* ---- the end --------------------------------------------------------------------- */

/* Without it nobody is to wait for our word. */
static void write_status(struct task *t)
{
    char line[STATUS_BYTES];
    bool killed = t->ending.how == END_SIGNALED;
    int code = (int)t->ending.code;
    int n = snprintf(line, sizeof(line), "%s %s %d %d %lld\n", t->id, killed ? "signal" : "exit",
                     killed ? 128 + code : code, killed ? code : 0,
                     (long long)(clock_wall_ms() / 1000));

    for (int i = 0; i < 2; i++) {
        t->kept.lost[i] += t->spool[i].total - t->kept.at[i];
    }
    if (t->kept.lost[0] + t->kept.lost[1] > 0) {
        note_gaps(t);
    }
    t->kept.is_told = true;
    if (fill_place(t, "status.new", (struct str){line, (size_t)n}) < 0 ||
        renameat(t->kept.dir, "status.new", t->kept.dir, "status") < 0) {
        (void)!unlinkat(t->kept.dir, "keeper", 0);
    }
}

void keep_turn(struct server *s, struct task *t)
{
    if (!t->keep || t->client != NULL || !t->started || t->dead || t->kept.is_told) {
        return;
    }
    if (!t->kept.is_begun) {
        begin(s, t);
    }
    catch_up(t, 0);
    catch_up(t, 1);
    if (t->finished && t->kept.dir >= 0) {
        write_status(t);
    }
}

void keep_finish(struct server *s, struct task *t)
{
    if (t->kept.is_begun) {
        keep_turn(s, t);
    }
}

void keep_free(struct server *s, struct task *t)
{
    if (t->kept.dir < 0) {
        return;
    }
    close_all(t);
    if (t->is_delivered) {
        int root own_fd = open_root(s);

        remove_folder(root, t->id);
    }
}
