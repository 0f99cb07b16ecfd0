/*
 * watch_events.c - what happened to watched tasks, and the queue of those who are to be told.
 *
 * A delivery is a row as long as it is owed. A done one is removed; of one that was given up the
 * reason stays with its event.
 */
#include "base/clock.h"
#include "store/db.h"
#include "store/watch_sql.h"

#define DUE_BYTES ((size_t)16 << 20) /* of due deliveries: from there on no more are read at once */

static int64_t now_s(void)
{
    return clock_wall_ms() / 1000;
}

static int add_delivery(struct store *s, int64_t event_id, enum delivery_kind kind, struct err *e)
{
    sqlite3_stmt *stmt own_stmt = NULL;

    if (db_prepare(s, "INSERT INTO deliveries (event_id, kind, next_s) VALUES (?1, ?2, 1)", &stmt,
                   e) < 0) {
        return -1;
    }
    db_bind_int(stmt, 1, event_id);
    db_bind_int(stmt, 2, kind);
    return db_step(s, stmt, e) < 0 ? -1 : 0;
}

int watch_sql_add_event(struct store *s, const struct watch_row *watch, struct new_event *event,
                        struct err *e)
{
    sqlite3_stmt *stmt own_stmt = NULL;

    if (db_prepare(s,
                   "INSERT INTO watch_events (watch_id, owner, type, summary, payload, created_s) "
                   "VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                   &stmt, e) < 0) {
        return -1;
    }
    db_bind_int(stmt, 1, watch->id);
    db_bind_str(stmt, 2, watch->order.owner);
    db_bind_str(stmt, 3, event->type);
    db_bind_str(stmt, 4, event->summary);
    db_bind_str(stmt, 5, event->payload);
    db_bind_int(stmt, 6, now_s());
    if (db_step(s, stmt, e) < 0) {
        return -1;
    }
    event->id = sqlite3_last_insert_rowid(s->db);
    for (unsigned kind = 0; kind < DELIVERY_KINDS; kind++) {
        if (event->owes[kind] && add_delivery(s, event->id, (enum delivery_kind)kind, e) < 0) {
            return -1;
        }
    }
    return 0;
}

static struct watch_event_row read_event(sqlite3_stmt *stmt, struct arena *a, int at)
{
    return (struct watch_event_row){
        .id = sqlite3_column_int64(stmt, at),
        .watch_id = sqlite3_column_int64(stmt, at + 1),
        .type = db_column_str(stmt, at + 2, a),
        .summary = db_column_str(stmt, at + 3, a),
        .payload = db_column_str(stmt, at + 4, a),
        .created_s = sqlite3_column_int64(stmt, at + 5),
    };
}

/* ---- looking --------------------------------------------------------------------- */

static int prepare_events(struct store *s, const struct str *owner, int64_t watch_id,
                          sqlite3_stmt **stmt, struct err *e)
{
    static const char of_watch[] =
        "SELECT id, watch_id, type, summary, payload, created_s FROM watch_events "
        "WHERE watch_id = ?1 AND (?2 IS NULL OR owner = ?2) AND id < ?4 ORDER BY id DESC LIMIT ?3";
    static const char of_owner[] =
        "SELECT id, watch_id, type, summary, payload, created_s FROM watch_events "
        "WHERE owner = ?2 AND id < ?4 ORDER BY id DESC LIMIT ?3";
    static const char of_all[] =
        "SELECT id, watch_id, type, summary, payload, created_s FROM watch_events "
        "WHERE id < ?4 ORDER BY id DESC LIMIT ?3";
    const char *sql = watch_id > 0 ? of_watch : owner != NULL ? of_owner : of_all;

    if (db_prepare(s, sql, stmt, e) < 0) {
        return -1;
    }
    if (watch_id > 0) {
        db_bind_int(*stmt, 1, watch_id);
    }
    if (owner != NULL) {
        db_bind_str(*stmt, 2, *owner);
    }
    return 0;
}

struct event_page { /* as struct watch_page */
    struct watch_event_row rows[STORE_PAGE];
    int n, max;
    int64_t last_id;
};

static int read_events(struct store *s, struct arena *a, const struct str *owner, int64_t watch_id,
                       struct event_page *page, struct err *e)
{
    LOCKED(&s->lock);
    sqlite3_stmt *stmt own_stmt = NULL;
    int rc;

