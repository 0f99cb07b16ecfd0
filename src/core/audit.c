/*
 * audit.c - writing the audit log.
 *
 * One append is: lock <file>.head (flock; threads of this process wait on audit.lock first),
 * find the hash of the last line, write the new line with one write(), and bring the head up
 * to date. A process that is killed in between leaves a head that is one line behind, or a
 * line that breaks off: the next writer ends that line and goes on behind it, with the hash of
 * the bytes that are there. A file that became shorter than the head says is continued with
 * the head's hash, not with that of its last line, so that nobody's next call hides the gap.
 */
#include "core/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/own.h"
#include "base/sha256.h"
#include "base/thread.h"
#include "core/audit_own.h"
#include "core/private.h"
#include "json/js.h"

#define COMMAND_MAX 4096

struct audit {
    char *path, *head_path;
    pthread_mutex_t lock;
    int fd, head; /* this and all below: guarded by lock; -1: not open */
    int64_t lost; /* lines that could not be written */
    int64_t size; /* of the file behind our last line, whose hash is ... */
    char hash[SHA256_HEX_SIZE];
};

struct audit *audit_new(struct str path)
{
    struct audit *a = xcalloc(1, sizeof(*a));
    size_t size = path.len + sizeof(".head");

    a->path = xmemdup(path.p, path.len);
    a->head_path = xcalloc(1, size);
    (void)snprintf(a->head_path, size, "%s.head", a->path);
    (void)pthread_mutex_init(&a->lock, NULL);
    a->fd = -1;
    a->head = -1;
    return a;
}

static void close_both(struct audit *a)
{
    if (a->fd >= 0) {
        (void)close(a->fd);
    }
    if (a->head >= 0) {
        (void)close(a->head);
    }
    a->fd = -1;
    a->head = -1;
    a->size = -1;
}

void audit_free(struct audit *a)
{
    if (a == NULL) {
        return;
    }
    close_both(a);
    (void)pthread_mutex_destroy(&a->lock);
    free(a->path);
    free(a->head_path);
    free(a);
}

/* ---- opening --------------------------------------------------------------------------- */

static int open_one(const char *path, int flags, struct err *e)
{
    int fd =
        open(path, flags | O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK, 0600);
    struct stat st;

    if (fd < 0) {
        return err_sys(e, errno, "open %s", path);
    }
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        (void)close(fd);
        return err_set(e, ERR_INVALID, "%s is not a file", path);
    }
    return fd;
}

/* A file that was moved away is left to whoever moved it. */
static bool is_moved(const struct audit *a)
{
    struct stat ours, there;

    return fstat(a->fd, &ours) < 0 || lstat(a->path, &there) < 0 || ours.st_ino != there.st_ino ||
           ours.st_dev != there.st_dev;
}

static int need_open(struct audit *a, struct err *e)
{
    if (a->fd >= 0 && is_moved(a)) {
        close_both(a);
    }
    if (a->fd < 0) {
        a->fd = open_one(a->path, O_APPEND, e);
        a->head = a->fd >= 0 ? open_one(a->head_path, 0, e) : -1;
        a->size = -1;
    }
    if (a->fd < 0 || a->head < 0) {
        close_both(a);
        return err_wrap(e, "the audit log");
    }
    return 0;
}

/* ---- what the next line must carry --------------------------------------------------------- */

/* The last line of the file, without its newline; *torn: it has none. */
static int read_last_line(int fd, int64_t size, struct buf *line, bool *torn, struct err *e)
{
    int64_t from = size > AUDIT_LINE_MAX ? size - AUDIT_LINE_MAX : 0;
    char *room = buf_room(line, AUDIT_LINE_MAX);
    ssize_t got = pread(fd, room, (size_t)(size - from), (off_t)from);

    if (got != (ssize_t)(size - from)) {
        return err_sys(e, got < 0 ? errno : EIO, "read the audit log");
    }
    line->len = (size_t)got;
    *torn = line->len > 0 && line->p[line->len - 1] != '\n';
    line->len -= line->len > 0 && !*torn ? 1 : 0;
    for (size_t at = line->len; at > 0; at--) {
        if (line->p[at - 1] == '\n') {
            buf_drop(line, at);
            break;
        }
    }
    return 0;
}

