/* boxes.c - the SQL of the boxes table. */
#include "base/clock.h"
#include "store/db.h"
#include "store/store.h"

#define COLUMNS                                                                                    \
    "id, owner, name, provider, ref, image, state, ended, created_ms, ended_ms, used_ms, "         \
    "expires_ms, starter_pid, starter_start"

/* Where two indexes would do, the right one is named (INDEXED BY, or a '+' that hides a
 * column): the planner cannot know that nearly all rows have ended and one owner has all. */
#define N_COLUMNS 14
#define PAGE_ROWS 200

static void read_row(sqlite3_stmt *stmt, struct arena *a, struct box_row *out)
{
    *out = (struct box_row){
        .id = db_column_str(stmt, 0, a),
        .owner = db_column_str(stmt, 1, a),
        .name = db_column_str(stmt, 2, a),
        .provider = db_column_str(stmt, 3, a),
        .ref = db_column_str(stmt, 4, a),
        .image = db_column_str(stmt, 5, a),
        .state = (enum row_state)sqlite3_column_int(stmt, 6),
        .ended = db_column_str(stmt, 7, a),
        .created_ms = sqlite3_column_int64(stmt, 8),
        .ended_ms = sqlite3_column_int64(stmt, 9),
        .used_ms = sqlite3_column_int64(stmt, 10),
        .expires_ms = sqlite3_column_int64(stmt, 11),
        .starter_pid = sqlite3_column_int64(stmt, 12),
        .starter_start = sqlite3_column_int64(stmt, 13),
    };
}

static void bind_row(sqlite3_stmt *stmt, const struct box_row *row)
{
    db_bind_str(stmt, 1, row->id);
    db_bind_str(stmt, 2, row->owner);
    db_bind_str(stmt, 3, row->name);
    db_bind_str(stmt, 4, row->provider);
    db_bind_str(stmt, 5, row->ref);
    db_bind_str(stmt, 6, row->image);
    db_bind_int(stmt, 7, row->state);
    db_bind_str(stmt, 8, row->ended);
    db_bind_int(stmt, 9, row->created_ms);
    db_bind_int(stmt, 10, row->ended_ms);
    db_bind_int(stmt, 11, row->used_ms);
    db_bind_int(stmt, 12, row->expires_ms);
    db_bind_int(stmt, 13, row->starter_pid);
    db_bind_int(stmt, 14, row->starter_start);
}

/* ---- adding -------------------------------------------------------------------- */

/* After the insert: one more than the limit is too many. */
static int check_room(struct store *s, int64_t max_boxes, struct err *e)
{
    sqlite3_stmt *stmt own_stmt = NULL;

    if (max_boxes <= 0) {
        return 0;
    }
    if (db_prepare(s,
                   "SELECT count(*) FROM (SELECT 1 FROM boxes INDEXED BY boxes_not_ended "
                   "WHERE state <> 2 LIMIT ?1)",
                   &stmt, e) < 0) {
        return -1;
    }
    db_bind_int(stmt, 1, max_boxes + 1);
    if (db_step(s, stmt, e) < 0) {
        return -1;
    }
    if (sqlite3_column_int64(stmt, 0) > max_boxes) {
        return err_set(e, ERR_LIMIT, "there are already %lld sandboxes, which is the limit",
                       (long long)max_boxes);
    }
    return 0;
}

static int insert_row(struct store *s, const struct box_row *row, struct err *e)
{
    sqlite3_stmt *stmt own_stmt = NULL;

    if (db_prepare(s,
                   "INSERT INTO boxes (" COLUMNS
                   ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
                   &stmt, e) < 0) {
        return -1;
    }
    bind_row(stmt, row);
    if (sqlite3_step(stmt) == SQLITE_DONE) {
        return 0;
    }
    if (sqlite3_extended_errcode(s->db) == SQLITE_CONSTRAINT_UNIQUE) {
        return err_set(e, ERR_EXISTS, "the name \"%.*s\" is taken", STR_ARG(row->name));
    }
    return db_fail(s, e);
}

static int add_row(struct store *s, const struct box_row *row, int64_t max_boxes, struct err *e)
{
    /* The name first: who asks for a box that exists is told so even when all is full. */
    if (insert_row(s, row, e) < 0) {
        return -1;
    }
    return check_room(s, max_boxes, e);
}

