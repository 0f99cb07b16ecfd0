/*
 * db.h - the connection, for the files of this folder only (and their tests).
 *
 * Every operation takes the lock (LOCKED(&s->lock)), calls db_open() and then works
 * with statements of its own. A statement is a local with own_stmt declared behind
 * the lock, so that it is finalized before the lock is let go.
 */
#ifndef STORE_DB_H
#define STORE_DB_H

#include <pthread.h>
#include <sys/types.h>

#include <sqlite3.h>

#include "base/thread.h"
#include "store/store.h"

struct store {
    char *dir;
    char *path; /* of the database */
    pthread_mutex_t lock;
    sqlite3 *db; /* NULL: not open; guarded by lock, as what follows */
    dev_t dev;   /* which file it is, to notice that it was removed or replaced */
    ino_t ino;
};

/* Opens and migrates when needed. */
int db_open(struct store *s, struct err *e) MUST_CHECK;
void db_close(struct store *s);

int db_prepare(struct store *s, const char *sql, sqlite3_stmt **out, struct err *e) MUST_CHECK;
void db_bind_str(sqlite3_stmt *stmt, int i, struct str v);
void db_bind_int(sqlite3_stmt *stmt, int i, int64_t v);
/* 1: there is a row; 0: done. */
int db_step(struct store *s, sqlite3_stmt *stmt, struct err *e) MUST_CHECK;
struct str db_column_str(sqlite3_stmt *stmt, int i, struct arena *a);
/* Statements without results or parameters. */
int db_run(struct store *s, const char *sql, struct err *e) MUST_CHECK;
/* The last error of the connection as a sentence that says what to do. */
int db_fail(struct store *s, struct err *e);

int db_begin(struct store *s, struct err *e) MUST_CHECK; /* BEGIN IMMEDIATE */
/* COMMIT when rc is 0, else ROLLBACK. Returns rc, or -1 when the commit failed. */
int db_end(struct store *s, int rc, struct err *e) MUST_CHECK;

static inline void db_finalize_(sqlite3_stmt **stmt)
{
    (void)sqlite3_finalize(*stmt);
}
#define own_stmt CLEANUP(db_finalize_)

/* schema.c */
extern const char *const db_migrations[];
extern const int db_version; /* how many migrations there are: the format we write */
int db_migrate(struct store *s, struct err *e) MUST_CHECK;

/* where.c: refuses a folder on a network file system. `type` as in statfs.f_type; `name`
 * is the mount's type, such as "fuse.sshfs", where the number does not tell. */
int db_check_place(int dir_fd, const char *dir, struct err *e) MUST_CHECK;
const char *db_network_type(unsigned long type, struct str name); /* NULL: it is local */

#endif
