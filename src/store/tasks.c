/* tasks.c - the SQL of the tasks table. */
#include "store/db.h"
#include "store/store.h"

#define COLUMNS                                                                                    \
    "id, owner, box_id, name, log, dir, command, state, exit_code, signal, created_ms, ended_ms"

static void read_row(sqlite3_stmt *stmt, struct arena *a, struct task_row *out)
{
    *out = (struct task_row){
        .id = db_column_str(stmt, 0, a),
        .owner = db_column_str(stmt, 1, a),
        .box_id = db_column_str(stmt, 2, a),
        .name = db_column_str(stmt, 3, a),
        .log = db_column_str(stmt, 4, a),
        .dir = db_column_str(stmt, 5, a),
        .command = db_column_str(stmt, 6, a),
        .state = db_column_str(stmt, 7, a),
        .exit_code = sqlite3_column_int64(stmt, 8),
        .signal = sqlite3_column_int64(stmt, 9),
        .created_ms = sqlite3_column_int64(stmt, 10),
        .ended_ms = sqlite3_column_int64(stmt, 11),
    };
}

int store_add_task(struct store *s, const struct task_row *row, struct err *e)
{
    LOCKED(&s->lock);
    sqlite3_stmt *stmt own_stmt = NULL;

    if (db_open(s, e) < 0 ||
        db_prepare(s,
                   "INSERT INTO tasks (" COLUMNS
                   ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
                   &stmt, e) < 0) {
        return -1;
    }
    db_bind_str(stmt, 1, row->id);
    db_bind_str(stmt, 2, row->owner);
    db_bind_str(stmt, 3, row->box_id);
    db_bind_str(stmt, 4, row->name);
    db_bind_str(stmt, 5, row->log);
    db_bind_str(stmt, 6, row->dir);
    db_bind_str(stmt, 7, row->command);
    db_bind_str(stmt, 8, row->state);
    db_bind_int(stmt, 9, row->exit_code);
    db_bind_int(stmt, 10, row->signal);
    db_bind_int(stmt, 11, row->created_ms);
    db_bind_int(stmt, 12, row->ended_ms);
    return db_step(s, stmt, e) < 0 ? -1 : 0;
}

int store_task_begun(struct store *s, struct str id, struct str log, struct str dir, struct err *e)
{
    LOCKED(&s->lock);
    sqlite3_stmt *stmt own_stmt = NULL;

    if (db_open(s, e) < 0 ||
        db_prepare(s,
                   "UPDATE tasks SET log = ?2, dir = ?3, state = 'running' WHERE id = ?1 AND "
                   "ended_ms = 0",
                   &stmt, e) < 0) {
        return -1;
    }
    db_bind_str(stmt, 1, id);
    db_bind_str(stmt, 2, log);
    db_bind_str(stmt, 3, dir);
    return db_step(s, stmt, e) < 0 ? -1 : 0;
}

int store_task_seen(struct store *s, const struct task_row *row, struct err *e)
{
    LOCKED(&s->lock);
    sqlite3_stmt *stmt own_stmt = NULL;

    if (db_open(s, e) < 0 || db_prepare(s,
                                        "UPDATE tasks SET state = ?2, exit_code = ?3, signal = ?4, "
                                        "ended_ms = ?5 WHERE id = ?1 AND ended_ms = 0",
                                        &stmt, e) < 0) {
        return -1;
    }
    db_bind_str(stmt, 1, row->id);
    db_bind_str(stmt, 2, row->state);
    db_bind_int(stmt, 3, row->exit_code);
    db_bind_int(stmt, 4, row->signal);
    db_bind_int(stmt, 5, row->ended_ms);
    return db_step(s, stmt, e) < 0 ? -1 : 0;
}

int store_drop_task(struct store *s, struct str id, struct err *e)
{
    LOCKED(&s->lock);
    sqlite3_stmt *stmt own_stmt = NULL;

    if (db_open(s, e) < 0 || db_prepare(s, "DELETE FROM tasks WHERE id = ?1", &stmt, e) < 0) {
        return -1;
    }
    db_bind_str(stmt, 1, id);
    return db_step(s, stmt, e) < 0 ? -1 : 0;
}

static int one_row(struct store *s, sqlite3_stmt *stmt, struct arena *a, struct task_row *out,
                   struct err *e)
{
    int rc = db_step(s, stmt, e);