int store_add_box(struct store *s, const struct box_row *row, int64_t max_boxes, struct err *e)
{
    LOCKED(&s->lock);

    if (db_open(s, e) < 0 || db_begin(s, e) < 0) {
        return -1;
    }
    return db_end(s, add_row(s, row, max_boxes, e), e);
}

/* ---- changing ------------------------------------------------------------------ */

/* Runs a prepared change; how many rows it touched. */
static int change(struct store *s, sqlite3_stmt *stmt, struct err *e)
{
    return db_step(s, stmt, e) < 0 ? -1 : sqlite3_changes(s->db);
}

int store_box_live(struct store *s, struct str id, struct str ref, int64_t expires_ms,
                   struct err *e)
{
    LOCKED(&s->lock);
    sqlite3_stmt *stmt own_stmt = NULL;
    int n;

    if (db_open(s, e) < 0 || db_prepare(s,
                                        "UPDATE boxes SET state = 1, ref = ?2, expires_ms = ?3 "
                                        "WHERE id = ?1 AND state = 0",
                                        &stmt, e) < 0) {
        return -1;
    }
    db_bind_str(stmt, 1, id);
    db_bind_str(stmt, 2, ref);
    db_bind_int(stmt, 3, expires_ms);
    n = change(s, stmt, e);
    if (n == 0) {
        return err_set(e, ERR_NOT_FOUND,
                       "the sandbox was taken out of the database while it started");
    }
    return n < 0 ? -1 : 0;
}

int store_box_ended(struct store *s, struct str id, struct str why, struct err *e)
{
    LOCKED(&s->lock);
    sqlite3_stmt *stmt own_stmt = NULL;

    if (db_open(s, e) < 0 || db_prepare(s,
                                        "UPDATE boxes SET state = 2, ended = ?2, ended_ms = ?3 "
                                        "WHERE id = ?1 AND state <> 2",
                                        &stmt, e) < 0) {
        return -1;
    }
    db_bind_str(stmt, 1, id);
    db_bind_str(stmt, 2, why);
    db_bind_int(stmt, 3, clock_wall_ms());
    return change(s, stmt, e) < 0 ? -1 : 0;
}

int store_box_used(struct store *s, struct str id, struct err *e)
{
    LOCKED(&s->lock);
    sqlite3_stmt *stmt own_stmt = NULL;

    if (db_open(s, e) < 0 ||
        db_prepare(s, "UPDATE boxes SET used_ms = ?2 WHERE id = ?1", &stmt, e) < 0) {
        return -1;
    }
    db_bind_str(stmt, 1, id);
    db_bind_int(stmt, 2, clock_wall_ms());
    return change(s, stmt, e) < 0 ? -1 : 0;
}

int store_drop_box(struct store *s, struct str id, struct err *e)
{
    LOCKED(&s->lock);
    sqlite3_stmt *stmt own_stmt = NULL;

    if (db_open(s, e) < 0 || db_prepare(s, "DELETE FROM boxes WHERE id = ?1", &stmt, e) < 0) {
        return -1;
    }
    db_bind_str(stmt, 1, id);
    return change(s, stmt, e) < 0 ? -1 : 0;
}

static int run_with_time(struct store *s, const char *sql, int64_t time_ms, struct err *e)
{
    sqlite3_stmt *stmt own_stmt = NULL;

    if (db_prepare(s, sql, &stmt, e) < 0) {
        return -1;
    }
    db_bind_int(stmt, 1, time_ms);
    return db_step(s, stmt, e);
}

static int prune(struct store *s, int64_t before_ms, struct err *e)
{
    if (run_with_time(s,
                      "DELETE FROM selections WHERE box_id IN "
                      "(SELECT id FROM boxes WHERE state = 2 AND ended_ms < ?1)",
                      before_ms, e) < 0) {
        return -1;
    }
    return run_with_time(s, "DELETE FROM boxes WHERE state = 2 AND ended_ms < ?1", before_ms, e);
}

int store_prune(struct store *s, int64_t ended_before_ms, struct err *e)
{
    LOCKED(&s->lock);

    if (db_open(s, e) < 0 || db_begin(s, e) < 0) {
        return -1;
    }
    return db_end(s, prune(s, ended_before_ms, e), e);
}