/* Into a->hash: of the last line of the file as it is. Ends a line that breaks off. */
static int hash_of_last(struct audit *a, int64_t size, struct err *e)
{
    struct buf line own_buf = {0};
    bool torn = false;

    buf_init(&line, AUDIT_LINE_MAX + 1);
    if (read_last_line(a->fd, size, &line, &torn, e) < 0 ||
        (torn && fd_write_all(a->fd, S("\n"), e) < 0)) {
        return -1;
    }
    audit_hash_line(buf_str(&line), a->hash);
    return 0;
}

static int find_previous(struct audit *a, struct err *e)
{
    struct audit_head head;
    struct stat st;

    if (fstat(a->fd, &st) < 0 || audit_read_head(a->head, &head) < 0) {
        return err_sys(e, errno, "read %s", a->head_path);
    }
    if (a->size == st.st_size) {
        return 0;
    }
    if (head.size > st.st_size || (st.st_size == 0 && head.size > 0)) {
        (void)snprintf(a->hash, sizeof(a->hash), "%s", head.hash);
        return 0;
    }
    if (st.st_size == 0) {
        (void)snprintf(a->hash, sizeof(a->hash), "%s", AUDIT_NO_HASH);
        return 0;
    }
    return hash_of_last(a, st.st_size, e);
}

/* ---- writing ---------------------------------------------------------------------------------- */

static void add_text(json_t *o, const char *key, struct str s)
{
    if (s.len > 0) {
        (void)json_object_set_new(o, key, js_string(s));
    }
}

static void add_line(struct buf *to, const struct audit_entry *entry, const char *previous)
{
    json_t *o own_json = json_object();
    char when[CLOCK_RFC3339_SIZE];

    add_text(o, "time", str_from(clock_rfc3339(clock_wall_ms(), when)));
    add_text(o, "who", entry->who.len > 0 ? entry->who : S("user"));
    add_text(o, "transport", entry->transport);
    add_text(o, "request", str_head(entry->request, 128));
    add_text(o, "call", entry->call);
    add_text(o, "tool", entry->tool);
    add_text(o, "box", entry->box);
    add_text(o, "arguments", entry->digest);
    add_text(o, "command", str_head(entry->command, COMMAND_MAX));
    add_text(o, "outcome", entry->outcome);
    (void)json_object_set_new(o, "ms", json_integer(entry->ms));
    add_text(o, "prev", str_from(previous));
    js_dump(o, to);
}

/* head is locked. */
static int append(struct audit *a, const struct audit_entry *entry, struct err *e)
{
    struct buf line own_buf = {0};
    struct stat st;

    if (find_previous(a, e) < 0) {
        return -1;
    }
    buf_init(&line, AUDIT_LINE_MAX);
    add_line(&line, entry, a->hash);
    audit_hash_line(buf_str(&line), a->hash);
    buf_addc(&line, '\n');
    a->size = -1; /* until all is written */
    if (fd_write_all(a->fd, buf_str(&line), e) < 0) {
        return err_wrap(e, "write the audit log %s", a->path);
    }
    if (fstat(a->fd, &st) < 0 || audit_write_head(a->head, st.st_size, a->hash) < 0) {
        return err_sys(e, errno, "write %s", a->head_path);
    }
    a->size = st.st_size;
    return 0;
}

/* The lock is held. */
static int write_one(struct audit *a, const struct audit_entry *entry, struct err *e)
{
    int rc;

    if (need_open(a, e) < 0) {
        return -1;
    }
    if (private_lock_fd(a->head, e) < 0) {
        return err_wrap(e, "the audit log");
    }
    rc = append(a, entry, e);
    (void)flock(a->head, LOCK_UN);
    return rc;
}

int audit_ready(struct audit *a, struct err *e)
{
    char outcome[48];
    struct audit_entry note = {.tool = S("(audit)")};

    LOCKED(&a->lock);
    (void)snprintf(outcome, sizeof(outcome), "%lld lines were lost", (long long)a->lost);
    note.outcome = str_from(outcome);
    if (need_open(a, e) < 0 || (a->lost > 0 && write_one(a, &note, e) < 0)) {
        return err_wrap(e, "nothing is run that cannot be recorded");
    }
    a->lost = 0;
    return 0;
}

int audit_write(struct audit *a, const struct audit_entry *entry, struct err *e)
{
    LOCKED(&a->lock);
    if (write_one(a, entry, e) < 0) {
        a->lost++;
        return -1;
    }
    return 0;
}
