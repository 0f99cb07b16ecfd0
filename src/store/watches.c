/* watches.c - the SQL of the watches table; events and deliveries are in watch_events.c. */
#include "store/watches.h"

#include "base/clock.h"
#include "store/db.h"
#include "store/watch_sql.h"

#define COLUMNS                                                                                    \
    "id, revision, owner, box_id, box_name, run_id, name, session, log_file, cwd, "                \
    "launch_command, resume_command, resume_plan, metadata, checkpoint_path, checkpoint_format, "  \
    "checkpoint_command, webhook_url, event_command, interval_s, max_log_lines, "                  \
    "alert_after_failures, resume_delay_s, max_resume_attempts, auto_resume, notify_local, "       \
    "status, state, exit_code, failures, alert_sent, interrupted_s, resume_due_s, "                \
    "resume_attempts, resume_failures, resume_uncertain, last_checked_s, next_check_s, task_run, " \
    "next_run, summary, error, log_tail, checkpoint_text, created_s, updated_s, last_event_s, checkpoint_s"

#define AT_ORDER  2
#define AT_NUMBER 19
#define AT_MEMORY 26
#define AT_WORDS  38
#define AT_TIMES  44

static void read_order(sqlite3_stmt *stmt, struct arena *a, struct watch_order *out)
{
    struct str *const texts[] = {
        &out->owner,
        &out->box_id,
        &out->box_name,
        &out->run_id,
        &out->name,
        &out->session,
        &out->log_file,
        &out->cwd,
        &out->launch_command,
        &out->resume_command,
        &out->resume_plan,
        &out->metadata,
        &out->checkpoint_path,
        &out->checkpoint_format,
        &out->checkpoint_command,
        &out->webhook_url,
        &out->event_command,
    };

    for (int i = 0; i < (int)COUNTOF(texts); i++) {
        *texts[i] = db_column_str(stmt, AT_ORDER + i, a);
    }
    out->interval_s = sqlite3_column_int64(stmt, AT_NUMBER);
    out->max_log_lines = sqlite3_column_int64(stmt, AT_NUMBER + 1);
    out->alert_after_failures = sqlite3_column_int64(stmt, AT_NUMBER + 2);
    out->resume_delay_s = sqlite3_column_int64(stmt, AT_NUMBER + 3);
    out->max_resume_attempts = sqlite3_column_int64(stmt, AT_NUMBER + 4);
    out->auto_resume = sqlite3_column_int(stmt, AT_NUMBER + 5) != 0;
    out->notify_local = sqlite3_column_int(stmt, AT_NUMBER + 6) != 0;
}

static struct watch_memory read_memory(sqlite3_stmt *stmt)
{
    return (struct watch_memory){
        .status = (enum watch_status)sqlite3_column_int(stmt, AT_MEMORY),
        .state = (enum watch_state)sqlite3_column_int(stmt, AT_MEMORY + 1),
        .has_exit_code = sqlite3_column_type(stmt, AT_MEMORY + 2) != SQLITE_NULL,
        .exit_code = sqlite3_column_int64(stmt, AT_MEMORY + 2),
        .failures = sqlite3_column_int64(stmt, AT_MEMORY + 3),
        .alert_sent = sqlite3_column_int(stmt, AT_MEMORY + 4) != 0,
        .interrupted_s = sqlite3_column_int64(stmt, AT_MEMORY + 5),
        .resume_due_s = sqlite3_column_int64(stmt, AT_MEMORY + 6),
        .resume_attempts = sqlite3_column_int64(stmt, AT_MEMORY + 7),
        .resume_failures = sqlite3_column_int64(stmt, AT_MEMORY + 8),
        .resume_uncertain = sqlite3_column_int(stmt, AT_MEMORY + 9) != 0,
        .last_checked_s = sqlite3_column_int64(stmt, AT_MEMORY + 10),
        .next_check_s = sqlite3_column_int64(stmt, AT_MEMORY + 11),
    };
}

static void read_row(sqlite3_stmt *stmt, struct arena *a, struct watch_row *out)
{
    *out = (struct watch_row){
        .id = sqlite3_column_int64(stmt, 0),
        .revision = sqlite3_column_int64(stmt, 1),
        .memory = read_memory(stmt),
        .words =
            {
                .task_run = db_column_str(stmt, AT_WORDS, a),
                .next_run = db_column_str(stmt, AT_WORDS + 1, a),
                .summary = db_column_str(stmt, AT_WORDS + 2, a),
                .error = db_column_str(stmt, AT_WORDS + 3, a),
                .log_tail = db_column_str(stmt, AT_WORDS + 4, a),
                .checkpoint_text = db_column_str(stmt, AT_WORDS + 5, a),
            },
        .created_s = sqlite3_column_int64(stmt, AT_TIMES),
        .updated_s = sqlite3_column_int64(stmt, AT_TIMES + 1),
        .last_event_s = sqlite3_column_int64(stmt, AT_TIMES + 2),
        .checkpoint_s = sqlite3_column_int64(stmt, AT_TIMES + 3),
    };
    read_order(stmt, a, &out->order);
}

