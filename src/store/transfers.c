/* transfers.c - the SQL of the transfers table. */
#include "store/transfers.h"

#include "base/clock.h"
#include "store/db.h"

#define COLUMNS                                                                                    \
    "id, owner, down, box_id, box_name, local, remote, options, state, pid, pid_start, boot, "     \
    "lease_ms, phase, path, is_file, dirs, files, files_total, unchanged, bytes, bytes_total, "    \
    "deleted_files, deleted_dirs, failed, note, rate, used_ms, error, log_file, created_ms, "      \
    "started_ms, finished_ms, updated_ms"

/* What a worker tells; parameters 11 to 25. */
#define SET_PROGRESS                                                                               \
    "phase = ?11, path = ?12, is_file = ?13, dirs = ?14, files = ?15, files_total = ?16, "         \
    "unchanged = ?17, bytes = ?18, bytes_total = ?19, deleted_files = ?20, deleted_dirs = ?21, "   \
    "failed = ?22, note = ?23, rate = ?24, used_ms = ?25"

/* The row that a worker holds; parameters 1 to 4. */
#define HELD_BY "id = ?1 AND pid = ?2 AND pid_start = ?3 AND boot = ?4"

static struct transfer_progress read_progress(sqlite3_stmt *stmt, struct arena *a, int at)
{
    return (struct transfer_progress){
        .phase = db_column_str(stmt, at, a),
        .path = db_column_str(stmt, at + 1, a),
        .is_file = sqlite3_column_int(stmt, at + 2) != 0,
        .dirs = sqlite3_column_int64(stmt, at + 3),
        .files = sqlite3_column_int64(stmt, at + 4),
        .files_total = sqlite3_column_int64(stmt, at + 5),
        .unchanged = sqlite3_column_int64(stmt, at + 6),
        .bytes = sqlite3_column_int64(stmt, at + 7),
        .bytes_total = sqlite3_column_int64(stmt, at + 8),
        .deleted_files = sqlite3_column_int64(stmt, at + 9),
        .deleted_dirs = sqlite3_column_int64(stmt, at + 10),
        .failed = sqlite3_column_int64(stmt, at + 11),
        .note = db_column_str(stmt, at + 12, a),
        .rate = sqlite3_column_int64(stmt, at + 13),
        .used_ms = sqlite3_column_int64(stmt, at + 14),
    };
}

static void read_row(sqlite3_stmt *stmt, struct arena *a, struct transfer_row *out)
{
    *out = (struct transfer_row){
        .id = sqlite3_column_int64(stmt, 0),
        .owner = db_column_str(stmt, 1, a),
        .down = sqlite3_column_int(stmt, 2) != 0,
        .box_id = db_column_str(stmt, 3, a),
        .box_name = db_column_str(stmt, 4, a),
        .local = db_column_str(stmt, 5, a),
        .remote = db_column_str(stmt, 6, a),
        .options = db_column_str(stmt, 7, a),
        .state = (enum transfer_state)sqlite3_column_int(stmt, 8),
        .proc = {sqlite3_column_int64(stmt, 9), sqlite3_column_int64(stmt, 10),
                 db_column_str(stmt, 11, a)},
        .lease_ms = sqlite3_column_int64(stmt, 12),
        .progress = read_progress(stmt, a, 13),
        .error = db_column_str(stmt, 28, a),
        .log_file = db_column_str(stmt, 29, a),
        .created_ms = sqlite3_column_int64(stmt, 30),
        .started_ms = sqlite3_column_int64(stmt, 31),
        .finished_ms = sqlite3_column_int64(stmt, 32),
        .updated_ms = sqlite3_column_int64(stmt, 33),
    };
}