    if (db_open(s, e) < 0 || prepare_events(s, owner, watch_id, &stmt, e) < 0) {
        return -1;
    }
    db_bind_int(stmt, 3, page->max);
    db_bind_int(stmt, 4, page->last_id);
    page->n = 0;
    for (rc = db_step(s, stmt, e); rc > 0 && page->n < page->max; rc = db_step(s, stmt, e)) {
        page->rows[page->n] = read_event(stmt, a, 0);
        page->last_id = page->rows[page->n++].id;
    }
    return rc < 0 ? -1 : 0;
}

int store_each_event(struct store *s, const struct str *owner, int64_t watch_id, int max,
                     watch_event_fn *each, void *arg, struct err *e)
{
    struct event_page page = {.last_id = INT64_MAX, .n = STORE_PAGE};

    for (; max > 0 && page.n == STORE_PAGE; max -= page.n) {
        struct arena a own_arena = {0};

        arena_init(&a, STORE_PAGE_MEMORY);
        page.max = max < STORE_PAGE ? max : STORE_PAGE;
        if (read_events(s, &a, owner, watch_id, &page, e) < 0) {
            return -1;
        }
        for (int i = 0; i < page.n; i++) {
            if (each(arg, &page.rows[i], e) < 0) {
                return -1;
            }
        }
    }
    return 0;
}

/* ---- deliveries ------------------------------------------------------------------ */

static int read_due(struct store *s, struct arena *a, int64_t now, int max,
                    struct delivery_row *rows, int *n, struct err *e)
{
    LOCKED(&s->lock);
    sqlite3_stmt *stmt own_stmt = NULL;
    int rc;

