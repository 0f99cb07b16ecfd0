/*
 * store.c - one connection per process, opened by the first operation.
 *
 * The connection is guarded by store.lock, which is held for the few milliseconds of
 * one operation and never across a callback. Other processes have the same file open:
 * WAL lets readers go on beside one writer, and a writer that finds another one waits
 * for at most BUSY_MS. Before each operation the file is looked at by name, so that a
 * state folder that was removed or replaced under us is noticed and opened anew.
 */
#include "store/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/own.h"
#include "store/db.h"

#define BUSY_MS   5000
#define FILE_NAME "anybox.db"

struct store *store_new(struct str state_dir)
{
    struct store *s = xcalloc(1, sizeof(*s));
    size_t size = state_dir.len + sizeof("/" FILE_NAME);

    s->dir = xmemdup(state_dir.p, state_dir.len);
    s->path = xcalloc(1, size);
    (void)snprintf(s->path, size, "%s/%s", s->dir, FILE_NAME);
    (void)pthread_mutex_init(&s->lock, NULL);
    return s;
}

const char *store_library(void)
{
    return sqlite3_libversion();
}

void db_close(struct store *s)
{
    for (size_t i = 0; i < s->n_kept; i++) {
        (void)sqlite3_finalize(s->kept[i].stmt);
    }
    s->n_kept = 0;
    if (s->db != NULL) {
        (void)sqlite3_close(s->db);
        s->db = NULL;
    }
}

void store_free(struct store *s)
{
    if (s == NULL) {
        return;
    }
    db_close(s);
    (void)pthread_mutex_destroy(&s->lock);
    free(s->path);
    free(s->dir);
    free(s);
}

/* ---- errors --------------------------------------------------------------------- */

static int fail_damaged(struct store *s, struct err *e)
{
    return err_set(e, ERR_SYSTEM,
                   "the database %s is damaged (%s): move it away together with %s-wal and "
                   "%s-shm; a new one is made by itself",
                   s->path, sqlite3_errmsg(s->db), FILE_NAME, FILE_NAME);
}

static int fail_full(struct store *s, struct err *e)
{
    return err_set(e, ERR_LIMIT,
                   "no space left for the database %s: free some, or set ANYBOX_HOME to a folder "
                   "on another disk",
                   s->path);
}

static int fail_readonly(struct store *s, struct err *e)
{
    return err_set(e, ERR_DENIED,
                   "the database %s cannot be written: set ANYBOX_HOME to a folder that can",
                   s->path);
}

int db_fail(struct store *s, struct err *e)
{
    int code = sqlite3_errcode(s->db);

    switch (code & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB: return fail_damaged(s, e);
    case SQLITE_FULL: return fail_full(s, e);
    case SQLITE_READONLY: return fail_readonly(s, e);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return err_set(e, ERR_UNREACHABLE,
                       "the database %s is busy: another process has held it for %d s; try again",
                       s->path, BUSY_MS / 1000);
    default: break;
    }
    if (sqlite3_system_errno(s->db) == ENOSPC || sqlite3_system_errno(s->db) == EDQUOT) {
        return fail_full(s, e);
    }
    return err_set(e, ERR_SYSTEM, "the database %s: %s (%d)", s->path, sqlite3_errmsg(s->db),
                   sqlite3_extended_errcode(s->db));
}

/* ---- statements ------------------------------------------------------------------- */

/* The place for one more: that of the one which was not used for longest, when all are taken.
 * Whoever holds some has used them since. */
static struct db_kept *make_room(struct store *s)
{
    struct db_kept *oldest = &s->kept[0];

    if (s->n_kept < DB_KEPT) {
        return &s->kept[s->n_kept++];
    }
    for (size_t i = 1; i < s->n_kept; i++) {
        oldest = s->kept[i].used < oldest->used ? &s->kept[i] : oldest;
    }
    (void)sqlite3_finalize(oldest->stmt);
    return oldest;
}

int db_prepare(struct store *s, const char *sql, sqlite3_stmt **out, struct err *e)
{
    for (size_t i = 0; i < s->n_kept; i++) {
        if (s->kept[i].sql == sql && !sqlite3_stmt_busy(s->kept[i].stmt)) {
            s->kept[i].used = s->uses++;
            *out = s->kept[i].stmt;
            return 0;
        }
    }
    if (sqlite3_prepare_v3(s->db, sql, -1, SQLITE_PREPARE_PERSISTENT, out, NULL) != SQLITE_OK) {
        return db_fail(s, e);
    }
    *make_room(s) = (struct db_kept){.sql = sql, .stmt = *out, .used = s->uses++};
    return 0;
}