static void bind_progress(sqlite3_stmt *stmt, const struct transfer_progress *p)
{
    db_bind_str(stmt, 11, p->phase);
    db_bind_str(stmt, 12, p->path);
    db_bind_int(stmt, 13, p->is_file);
    db_bind_int(stmt, 14, p->dirs);
    db_bind_int(stmt, 15, p->files);
    db_bind_int(stmt, 16, p->files_total);
    db_bind_int(stmt, 17, p->unchanged);
    db_bind_int(stmt, 18, p->bytes);
    db_bind_int(stmt, 19, p->bytes_total);
    db_bind_int(stmt, 20, p->deleted_files);
    db_bind_int(stmt, 21, p->deleted_dirs);
    db_bind_int(stmt, 22, p->failed);
    db_bind_str(stmt, 23, p->note);
    db_bind_int(stmt, 24, p->rate);
    db_bind_int(stmt, 25, p->used_ms);
}

/* Parameters 1 to 5 of every change: the row, a process, and now. */
static void bind_held(sqlite3_stmt *stmt, int64_t id, const struct transfer_proc *proc)
{
    db_bind_int(stmt, 1, id);
    db_bind_int(stmt, 2, proc->pid);
    db_bind_int(stmt, 3, proc->start);
    db_bind_str(stmt, 4, proc->boot);
    db_bind_int(stmt, 5, clock_wall_ms());
}

static int change(struct store *s, sqlite3_stmt *stmt, struct err *e)
{
    return db_step(s, stmt, e) < 0 ? -1 : sqlite3_changes(s->db) > 0;
}

/* ---- adding and looking ---------------------------------------------------------- */

static int insert(struct store *s, const struct transfer_row *row, struct err *e)
{
    sqlite3_stmt *stmt own_stmt = NULL;

    if (db_prepare(s,
                   "INSERT INTO transfers (owner, down, box_id, box_name, local, remote, options, "
                   "state, pid, pid_start, boot, lease_ms, created_ms, updated_ms, files_total, "
                   "bytes_total, unchanged) VALUES (?6, ?7, ?8, ?9, ?10, ?11, ?12, 0, ?2, ?3, ?4, "
                   "?13, ?5, ?5, ?14, ?15, ?16)",
                   &stmt, e) < 0) {
        return -1;
    }
    bind_held(stmt, 0, &row->proc);
    db_bind_str(stmt, 6, row->owner);
    db_bind_int(stmt, 7, row->down);
    db_bind_str(stmt, 8, row->box_id);
    db_bind_str(stmt, 9, row->box_name);
    db_bind_str(stmt, 10, row->local);
    db_bind_str(stmt, 11, row->remote);
    db_bind_str(stmt, 12, row->options);
    db_bind_int(stmt, 13, row->lease_ms);
    db_bind_int(stmt, 14, row->progress.files_total);
    db_bind_int(stmt, 15, row->progress.bytes_total);
    db_bind_int(stmt, 16, row->progress.unchanged);
    return db_step(s, stmt, e) < 0 ? -1 : 0;
}

static int name_log(struct store *s, struct str log_dir, int64_t id, struct err *e)
{
    sqlite3_stmt *stmt own_stmt = NULL;

    if (db_prepare(s,
                   "UPDATE transfers SET log_file = ?2 || '/transfer-' || id || '.log' "
                   "WHERE id = ?1",
                   &stmt, e) < 0) {
        return -1;
    }
    db_bind_int(stmt, 1, id);
    db_bind_str(stmt, 2, log_dir);
    return db_step(s, stmt, e) < 0 ? -1 : 0;
}

static int add(struct store *s, const struct transfer_row *row, struct str log_dir, int64_t *out,
               struct err *e)
{
    if (insert(s, row, e) < 0) {
        return -1;
    }
    *out = sqlite3_last_insert_rowid(s->db);
    return name_log(s, log_dir, *out, e);
}

int store_add_transfer(struct store *s, const struct transfer_row *row, struct str log_dir,
                       int64_t *out, struct err *e)
{
    LOCKED(&s->lock);

    if (db_open(s, e) < 0 || db_begin(s, e) < 0) {
        return -1;
    }
    return db_end(s, add(s, row, log_dir, out, e), e);
}