/* ---- adding ---------------------------------------------------------------------- */

static void bind_order(sqlite3_stmt *stmt, const struct watch_order *o)
{
    const struct str texts[] = {
        o->owner,
        o->box_id,
        o->box_name,
        o->run_id,
        o->name,
        o->session,
        o->log_file,
        o->cwd,
        o->launch_command,
        o->resume_command,
        o->resume_plan,
        o->metadata,
        o->checkpoint_path,
        o->checkpoint_format,
        o->checkpoint_command,
        o->webhook_url,
        o->event_command,
    };
    const int64_t numbers[] = {
        o->interval_s,          o->max_log_lines, o->alert_after_failures, o->resume_delay_s,
        o->max_resume_attempts, o->auto_resume,   o->notify_local,
    };

    for (int i = 0; i < (int)COUNTOF(texts); i++) {
        db_bind_str(stmt, 1 + i, texts[i]);
    }
    for (int i = 0; i < (int)COUNTOF(numbers); i++) {
        db_bind_int(stmt, 18 + i, numbers[i]);
    }
}

int watch_sql_add(struct store *s, const struct watch_order *order, struct str task_run,
                  int64_t *out, struct err *e)
{
    sqlite3_stmt *stmt own_stmt = NULL;

    if (db_prepare(s,
                   "INSERT INTO watches (owner, box_id, box_name, run_id, name, session, log_file, "
                   "cwd, launch_command, resume_command, resume_plan, metadata, checkpoint_path, "
                   "checkpoint_format, checkpoint_command, webhook_url, event_command, interval_s, "
                   "max_log_lines, alert_after_failures, resume_delay_s, max_resume_attempts, "
                   "auto_resume, notify_local, task_run, created_s, updated_s) VALUES (?1, ?2, "
                   "?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, "
                   "?20, ?21, ?22, ?23, ?24, ?25, ?26, ?26)",
                   &stmt, e) < 0) {
        return -1;
    }
    bind_order(stmt, order);
    db_bind_str(stmt, 25, task_run);
    db_bind_int(stmt, 26, clock_wall_ms() / 1000);
    if (db_step(s, stmt, e) < 0) {
        return -1;
    }
    *out = sqlite3_last_insert_rowid(s->db);
    return 0;
}

int store_add_watch(struct store *s, const struct watch_order *order, struct str task_run,
                    int64_t *out, struct err *e)
{
    LOCKED(&s->lock);

    return db_open(s, e) < 0 ? -1 : watch_sql_add(s, order, task_run, out, e);
}

/* ---- looking --------------------------------------------------------------------- */

int store_get_watch(struct store *s, struct arena *a, const struct str *owner, int64_t id,
                    struct watch_row *out, struct err *e)
{
    LOCKED(&s->lock);
    sqlite3_stmt *stmt own_stmt = NULL;
    int rc;

    if (db_open(s, e) < 0 ||
        db_prepare(s,
                   "SELECT " COLUMNS " FROM watches WHERE id = ?1 AND (?2 IS NULL OR owner = ?2)",
                   &stmt, e) < 0) {
        return -1;
    }
    db_bind_int(stmt, 1, id);
    if (owner != NULL) {
        db_bind_str(stmt, 2, *owner);
    }
    rc = db_step(s, stmt, e);
    if (rc > 0) {
        read_row(stmt, a, out);
        return 0;
    }
    return rc < 0 ? -1
                  : err_set(e, ERR_NOT_FOUND,
                            "there is no watch with the watch_id %lld; list_background_watches "
                            "shows those there are",
                            (long long)id);
}

/* A row has some hundred KiB where its texts are long, so no more than a page is in memory. The next
 * page begins behind the last row of this one. */
struct watch_page {
    struct watch_row rows[STORE_PAGE];
    int n, max;
    int64_t last_check_s, last_id;
};

static int read_page(struct store *s, struct arena *a, sqlite3_stmt *stmt, struct watch_page *page,
                     struct err *e)
{
    int rc;