/* Binding fails only for a wrong index or without memory; db_step() would show it. */
void db_bind_str(sqlite3_stmt *stmt, int i, struct str v)
{
    (void)sqlite3_bind_text64(stmt, i, v.p != NULL ? v.p : "", v.len, SQLITE_STATIC, SQLITE_UTF8);
}

void db_bind_int(sqlite3_stmt *stmt, int i, int64_t v)
{
    (void)sqlite3_bind_int64(stmt, i, v);
}

int db_step(struct store *s, sqlite3_stmt *stmt, struct err *e)
{
    int rc = sqlite3_step(stmt);

    if (rc == SQLITE_ROW) {
        return 1;
    }
    return rc == SQLITE_DONE ? 0 : db_fail(s, e);
}

struct str db_column_str(sqlite3_stmt *stmt, int i, struct arena *a)
{
    const void *text = sqlite3_column_text(stmt, i);
    struct str view = {text, text != NULL ? (size_t)sqlite3_column_bytes(stmt, i) : 0};

    return arena_str(a, view);
}

int db_run(struct store *s, const char *sql, struct err *e)
{
    return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : db_fail(s, e);
}

int db_begin(struct store *s, struct err *e)
{
    return db_run(s, "BEGIN IMMEDIATE", e);
}

int db_end(struct store *s, int rc, struct err *e)
{
    if (rc == 0 && db_run(s, "COMMIT", e) == 0) {
        return 0;
    }
    /* Some errors have rolled back already, and then this fails, which is fine. */
    (void)sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    return -1;
}

/* ---- opening ---------------------------------------------------------------------- */

/* What we, and remote-sandbox-mcp before us (whose folders are 0755), keep in a state folder. */
static bool is_our_entry(const char *name)
{
    static const char *const known[] = {
        ".",         "..",        "boxes",  "outputs",   "pool",        "images",
        "http_keys", "token_key", "events", "transfers", "config.json",
    };

    for (size_t i = 0; i < COUNTOF(known); i++) {
        if (strcmp(known[i], name) == 0) {
            return true;
        }
    }
    return str_starts(str_from(name), S("watchdog."));
}

static void close_dir(DIR **dir)
{
    if (*dir != NULL) {
        (void)closedir(*dir);
    }
}