static int fail_unknown(int64_t id, struct err *e)
{
    return err_set(e, ERR_NOT_FOUND,
                   "there is no transfer with the task_id %lld; check_file_transfer_task without a "
                   "task_id lists those there are",
                   (long long)id);
}

static int one_row(struct store *s, sqlite3_stmt *stmt, struct arena *a, int64_t id,
                   struct transfer_row *out, struct err *e)
{
    int rc = db_step(s, stmt, e);

    if (rc > 0) {
        read_row(stmt, a, out);
    }
    return rc > 0 ? 0 : rc < 0 ? -1 : fail_unknown(id, e);
}

int store_get_transfer(struct store *s, struct arena *a, struct str owner, int64_t id,
                       struct transfer_row *out, struct err *e)
{
    LOCKED(&s->lock);
    sqlite3_stmt *stmt own_stmt = NULL;

    if (db_open(s, e) < 0 ||
        db_prepare(s, "SELECT " COLUMNS " FROM transfers WHERE id = ?1 AND owner = ?2", &stmt, e) <
            0) {
        return -1;
    }
    db_bind_int(stmt, 1, id);
    db_bind_str(stmt, 2, owner);
    return one_row(s, stmt, a, id, out, e);
}

int store_any_transfer(struct store *s, struct arena *a, int64_t id, struct transfer_row *out,
                       struct err *e)
{
    LOCKED(&s->lock);
    sqlite3_stmt *stmt own_stmt = NULL;

    if (db_open(s, e) < 0 ||
        db_prepare(s, "SELECT " COLUMNS " FROM transfers WHERE id = ?1", &stmt, e) < 0) {
        return -1;
    }
    db_bind_int(stmt, 1, id);
    return one_row(s, stmt, a, id, out, e);
}

static int read_newest(struct store *s, struct arena *a, struct str owner, int max,
                       struct transfer_row *rows, int *n, struct err *e)
{
    LOCKED(&s->lock);
    sqlite3_stmt *stmt own_stmt = NULL;
    int rc;

    if (db_open(s, e) < 0 ||
        db_prepare(s,
                   "SELECT " COLUMNS " FROM transfers WHERE owner = ?1 ORDER BY id DESC LIMIT ?2",
                   &stmt, e) < 0) {
        return -1;
    }
    db_bind_str(stmt, 1, owner);
    db_bind_int(stmt, 2, max);
    for (rc = db_step(s, stmt, e); rc > 0 && *n < max; rc = db_step(s, stmt, e)) {
        read_row(stmt, a, &rows[(*n)++]);
    }
    return rc < 0 ? -1 : 0;
}

int store_each_transfer(struct store *s, struct arena *a, struct str owner, int max,
                        transfer_row_fn *each, void *arg, struct err *e)
{
    struct transfer_row *rows = arena_alloc(a, (size_t)max, sizeof(*rows));
    int n = 0;

    if (read_newest(s, a, owner, max, rows, &n, e) < 0) {
        return -1;
    }
    for (int i = 0; i < n; i++) {
        if (each(arg, &rows[i], e) < 0) {
            return -1;
        }
    }
    return 0;
}

int store_count_transfers(struct store *s, struct str boot, int64_t now_ms, int64_t *out,
                          struct err *e)
{
    LOCKED(&s->lock);
    sqlite3_stmt *stmt own_stmt = NULL;

    if (db_open(s, e) < 0 || db_prepare(s,
                                        "SELECT count(*) FROM transfers INDEXED BY transfers_live "
                                        "WHERE state < 2 AND boot = ?1 AND lease_ms > ?2",
                                        &stmt, e) < 0) {
        return -1;
    }
    db_bind_str(stmt, 1, boot);
    db_bind_int(stmt, 2, now_ms);
    if (db_step(s, stmt, e) < 0) {
        return -1;
    }
    *out = sqlite3_column_int64(stmt, 0);
    return 0;
}

