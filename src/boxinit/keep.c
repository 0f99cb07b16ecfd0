#include "boxinit/keep.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/own.h"
#include "boxinit/kill.h"

#define TEXT_MAX 8192

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
    DIR *dir = fdopendir(fcntl(root, F_DUPFD_CLOEXEC, 0));
    struct dirent *entry;

    if (dir == NULL) {
        return 0;
    }
    rewinddir(dir);
    for (entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
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

static void forget_old(int root)
{
    struct past oldest;
    struct err ignored = {0};

    if (find_oldest(root, &oldest) > KEPT_FOLDERS) {
        (void)!fd_remove_tree(root, oldest.name, &ignored);
    }
}

/* ---- the folder of a command ----------------------------------------------------- */

static void write_file(const struct server *s, struct task *t, const char *name, struct str text)
{
    struct err ignored = {0};

    (void)!fd_replace_file(t->kept.dir, name, text, mode_of(s), &ignored);
}

static void write_started(const struct server *s, struct task *t)
{
    struct buf text own_buf = {0};

    buf_init(&text, TEXT_MAX);
    buf_addf(&text, "%s 0 %lld exec\n%s/%s/stdout\n%s\n%s\n", t->id,
             (long long)(t->started_wall_ms / 1000), s->spec->kept_dir, t->id, t->cwd, t->head);
    write_file(s, t, "started", buf_str(&text));
}

/* With the time of its birth, by which a pid that was used again is told apart. */
static void write_process(const struct server *s, struct task *t, const char *name, pid_t pid)
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
        return;
    }
    n = snprintf(line, sizeof(line), "%s %d %llu\n", t->id, (int)pid, is.start);
    write_file(s, t, name, (struct str){line, (size_t)n});
}

static void begin(struct server *s, struct task *t)
{
    int root own_fd = -1;

    t->kept.is_begun = true;
    if (!is_name(t->id)) {
        return;
    }
    root = open_root(s);
    if (root < 0 || mkdirat(root, t->id, s->spec->is_plain ? 0700 : 0755) < 0) {
        return;
    }
    forget_old(root);
    t->kept.dir = openat(root, t->id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (t->kept.dir < 0) {
        return;
    }
    for (int i = 0; i < 2; i++) {
        t->kept.fd[i] = openat(t->kept.dir, stream_names[i],
                               O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, mode_of(s));
    }
    if (!t->reaped) {
        write_process(s, t, "job", t->pid);
    }
    write_process(s, t, "keeper", getpid());
    write_started(s, t);
}

/* ---- streams --------------------------------------------------------------------- */

static void put(struct task *t, int i, struct str bytes)
{
    struct err ignored = {0};

    if (t->kept.fd[i] >= 0 && fd_write_all(t->kept.fd[i], bytes, &ignored) < 0) {
        (void)close(take_fd(&t->kept.fd[i])); /* a full disk: what is there stays */
    }
}

/* What the spool has and the file does not. */
static void catch_up(struct task *t, int i)
{
    const struct capture *spool = &t->spool[i];
    char text[96];

    while (t->kept.at[i] < spool->total) {
        uint64_t at = t->kept.at[i];
        struct str bytes = capture_at(spool, &at);

        if (bytes.len == 0) {
            return;
        }
        if (at > t->kept.at[i]) {
            int n = snprintf(text, sizeof(text), "\n... [%llu bytes were not kept] ...\n",
                             (unsigned long long)(at - t->kept.at[i]));

            put(t, i, (struct str){text, (size_t)n});
        }
        put(t, i, bytes);
        t->kept.at[i] = at + bytes.len;
    }
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
    if (t->kept.is_begun && (t->client == NULL || t->kept.at[stream] < KEPT_MOST)) {
        catch_up(t, stream);
    }
}

/* ---- the end --------------------------------------------------------------------- */

/* Without it, on a full disk, nobody is to wait for our word. */
static void write_status(const struct server *s, struct task *t)
{
    struct err ignored = {0};
    char line[160];
    bool killed = t->ending.how == END_SIGNALED;
    int code = (int)t->ending.code;
    int n = snprintf(line, sizeof(line), "%s %s %d %d %lld\n", t->id, killed ? "signal" : "exit",
                     killed ? 128 + code : code, killed ? code : 0,
                     (long long)(clock_wall_ms() / 1000));

    t->kept.is_told = true;
    if (fd_replace_file(t->kept.dir, "status", (struct str){line, (size_t)n}, mode_of(s),
                        &ignored) < 0) {
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
        write_status(s, t);
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
    struct err ignored = {0};

    for (int i = 0; i < 2; i++) {
        if (t->kept.fd[i] >= 0) {
            (void)close(take_fd(&t->kept.fd[i]));
        }
    }
    if (t->kept.dir < 0) {
        return;
    }
    (void)close(take_fd(&t->kept.dir));
    if (t->is_delivered) {
        int root own_fd = open_root(s);

        (void)!fd_remove_tree(root, t->id, &ignored);
    }
}