/* It serves nothing else: our database is in it, or nothing that is not ours. */
static bool is_our_folder(int dir)
{
    struct stat st;

    if (fstatat(dir, FILE_NAME, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        return true;
    }
    int fd own_fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *entries CLEANUP(close_dir) = fd >= 0 ? fdopendir(fd) : NULL;

    if (entries == NULL) {
        return false;
    }
    (void)take_fd(&fd);
    for (const struct dirent *d = readdir(entries); d != NULL; d = readdir(entries)) {
        if (!is_our_entry(d->d_name)) {
            return false;
        }
    }
    return true;
}

/* A folder that others may read is closed to them only when it is ours alone: root may
 * have named /usr by mistake, and then nothing must happen to it. */
static int make_private(struct store *s, int dir, struct err *e)
{
    if (!is_our_folder(dir)) {
        return err_set(e, ERR_DENIED,
                       "the state folder %s is open to other users and holds other things: set "
                       "ANYBOX_HOME to a folder of its own, or close it with chmod 700",
                       s->dir);
    }
    if (fchmod(dir, 0700) < 0) {
        return err_sys(e, errno, "make the state folder %s private", s->dir);
    }
    return 0;
}

static int check_folder(struct store *s, int dir, struct err *e)
{
    struct stat st;

    if (fstat(dir, &st) < 0) {
        return err_sys(e, errno, "the state folder %s", s->dir);
    }
    if (st.st_uid != geteuid()) {
        return err_set(e, ERR_DENIED,
                       "the state folder %s belongs to somebody else (uid %lu, we are %lu): set "
                       "ANYBOX_HOME to a folder of your own",
                       s->dir, (unsigned long)st.st_uid, (unsigned long)geteuid());
    }
    if (db_check_place(dir, s->dir, e) < 0) {
        return -1;
    }
    return (st.st_mode & 077) != 0 ? make_private(s, dir, e) : 0;
}

/* The file exists and is private before SQLite sees it; its companions take its mode. A
 * file that is there is never opened here: closing it would drop this process's locks. */
static int prepare_file(struct store *s, int dir, struct err *e)
{
    struct stat st;

    if (fstatat(dir, FILE_NAME, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        if (!S_ISREG(st.st_mode)) {
            return err_set(e, ERR_INVALID, "%s is not a file: move it away", s->path);
        }
        if ((st.st_mode & 077) != 0 && fchmodat(dir, FILE_NAME, 0600, 0) < 0) {
            return err_sys(e, errno, "make the database %s private", s->path);
        }
        return 0;
    }
    int fd own_fd = openat(dir, FILE_NAME, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    if (fd < 0 && errno != EEXIST) {
        return err_sys(e, errno, "make the database %s (ANYBOX_HOME names another folder)",
                       s->path);
    }
    return 0;
}

static int prepare_folder(struct store *s, struct err *e)
{
    if (fd_mkdirs(s->dir, 0700, e) < 0) {
        return err_wrap(e, "make the state folder %s (ANYBOX_HOME names another one)", s->dir);
    }
    int dir own_fd = open(s->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (dir < 0) {
        return err_sys(e, errno, "open the state folder %s (ANYBOX_HOME names another one)",
                       s->dir);
    }
    if (check_folder(s, dir, e) < 0) {
        return -1;
    }
    return prepare_file(s, dir, e);
}

static int set_wal(struct store *s, struct err *e)
{
    sqlite3_stmt *stmt own_stmt = NULL;
    int rc;

    if (db_prepare(s, "PRAGMA journal_mode = WAL", &stmt, e) < 0) {
        return -1;
    }
    rc = db_step(s, stmt, e);
    if (rc < 0) {
        return -1;
    }
    if (rc == 0 || !str_eq_nocase(str_from((const char *)sqlite3_column_text(stmt, 0)), S("wal"))) {
        return err_set(e, ERR_UNSUPPORTED,
                       "the file system of %s cannot share a database between processes: set "
                       "ANYBOX_HOME to a local folder",
                       s->dir);
    }
    return 0;
}

/* The first switch to WAL does not use the busy handler: two processes that begin with
 * the same new file would fail at once. */
static int set_wal_patiently(struct store *s, struct err *e)
{
    int64_t until = clock_mono_ms() + BUSY_MS;

    while (set_wal(s, e) < 0) {
        if (e->kind != ERR_UNREACHABLE || clock_mono_ms() >= until) {
            return -1;
        }
        (void)sqlite3_sleep(5); /* as its busy handler would */
    }
    return 0;
}

static int set_up(struct store *s, struct err *e)
{
    (void)sqlite3_busy_timeout(s->db, BUSY_MS);
    if (sqlite3_db_readonly(s->db, "main") == 1) {
        return fail_readonly(s, e);
    }
    if (set_wal_patiently(s, e) < 0) {
        return -1;
    }
    if (db_run(s, "PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON", e) < 0) {
        return -1;
    }
    return db_migrate(s, e);
}

static bool is_same_file(const struct store *s)
{
    struct stat st;

    return stat(s->path, &st) == 0 && st.st_dev == s->dev && st.st_ino == s->ino;
}

static int open_file(struct store *s, struct err *e)
{
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
    struct stat st;

    if (sqlite3_open_v2(s->path, &s->db, flags, NULL) != SQLITE_OK) {
        if (s->db == NULL) {
            return err_set(e, ERR_LIMIT, "open the database %s: out of memory", s->path);
        }
        return db_fail(s, e);
    }
    if (stat(s->path, &st) < 0) {
        return err_sys(e, errno, "the database %s", s->path);
    }
    s->dev = st.st_dev;
    s->ino = st.st_ino;
    return set_up(s, e);
}

int db_open(struct store *s, struct err *e)
{
    if (s->db != NULL && is_same_file(s)) {
        return 0;
    }
    db_close(s);
    if (prepare_folder(s, e) < 0) {
        return -1;
    }
    if (open_file(s, e) < 0) {
        db_close(s);
        return -1;
    }
    return 0;
}