/* ---- changing -------------------------------------------------------------------- */

int store_transfer_spawned(struct store *s, int64_t id, const struct transfer_proc *worker,
                           int64_t lease_ms, struct err *e)
{
    LOCKED(&s->lock);
    sqlite3_stmt *stmt own_stmt = NULL;

    if (db_open(s, e) < 0 ||
        db_prepare(s,
                   "UPDATE transfers SET pid = ?2, pid_start = ?3, boot = ?4, updated_ms = ?5, "
                   "lease_ms = ?6 WHERE id = ?1 AND state = 0",
                   &stmt, e) < 0) {
        return -1;
    }
    bind_held(stmt, id, worker);
    db_bind_int(stmt, 6, lease_ms);
    return change(s, stmt, e);
}

int store_claim_transfer(struct store *s, int64_t id, const struct transfer_proc *worker,
                         int64_t lease_ms, struct err *e)
{
    LOCKED(&s->lock);
    sqlite3_stmt *stmt own_stmt = NULL;

    if (db_open(s, e) < 0 ||
        db_prepare(s,
                   "UPDATE transfers SET state = 1, pid = ?2, pid_start = ?3, boot = ?4, "
                   "updated_ms = ?5, started_ms = ?5, lease_ms = ?6, phase = 'starting' "
                   "WHERE id = ?1 AND state = 0",
                   &stmt, e) < 0) {
        return -1;
    }
    bind_held(stmt, id, worker);
    db_bind_int(stmt, 6, lease_ms);
    return change(s, stmt, e);
}

int store_transfer_progress(struct store *s, int64_t id, const struct transfer_proc *worker,
                            const struct transfer_progress *progress, int64_t lease_ms,
                            struct err *e)
{
    LOCKED(&s->lock);
    sqlite3_stmt *stmt own_stmt = NULL;

    if (db_open(s, e) < 0 ||
        db_prepare(s,
                   "UPDATE transfers SET updated_ms = ?5, lease_ms = ?6, " SET_PROGRESS
                   " WHERE " HELD_BY " AND state = 1",
                   &stmt, e) < 0) {
        return -1;
    }
    bind_held(stmt, id, worker);
    db_bind_int(stmt, 6, lease_ms);
    bind_progress(stmt, progress);
    return change(s, stmt, e);
}

int store_end_transfer(struct store *s, int64_t id, const struct transfer_proc *worker,
                       enum transfer_state state, const struct transfer_progress *progress,
                       struct str error, struct err *e)
{
    LOCKED(&s->lock);
    sqlite3_stmt *stmt own_stmt = NULL;

    if (db_open(s, e) < 0 ||
        db_prepare(s,
                   "UPDATE transfers SET updated_ms = ?5, finished_ms = ?5, lease_ms = 0, "
                   "error = CASE state WHEN 1 THEN ?7 ELSE error END, "
                   "state = CASE state WHEN 1 THEN ?6 ELSE state END, " SET_PROGRESS
                   " WHERE " HELD_BY " AND state IN (1, 4)",
                   &stmt, e) < 0) {
        return -1;
    }
    bind_held(stmt, id, worker);
    db_bind_int(stmt, 6, state);
    db_bind_str(stmt, 7, error);
    bind_progress(stmt, progress);
    return change(s, stmt, e);
}

int store_fail_transfer(struct store *s, int64_t id, struct str error, struct err *e)
{
    LOCKED(&s->lock);
    sqlite3_stmt *stmt own_stmt = NULL;

    if (db_open(s, e) < 0 ||
        db_prepare(s,
                   "UPDATE transfers SET state = 3, error = ?2, phase = 'failed', lease_ms = 0, "
                   "updated_ms = ?3, finished_ms = ?3 WHERE id = ?1 AND state = 0",
                   &stmt, e) < 0) {
        return -1;
    }
    db_bind_int(stmt, 1, id);
    db_bind_str(stmt, 2, error);
    db_bind_int(stmt, 3, clock_wall_ms());
    return change(s, stmt, e);
}