    page->n = 0;
    for (rc = db_step(s, stmt, e); rc > 0 && page->n < page->max; rc = db_step(s, stmt, e)) {
        struct watch_row *row = &page->rows[page->n++];

        read_row(stmt, a, row);
        page->last_id = row->id;
        page->last_check_s = row->memory.next_check_s;
    }
    return rc < 0 ? -1 : 0;
}

static int tell_page(const struct watch_page *page, watch_row_fn *each, void *arg, struct err *e)
{
    for (int i = 0; i < page->n; i++) {
        if (each(arg, &page->rows[i], e) < 0) {
            return -1;
        }
    }
    return 0;
}

static int read_newest(struct store *s, struct arena *a, const struct str *owner, int status,
                       struct watch_page *page, struct err *e)
{
    LOCKED(&s->lock);
    sqlite3_stmt *stmt own_stmt = NULL;

    if (db_open(s, e) < 0 ||
        db_prepare(s,
                   "SELECT " COLUMNS " FROM watches WHERE (?1 IS NULL OR owner = ?1) "
                   "AND (?2 < 0 OR status = ?2) AND id < ?4 ORDER BY id DESC LIMIT ?3",
                   &stmt, e) < 0) {
        return -1;
    }
    if (owner != NULL) {
        db_bind_str(stmt, 1, *owner);
    }
    db_bind_int(stmt, 2, status);
    db_bind_int(stmt, 3, page->max);
    db_bind_int(stmt, 4, page->last_id);
    return read_page(s, a, stmt, page, e);
}

int store_each_watch(struct store *s, const struct str *owner, int status, int max,
                     watch_row_fn *each, void *arg, struct err *e)
{
    struct watch_page page = {.last_id = INT64_MAX, .n = STORE_PAGE};

    for (; max > 0 && page.n == STORE_PAGE; max -= page.n) {
        struct arena a own_arena = {0};

        arena_init(&a, STORE_PAGE_MEMORY);
        page.max = max < STORE_PAGE ? max : STORE_PAGE;
        if (read_newest(s, &a, owner, status, &page, e) < 0 || tell_page(&page, each, arg, e) < 0) {
            return -1;
        }
    }
    return 0;
}

static int read_due(struct store *s, struct arena *a, int64_t now_s, struct watch_page *page,
                    struct err *e)
{
    LOCKED(&s->lock);
    sqlite3_stmt *stmt own_stmt = NULL;

    if (db_open(s, e) < 0 ||
        db_prepare(s,
                   "SELECT " COLUMNS " FROM watches WHERE status = 0 AND "
                   "(next_check_s <= ?1 OR last_checked_s > ?1) AND (next_check_s, id) > (?3, ?4) "
                   "ORDER BY next_check_s, id LIMIT ?2",
                   &stmt, e) < 0) {
        return -1;
    }
    db_bind_int(stmt, 1, now_s);
    db_bind_int(stmt, 2, page->max);
    db_bind_int(stmt, 3, page->last_check_s);
    db_bind_int(stmt, 4, page->last_id);
    return read_page(s, a, stmt, page, e);
}

int store_due_watches(struct store *s, int64_t now_s, int max, watch_row_fn *each, void *arg,
                      struct err *e)
{
    struct watch_page page = {.last_check_s = INT64_MIN, .n = STORE_PAGE};

    for (; max > 0 && page.n == STORE_PAGE; max -= page.n) {
        struct arena a own_arena = {0};

        arena_init(&a, STORE_PAGE_MEMORY);
        page.max = max < STORE_PAGE ? max : STORE_PAGE;
        if (read_due(s, &a, now_s, &page, e) < 0 || tell_page(&page, each, arg, e) < 0) {
            return -1;
        }
    }
    return 0;
}

int store_count_watches(struct store *s, const struct str *owner, int64_t counts[WATCH_STATUSES],
                        struct err *e)
{
    LOCKED(&s->lock);
    sqlite3_stmt *stmt own_stmt = NULL;
    int rc;

    for (int i = 0; i < WATCH_STATUSES; i++) {
        counts[i] = 0;
    }
    if (db_open(s, e) < 0 || db_prepare(s,
                                        "SELECT status, count(*) FROM watches "
                                        "WHERE (?1 IS NULL OR owner = ?1) GROUP BY status",
                                        &stmt, e) < 0) {
        return -1;
    }
    if (owner != NULL) {
        db_bind_str(stmt, 1, *owner);
    }
    for (rc = db_step(s, stmt, e); rc > 0; rc = db_step(s, stmt, e)) {
        int status = sqlite3_column_int(stmt, 0);

        if (status >= 0 && status < WATCH_STATUSES) {
            counts[status] = sqlite3_column_int64(stmt, 1);
        }
    }
    return rc < 0 ? -1 : 0;
}