/* ---- looking -------------------------------------------------------------------- */

/* The one row of a bound query. ERR_NOT_FOUND for none, ERR_INVALID for a second one
 * when there may only be one. */
static int one_row(struct store *s, sqlite3_stmt *stmt, struct arena *a, struct box_row *out,
                   struct err *e)
{
    struct box_row row;
    int rc = db_step(s, stmt, e);

    if (rc <= 0) {
        return rc < 0 ? -1 : err_set(e, ERR_NOT_FOUND, "no such sandbox");
    }
    read_row(stmt, a, &row);
    rc = db_step(s, stmt, e);
    if (rc > 0) {
        return err_set(e, ERR_INVALID,
                       "several sandboxes have an id that begins so; give all of it");
    }
    if (rc == 0) {
        *out = row;
    }
    return rc;
}

static bool is_hex(struct str s)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = s.p[i];

        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) {
            return false;
        }
    }
    return true;
}

int store_box_by_id(struct store *s, struct arena *a, struct str owner, struct str id,
                    struct box_row *out, struct err *e)
{
    LOCKED(&s->lock);
    sqlite3_stmt *stmt own_stmt = NULL;

    if (!is_hex(id) || (id.len != STORE_ID_LEN && id.len != STORE_SHORT_ID_LEN)) {
        return err_set(e, ERR_NOT_FOUND, "no such sandbox");
    }
    /* 'g' follows the last hex digit: the range holds exactly the ids that begin so. */
    if (db_open(s, e) < 0 ||
        db_prepare(s,
                   "SELECT " COLUMNS
                   " FROM boxes WHERE id >= ?1 AND id < ?1 || 'g' AND +owner = ?2 LIMIT 2",
                   &stmt, e) < 0) {
        return -1;
    }
    db_bind_str(stmt, 1, id);
    db_bind_str(stmt, 2, owner);
    return one_row(s, stmt, a, out, e);
}

int store_box_by_name(struct store *s, struct arena *a, struct str owner, struct str name,
                      struct box_row *out, struct err *e)
{
    static const char *const queries[] = {
        "SELECT " COLUMNS " FROM boxes WHERE owner = ?1 AND name = ?2 AND state <> 2",
        "SELECT " COLUMNS " FROM boxes WHERE owner = ?1 AND name = ?2 AND state = 2 "
        "ORDER BY ended_ms DESC LIMIT 1",
    };
    LOCKED(&s->lock);
    int rc = -1;

    if (db_open(s, e) < 0) {
        return -1;
    }
    for (size_t i = 0; i < COUNTOF(queries); i++) {
        sqlite3_stmt *stmt own_stmt = NULL;

        if (db_prepare(s, queries[i], &stmt, e) < 0) {
            return -1;
        }
        db_bind_str(stmt, 1, owner);
        db_bind_str(stmt, 2, name);
        rc = one_row(s, stmt, a, out, e);
        if (rc == 0 || e->kind != ERR_NOT_FOUND) {
            return rc;
        }
    }
    return rc;
}

int store_box_by_ref(struct store *s, struct arena *a, struct str owner, struct str provider,
                     struct str ref, struct box_row *out, struct err *e)
{
    LOCKED(&s->lock);
    sqlite3_stmt *stmt own_stmt = NULL;

    /* A backend may use a ref again after its box has ended. */
    if (db_open(s, e) < 0 ||
        db_prepare(s,
                   "SELECT " COLUMNS " FROM boxes WHERE owner = ?1 AND provider = ?2 AND ref = ?3 "
                   "ORDER BY state = 2, seq DESC LIMIT 1",
                   &stmt, e) < 0) {
        return -1;
    }
    db_bind_str(stmt, 1, owner);
    db_bind_str(stmt, 2, provider);
    db_bind_str(stmt, 3, ref);
    return one_row(s, stmt, a, out, e);
}

int store_count_boxes(struct store *s, struct str owner, int64_t *out, struct err *e)
{
    LOCKED(&s->lock);
    sqlite3_stmt *stmt own_stmt = NULL;

    if (db_open(s, e) < 0 || db_prepare(s,
                                        "SELECT count(*) FROM boxes INDEXED BY boxes_not_ended "
                                        "WHERE owner = ?1 AND state <> 2",
                                        &stmt, e) < 0) {
        return -1;
    }
    db_bind_str(stmt, 1, owner);
    if (db_step(s, stmt, e) < 0) {
        return -1;
    }
    *out = sqlite3_column_int64(stmt, 0);
    return 0;
}

