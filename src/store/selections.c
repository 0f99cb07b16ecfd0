/* selections.c - the box that was selected last, by owner and folder. */
#include "base/clock.h"
#include "store/db.h"
#include "store/store.h"

int store_set_selected(struct store *s, struct str owner, struct str folder, struct str box_id,
                       struct err *e)
{
    LOCKED(&s->lock);
    sqlite3_stmt *stmt own_stmt = NULL;

    if (db_open(s, e) < 0 ||
        db_prepare(s,
                   box_id.len > 0 ? "INSERT OR REPLACE INTO selections VALUES (?1, ?2, ?3, ?4)"
                                  : "DELETE FROM selections WHERE owner = ?1 AND folder = ?2",
                   &stmt, e) < 0) {
        return -1;
    }
    db_bind_str(stmt, 1, owner);
    db_bind_str(stmt, 2, folder);
    if (box_id.len > 0) {
        db_bind_str(stmt, 3, box_id);
        db_bind_int(stmt, 4, clock_wall_ms());
    }
    return db_step(s, stmt, e) < 0 ? -1 : 0;
}

int store_get_selected(struct store *s, struct arena *a, struct str owner, struct str folder,
                       struct str *box_id, struct err *e)
{
    LOCKED(&s->lock);
    sqlite3_stmt *stmt own_stmt = NULL;
    int rc;

    if (db_open(s, e) < 0 ||
        db_prepare(s, "SELECT box_id FROM selections WHERE owner = ?1 AND folder = ?2", &stmt, e) <
            0) {
        return -1;
    }
    db_bind_str(stmt, 1, owner);
    db_bind_str(stmt, 2, folder);
    rc = db_step(s, stmt, e);
    if (rc >= 0) {
        *box_id = rc > 0 ? db_column_str(stmt, 0, a) : STR_EMPTY;
    }
    return rc < 0 ? -1 : 0;
}
