/*
 * db.h - the connection, for the files of this folder only (and their tests).
 *
 * Every operation takes the lock (LOCKED(&s->lock)), calls db_open() and then works
 * with statements. A statement is a local with own_stmt declared behind the lock, so that
 * it is given back before the lock is let go: to make one takes longer than to run it, so
 * they are kept for the next time.
 */
#ifndef STORE_DB_H
#define STORE_DB_H

#include <pthread.h>
#include <sys/types.h>

#include <sqlite3.h>

#include "base/thread.h"
#include "store/store.h"

#define DB_KEPT 64 /* statements: more than there are kinds of them */

struct db_kept {
    const char *sql; /* a constant: the same place is the same text */
    sqlite3_stmt *stmt;
    uint64_t used; /* the store's uses, then */
};

struct store {
    char *dir;
    char *path; /* of the database */
    pthread_mutex_t lock;
    sqlite3 *db; /* NULL: not open; guarded by lock, as what follows */
    dev_t dev;   /* which file it is, to notice that it was removed or replaced */
    ino_t ino;
    struct db_kept kept[DB_KEPT];
    size_t n_kept;
    uint64_t uses;
};

/* Opens and migrates when needed. */
int db_open(struct store *s, struct err *e) MUST_CHECK;
void db_close(struct store *s);

/* `sql` is a literal. */
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

/* The store has it still. NULL is fine. */
static inline void db_give_back_(sqlite3_stmt **stmt)
{
    (void)sqlite3_reset(*stmt);
    if (*stmt != NULL) {
        (void)sqlite3_clear_bindings(*stmt);
    }
}
#define own_stmt CLEANUP(db_give_back_)

/* schema.c */
extern const char *const db_migrations[];
extern const int db_version; /* how many migrations there are: the format we write */
int db_migrate(struct store *s, struct err *e) MUST_CHECK;

/* where.c: refuses a folder on a network file system. `type` as in statfs.f_type; `name`
 * is the mount's type, such as "fuse.sshfs", where the number does not tell. */
int db_check_place(int dir_fd, const char *dir, struct err *e) MUST_CHECK;
const char *db_network_type(unsigned long type, struct str name); /* NULL: it is local */

#endif