int store_count_all_boxes(struct store *s, int64_t *out, struct err *e)
{
    LOCKED(&s->lock);
    sqlite3_stmt *stmt own_stmt = NULL;

    if (db_open(s, e) < 0 ||
        db_prepare(s, "SELECT count(*) FROM boxes WHERE state <> 2", &stmt, e) < 0 ||
        db_step(s, stmt, e) < 0) {
        return -1;
    }
    *out = sqlite3_column_int64(stmt, 0);
    return 0;
}

struct page {
    struct box_row rows[PAGE_ROWS];
    size_t n;
    int64_t last; /* seq */
};

/* The rows behind the last page's, in order of creation. */
static int read_page(struct store *s, struct arena *a, struct str owner, bool with_ended,
                     struct page *page, struct err *e)
{
    static const char *const queries[] = {
        "SELECT " COLUMNS ", seq FROM boxes INDEXED BY boxes_not_ended "
        "WHERE owner = ?1 AND state <> 2 AND seq > ?2 ORDER BY seq LIMIT ?3",
        "SELECT " COLUMNS ", seq FROM boxes WHERE owner = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3",
    };
    LOCKED(&s->lock);
    sqlite3_stmt *stmt own_stmt = NULL;
    int rc;

    page->n = 0;
    if (db_open(s, e) < 0 || db_prepare(s, queries[with_ended], &stmt, e) < 0) {
        return -1;
    }
    db_bind_str(stmt, 1, owner);
    db_bind_int(stmt, 2, page->last);
    db_bind_int(stmt, 3, PAGE_ROWS);
    for (rc = db_step(s, stmt, e); rc > 0 && page->n < PAGE_ROWS; rc = db_step(s, stmt, e)) {
        read_row(stmt, a, &page->rows[page->n]);
        page->last = sqlite3_column_int64(stmt, N_COLUMNS);
        page->n++;
    }
    return rc < 0 ? -1 : 0;
}

int store_each_box(struct store *s, struct arena *a, struct str owner, bool with_ended,
                   box_row_fn *each, void *arg, struct err *e)
{
    struct page *page = arena_new(a, struct page);

    do {
        if (read_page(s, a, owner, with_ended, page, e) < 0) {
            return -1;
        }
        for (size_t i = 0; i < page->n; i++) {
            if (each(arg, &page->rows[i], e) < 0) {
                return -1;
            }
        }
    } while (page->n == PAGE_ROWS);
    return 0;
}

/* Each step seeks the next owner in the index, however many rows each has. */
int store_owners(struct store *s, struct arena *a, const struct str **out, size_t *n, struct err *e)
{
    LOCKED(&s->lock);
    sqlite3_stmt *stmt own_stmt = NULL;
    struct str *owners = NULL;
    size_t cap = 0;
    int rc;

    *n = 0;
    if (db_open(s, e) < 0 ||
        db_prepare(s,
                   "WITH RECURSIVE o(owner) AS ("
                   " SELECT min(owner) FROM boxes INDEXED BY boxes_not_ended WHERE state <> 2"
                   " UNION ALL SELECT (SELECT min(owner) FROM boxes INDEXED BY boxes_not_ended"
                   "  WHERE state <> 2 AND owner > o.owner) FROM o WHERE o.owner IS NOT NULL)"
                   "SELECT owner FROM o WHERE owner IS NOT NULL",
                   &stmt, e) < 0) {
        return -1;
    }
    for (rc = db_step(s, stmt, e); rc > 0; rc = db_step(s, stmt, e)) {
        if (*n == cap) {
            struct str *larger = arena_alloc(a, 2 * cap + 16, sizeof(*larger));

            for (size_t i = 0; i < *n; i++) {
                larger[i] = owners[i];
            }
            owners = larger;
            cap = 2 * cap + 16;
        }
        owners[(*n)++] = db_column_str(stmt, 0, a);
    }
    *out = owners;
    return rc < 0 ? -1 : 0;
}