/* ---- changing -------------------------------------------------------------------- */

static void bind_memory(sqlite3_stmt *stmt, const struct watch_memory *m)
{
    db_bind_int(stmt, 3, m->status);
    db_bind_int(stmt, 4, m->state);
    if (m->has_exit_code) {
        db_bind_int(stmt, 5, m->exit_code);
    }
    db_bind_int(stmt, 6, m->failures);
    db_bind_int(stmt, 7, m->alert_sent);
    db_bind_int(stmt, 8, m->interrupted_s);
    db_bind_int(stmt, 9, m->resume_due_s);
    db_bind_int(stmt, 10, m->resume_attempts);
    db_bind_int(stmt, 11, m->resume_failures);
    db_bind_int(stmt, 12, m->resume_uncertain);
    db_bind_int(stmt, 13, m->last_checked_s);
    db_bind_int(stmt, 14, m->next_check_s);
}

int watch_sql_update(struct store *s, const struct watch_row *seen,
                     const struct watch_memory *memory, const struct watch_words *words,
                     bool has_events, struct err *e)
{
    sqlite3_stmt *stmt own_stmt = NULL;

    if (db_prepare(s,
                   "UPDATE watches SET revision = revision + 1, status = ?3, state = ?4, "
                   "exit_code = ?5, failures = ?6, alert_sent = ?7, interrupted_s = ?8, "
                   "resume_due_s = ?9, resume_attempts = ?10, resume_failures = ?11, "
                   "resume_uncertain = ?12, last_checked_s = ?13, next_check_s = ?14, "
                   "task_run = ?15, next_run = ?22, summary = ?16, error = ?17, log_tail = ?18, "
                   "checkpoint_s = CASE checkpoint_text WHEN ?19 THEN checkpoint_s ELSE ?20 END, "
                   "checkpoint_text = ?19, updated_s = ?20, "
                   "last_event_s = CASE ?21 WHEN 0 THEN last_event_s ELSE ?20 END "
                   "WHERE id = ?1 AND revision = ?2 AND status = 0",
                   &stmt, e) < 0) {
        return -1;
    }
    db_bind_int(stmt, 1, seen->id);
    db_bind_int(stmt, 2, seen->revision);
    bind_memory(stmt, memory);
    db_bind_str(stmt, 15, words->task_run);
    db_bind_str(stmt, 16, words->summary);
    db_bind_str(stmt, 17, words->error);
    db_bind_str(stmt, 18, words->log_tail);
    db_bind_str(stmt, 19, words->checkpoint_text);
    db_bind_int(stmt, 20, clock_wall_ms() / 1000);
    db_bind_int(stmt, 21, has_events);
    db_bind_str(stmt, 22, words->next_run);
    return db_step(s, stmt, e) < 0 ? -1 : sqlite3_changes(s->db) > 0;
}

static int step(struct store *s, const struct watch_row *seen, const struct watch_memory *memory,
                const struct watch_words *words, struct new_event *events, size_t n, bool *stored,
                struct err *e)
{
    int rc = watch_sql_update(s, seen, memory, words, n > 0, e);

    *stored = rc > 0;
    for (size_t i = 0; i < n && rc > 0; i++) {
        rc = watch_sql_add_event(s, seen, &events[i], e) < 0 ? -1 : 1;
    }
    return rc < 0 ? -1 : 0;
}

int store_step_watch(struct store *s, const struct watch_row *seen,
                     const struct watch_memory *memory, const struct watch_words *words,
                     struct new_event *events, size_t n, struct err *e)
{
    LOCKED(&s->lock);
    bool stored = false;

    if (db_open(s, e) < 0 || db_begin(s, e) < 0) {
        return -1;
    }
    if (db_end(s, step(s, seen, memory, words, events, n, &stored, e), e) < 0) {
        return -1;
    }
    return stored;
}

int store_cancel_watch(struct store *s, struct str owner, int64_t id, struct err *e)
{
    LOCKED(&s->lock);
    sqlite3_stmt *stmt own_stmt = NULL;

    if (db_open(s, e) < 0 ||
        db_prepare(s,
                   "UPDATE watches SET revision = revision + 1, status = 2, next_check_s = 0, "
                   "updated_s = ?3 WHERE id = ?1 AND owner = ?2 AND status = 0",
                   &stmt, e) < 0) {
        return -1;
    }
    db_bind_int(stmt, 1, id);
    db_bind_str(stmt, 2, owner);
    db_bind_int(stmt, 3, clock_wall_ms() / 1000);
    return db_step(s, stmt, e) < 0 ? -1 : sqlite3_changes(s->db) > 0;
}