int store_cancel_transfer(struct store *s, struct str owner, int64_t id, struct err *e)
{
    LOCKED(&s->lock);
    sqlite3_stmt *stmt own_stmt = NULL;

    if (db_open(s, e) < 0 ||
        db_prepare(s,
                   "UPDATE transfers SET state = 4, phase = 'cancelled', updated_ms = ?3, "
                   "finished_ms = ?3 WHERE id = ?1 AND owner = ?2 AND state IN (0, 1)",
                   &stmt, e) < 0) {
        return -1;
    }
    db_bind_int(stmt, 1, id);
    db_bind_str(stmt, 2, owner);
    db_bind_int(stmt, 3, clock_wall_ms());
    return change(s, stmt, e);
}

int store_requeue_transfer(struct store *s, const struct transfer_row *seen,
                           const struct transfer_proc *starter, int64_t lease_ms, struct err *e)
{
    LOCKED(&s->lock);
    sqlite3_stmt *stmt own_stmt = NULL;

    if (db_open(s, e) < 0 ||
        db_prepare(s,
                   "UPDATE transfers SET state = 0, pid = ?7, pid_start = ?8, boot = ?9, "
                   "lease_ms = ?10, updated_ms = ?5, started_ms = 0, finished_ms = 0, error = '', "
                   "phase = 'queued', path = '', note = '', rate = 0, used_ms = 0, dirs = 0, "
                   "files = 0, files_total = 0, unchanged = 0, bytes = 0, bytes_total = 0, "
                   "deleted_files = 0, deleted_dirs = 0, failed = 0 WHERE " HELD_BY
                   " AND state = ?6 AND updated_ms = ?11",
                   &stmt, e) < 0) {
        return -1;
    }
    bind_held(stmt, seen->id, &seen->proc);
    db_bind_int(stmt, 6, seen->state);
    db_bind_int(stmt, 7, starter->pid);
    db_bind_int(stmt, 8, starter->start);
    db_bind_str(stmt, 9, starter->boot);
    db_bind_int(stmt, 10, lease_ms);
    db_bind_int(stmt, 11, seen->updated_ms);
    return change(s, stmt, e);
}

/* ---- pruning ---------------------------------------------------------------------- */

struct gone {
    struct str log_file;
    struct gone *next;
};

static int prune(struct store *s, struct arena *a, int64_t before_ms, int64_t keep,
                 struct gone **out, struct err *e)
{
    LOCKED(&s->lock);
    sqlite3_stmt *stmt own_stmt = NULL;
    int rc;

    if (db_open(s, e) < 0 ||
        db_prepare(s,
                   "DELETE FROM transfers WHERE updated_ms < ?1 OR id IN "
                   "(SELECT id FROM transfers WHERE state > 1 ORDER BY id DESC LIMIT -1 OFFSET ?2) "
                   "RETURNING log_file",
                   &stmt, e) < 0) {
        return -1;
    }
    db_bind_int(stmt, 1, before_ms);
    db_bind_int(stmt, 2, keep);
    for (rc = db_step(s, stmt, e); rc > 0; rc = db_step(s, stmt, e)) {
        struct gone *one = arena_new(a, struct gone);

        *one = (struct gone){db_column_str(stmt, 0, a), *out};
        *out = one;
    }
    return rc < 0 ? -1 : 0;
}

int store_prune_transfers(struct store *s, struct arena *a, int64_t before_ms, int64_t keep,
                          transfer_gone_fn *gone, void *arg, struct err *e)
{
    struct gone *list = NULL;

    if (prune(s, a, before_ms, keep, &list, e) < 0) {
        return -1;
    }
    for (; list != NULL; list = list->next) {
        gone(arg, list->log_file);
    }
    return 0;
}