    if (db_open(s, e) < 0 ||
        db_prepare(s,
                   "SELECT d.id, d.kind, d.tries, v.id, v.watch_id, v.type, v.summary, v.payload, "
                   "v.created_s, ifnull(w.webhook_url, ''), ifnull(w.event_command, '') "
                   "FROM deliveries d JOIN watch_events v ON v.id = d.event_id "
                   "LEFT JOIN watches w ON w.id = v.watch_id "
                   "WHERE d.next_s > 0 AND (d.next_s <= ?1 OR d.next_s > ?3) "
                   "ORDER BY d.event_id, d.kind LIMIT ?2",
                   &stmt, e) < 0) {
        return -1;
    }
    db_bind_int(stmt, 1, now);
    db_bind_int(stmt, 2, max);
    db_bind_int(stmt, 3, now + DELIVERY_FAR_S);
    for (rc = db_step(s, stmt, e); rc > 0 && *n < max && a->used < DUE_BYTES;
         rc = db_step(s, stmt, e)) {
        rows[(*n)++] = (struct delivery_row){
            .id = sqlite3_column_int64(stmt, 0),
            .kind = (enum delivery_kind)sqlite3_column_int(stmt, 1),
            .tries = sqlite3_column_int64(stmt, 2),
            .event = read_event(stmt, a, 3),
            .url = db_column_str(stmt, 9, a),
            .command = db_column_str(stmt, 10, a),
        };
    }
    return rc < 0 ? -1 : 0;
}

int store_due_deliveries(struct store *s, struct arena *a, int64_t now, int max, delivery_fn *each,
                         void *arg, struct err *e)
{
    struct delivery_row *rows = arena_alloc(a, (size_t)max, sizeof(*rows));
    int n = 0;

    if (read_due(s, a, now, max, rows, &n, e) < 0) {
        return -1;
    }
    for (int i = 0; i < n; i++) {
        if (each(arg, &rows[i], e) < 0) {
            return -1;
        }
    }
    return 0;
}

int store_delivered(struct store *s, int64_t id, struct err *e)
{
    LOCKED(&s->lock);
    sqlite3_stmt *stmt own_stmt = NULL;

    if (db_open(s, e) < 0 || db_prepare(s, "DELETE FROM deliveries WHERE id = ?1", &stmt, e) < 0) {
        return -1;
    }
    db_bind_int(stmt, 1, id);
    return db_step(s, stmt, e) < 0 ? -1 : 0;
}

int store_not_delivered(struct store *s, int64_t id, int64_t next_s, struct str why, struct err *e)
{
    LOCKED(&s->lock);
    sqlite3_stmt *stmt own_stmt = NULL;

    if (db_open(s, e) < 0 ||
        db_prepare(s,
                   "UPDATE deliveries SET tries = tries + 1, next_s = ?2, error = ?3 WHERE id = ?1",
                   &stmt, e) < 0) {
        return -1;
    }
    db_bind_int(stmt, 1, id);
    db_bind_int(stmt, 2, next_s);
    db_bind_str(stmt, 3, why);
    return db_step(s, stmt, e) < 0 ? -1 : 0;
}

int store_next_due(struct store *s, int64_t *out_s, struct err *e)
{
    LOCKED(&s->lock);
    sqlite3_stmt *stmt own_stmt = NULL;

    /* A watch that was never looked at has 0: it is due since ever, which is 1 here. */
    if (db_open(s, e) < 0 ||
        db_prepare(s,
                   "SELECT ifnull(min(t), 0) FROM ("
                   "SELECT max(min(next_check_s), 1) AS t FROM watches WHERE status = 0 "
                   "UNION ALL SELECT min(next_s) FROM deliveries WHERE next_s > 0)",
                   &stmt, e) < 0 ||
        db_step(s, stmt, e) < 0) {
        return -1;
    }
    *out_s = sqlite3_column_int64(stmt, 0);
    return 0;
}

/* ---- the watchdog's own facts ----------------------------------------------------- */

int store_set_watchdog(struct store *s, struct str key, struct str value, struct err *e)
{
    LOCKED(&s->lock);
    sqlite3_stmt *stmt own_stmt = NULL;

    if (db_open(s, e) < 0 ||
        db_prepare(s,
                   "INSERT INTO watchdog (key, value, set_s) VALUES (?1, ?2, ?3) "
                   "ON CONFLICT (key) DO UPDATE SET value = ?2, set_s = ?3",
                   &stmt, e) < 0) {
        return -1;
    }
    db_bind_str(stmt, 1, key);
    db_bind_str(stmt, 2, value);
    db_bind_int(stmt, 3, now_s());
    return db_step(s, stmt, e) < 0 ? -1 : 0;
}

int store_get_watchdog(struct store *s, struct arena *a, struct str key, struct str *value,
                       int64_t *set_s, struct err *e)
{
    LOCKED(&s->lock);
    sqlite3_stmt *stmt own_stmt = NULL;
    int rc;

    if (db_open(s, e) < 0 ||
        db_prepare(s, "SELECT value, set_s FROM watchdog WHERE key = ?1", &stmt, e) < 0) {
        return -1;
    }
    db_bind_str(stmt, 1, key);
    rc = db_step(s, stmt, e);
    if (rc < 0) {
        return -1;
    }
    *value = rc > 0 ? db_column_str(stmt, 0, a) : STR_EMPTY;
    *set_s = rc > 0 ? sqlite3_column_int64(stmt, 1) : 0;
    return 0;
}

/* ---- pruning ---------------------------------------------------------------------- */

#define PRUNED_AT_ONCE 500 /* events; others must get at the database in between */
#define PRUNE_TIMES    10  /* of those in one call: who calls has other things to do */
#define NOT_OWED       "NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.event_id = w.id AND d.next_s > 0)"

static int prune_events(struct store *s, int64_t before_s, int64_t keep,
                        int64_t ids[PRUNED_AT_ONCE], int *n, struct err *e)
{
    LOCKED(&s->lock);
    sqlite3_stmt *stmt own_stmt = NULL;
    int rc;

    *n = 0;
    if (db_open(s, e) < 0 ||
        db_prepare(
            s,
            /* Each half by its own index: nothing reads through what stays. */
            "DELETE FROM watch_events WHERE id IN (SELECT id FROM (SELECT id FROM "
            "watch_events w WHERE created_s < ?1 AND " NOT_OWED
            " ORDER BY created_s LIMIT ?3) UNION SELECT id FROM (SELECT id FROM "
            "watch_events w WHERE id <= (SELECT max(id) FROM watch_events) - ?2 AND " NOT_OWED
            " ORDER BY id LIMIT ?3) LIMIT ?3) RETURNING id",
            &stmt, e) < 0) {
        return -1;
    }
    db_bind_int(stmt, 1, before_s);
    db_bind_int(stmt, 2, keep);
    db_bind_int(stmt, 3, PRUNED_AT_ONCE);
    for (rc = db_step(s, stmt, e); rc > 0 && *n < PRUNED_AT_ONCE; rc = db_step(s, stmt, e)) {
        ids[(*n)++] = sqlite3_column_int64(stmt, 0);
    }
    return rc < 0 ? -1 : 0;
}

static int prune_rest(struct store *s, int64_t before_s, struct err *e)
{
    LOCKED(&s->lock);
    sqlite3_stmt *stmt own_stmt = NULL;

    if (db_open(s, e) < 0 ||
        db_run(s,
               "DELETE FROM deliveries WHERE event_id NOT IN (SELECT id FROM watch_events) "
               "AND next_s = 0",
               e) < 0 ||
        db_prepare(s, "DELETE FROM watches WHERE status <> 0 AND updated_s < ?1", &stmt, e) < 0) {
        return -1;
    }
    db_bind_int(stmt, 1, before_s);
    return db_step(s, stmt, e) < 0 ? -1 : 0;
}

int store_prune_watches(struct store *s, int64_t before_s, int64_t keep, event_gone_fn *gone,
                        void *arg, struct err *e)
{
    int64_t ids[PRUNED_AT_ONCE];
    int n;

    for (int times = 0; times < PRUNE_TIMES; times++) {
        if (prune_events(s, before_s, keep, ids, &n, e) < 0) {
            return -1;
        }
        for (int i = 0; i < n; i++) {
            gone(arg, ids[i]);
        }
        if (n < PRUNED_AT_ONCE) {
            return prune_rest(s, before_s, e);
        }
    }
    return 1;
}