    if (rc < 0) {
        return -1;
    }
    if (rc == 0) {
        return err_set(e, ERR_NOT_FOUND, "no such task is known here");
    }
    read_row(stmt, a, out);
    return 0;
}

int store_task_by_id(struct store *s, struct arena *a, struct str owner, struct str id,
                     struct task_row *out, struct err *e)
{
    LOCKED(&s->lock);
    sqlite3_stmt *stmt own_stmt = NULL;

    if (db_open(s, e) < 0 ||
        db_prepare(s, "SELECT " COLUMNS " FROM tasks WHERE id = ?1 AND owner = ?2", &stmt, e) < 0) {
        return -1;
    }
    db_bind_str(stmt, 1, id);
    db_bind_str(stmt, 2, owner);
    return one_row(s, stmt, a, out, e);
}

int store_task_by_name(struct store *s, struct arena *a, struct str owner, struct str box_id,
                       struct str name, struct str log, struct task_row *out, struct err *e)
{
    LOCKED(&s->lock);
    sqlite3_stmt *stmt own_stmt = NULL;
    const char *sql = name.len > 0 ? "SELECT " COLUMNS " FROM tasks INDEXED BY tasks_by_name "
                                     "WHERE owner = ?1 AND name = ?3 AND (?4 = '' OR log = ?4) "
                                     "AND (?2 = '' OR box_id = ?2) ORDER BY seq DESC LIMIT 1"
                                   : "SELECT " COLUMNS " FROM tasks INDEXED BY tasks_by_log "
                                     "WHERE owner = ?1 AND log = ?4 AND (?2 = '' OR box_id = ?2) "
                                     "AND ?3 = '' ORDER BY seq DESC LIMIT 1";

    if (db_open(s, e) < 0 || db_prepare(s, sql, &stmt, e) < 0) {
        return -1;
    }
    db_bind_str(stmt, 1, owner);
    db_bind_str(stmt, 2, box_id);
    db_bind_str(stmt, 3, name);
    db_bind_str(stmt, 4, log);
    return one_row(s, stmt, a, out, e);
}

/* The rows as a list, so that the database is not locked while they are used. */
static int collect(struct store *s, struct arena *a, struct str owner, struct str box_id,
                   int64_t max, struct task_row **rows, size_t *n, struct err *e)
{
    LOCKED(&s->lock);
    sqlite3_stmt *stmt own_stmt = NULL;
    int rc;

    *rows = arena_alloc(a, (size_t)max, sizeof(**rows));
    *n = 0;
    if (db_open(s, e) < 0 ||
        db_prepare(s,
                   box_id.len > 0 ? "SELECT " COLUMNS
                                    " FROM tasks INDEXED BY tasks_by_box WHERE owner = ?1 "
                                    "AND box_id = ?2 ORDER BY seq DESC LIMIT ?3"
                                  : "SELECT " COLUMNS " FROM tasks NOT INDEXED WHERE owner = ?1 "
                                    "AND ?2 = '' ORDER BY seq DESC LIMIT ?3",
                   &stmt, e) < 0) {
        return -1;
    }
    db_bind_str(stmt, 1, owner);
    db_bind_str(stmt, 2, box_id);
    db_bind_int(stmt, 3, max);
    for (rc = db_step(s, stmt, e); rc > 0; rc = db_step(s, stmt, e)) {
        read_row(stmt, a, &(*rows)[(*n)++]);
    }
    return rc;
}

int store_each_task(struct store *s, struct arena *a, struct str owner, struct str box_id,
                    int64_t max, task_row_fn *each, void *arg, struct err *e)
{
    struct task_row *rows;
    size_t n;

    if (collect(s, a, owner, box_id, max, &rows, &n, e) < 0) {
        return -1;
    }
    for (size_t i = 0; i < n; i++) {
        if (each(arg, &rows[i], e) < 0) {
            return -1;
        }
    }
    return 0;
}

int store_prune_tasks(struct store *s, int64_t created_before_ms, struct err *e)
{
    LOCKED(&s->lock);
    sqlite3_stmt *stmt own_stmt = NULL;

    if (db_open(s, e) < 0 ||
        db_prepare(s, "DELETE FROM tasks WHERE created_ms < ?1", &stmt, e) < 0) {
        return -1;
    }
    db_bind_int(stmt, 1, created_before_ms);
    return db_step(s, stmt, e) < 0 ? -1 : 0;
}
