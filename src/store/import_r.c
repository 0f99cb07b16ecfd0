#include "store/import_r.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/own.h"
#include "store/db.h"
#include "store/watch_sql.h"

#define R_BUSY_MS  2000
#define R_ROW_MAX  (1 << 20) /* bytes: a longer row is an error */
#define R_PATH_MAX 4096

static void close_db(sqlite3 **db)
{
    (void)sqlite3_close(*db);
}

static void finalize(sqlite3_stmt **stmt)
{
    (void)sqlite3_finalize(*stmt);
}

static int fail(sqlite3 *db, const char *path, struct err *e)
{
    return err_set(e, ERR_SYSTEM, "remote-sandbox-mcp's database %s cannot be read: %s", path,
                   db != NULL ? sqlite3_errmsg(db) : "out of memory");
}

static int look(const char *path, struct stat *st, struct err *e)
{
    if (stat(path, st) < 0) {
        return err_sys(e, errno, "look at remote-sandbox-mcp's database %s", path);
    }
    return 0;
}

static bool has_log(const char *path)
{
    char log[R_PATH_MAX + 8];
    struct stat st;

    (void)snprintf(log, sizeof(log), "%s-wal", path);
    return stat(log, &st) == 0;
}

/* "file:..." with every byte that means something there escaped. */
static void put_uri(const char *path, bool is_used, struct buf *out)
{
    buf_add(out, S("file:"));
    for (const char *p = path; *p != '\0'; p++) {
        bool is_plain = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
                        (*p >= '0' && *p <= '9') || strchr("/._-", *p) != NULL;

        if (is_plain) {
            buf_addc(out, *p);
        } else {
            buf_addf(out, "%%%02X", (unsigned)(unsigned char)*p);
        }
    }
    buf_add(out, is_used ? S("?mode=ro") : S("?mode=ro&immutable=1"));
    buf_addc(out, 0);
}

static int open_r(const char *path, sqlite3 **out, struct err *e)
{
    struct buf uri own_buf = {0};

    if (strlen(path) >= R_PATH_MAX) {
        return err_set(e, ERR_INVALID, "the path of remote-sandbox-mcp's database is too long");
    }
    buf_init(&uri, (size_t)4 * R_PATH_MAX);
    put_uri(path, has_log(path), &uri);
    if (sqlite3_open_v2(uri.p, out, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX,
                        NULL) != SQLITE_OK) {
        return fail(*out, path, e);
    }
    (void)sqlite3_busy_timeout(*out, R_BUSY_MS);
    (void)sqlite3_limit(*out, SQLITE_LIMIT_LENGTH, R_ROW_MAX);
    /* It is a file of somebody's: nothing that its schema defines may do more than give rows. */
    (void)sqlite3_db_config(*out, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    (void)sqlite3_db_config(*out, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    return 0;
}

/* ---- rows by the names of their columns ------------------------------------------------ */

struct row {
    sqlite3_stmt *stmt;
    struct arena *a;
};

static int column(const struct row *r, const char *name)
{
    for (int i = 0; i < sqlite3_column_count(r->stmt); i++) {
        const char *has = sqlite3_column_name(r->stmt, i);

        if (has != NULL && strcmp(has, name) == 0) {
            return i;
        }
    }
    return -1;
}

static struct str text(const struct row *r, const char *name)
{
    int i = column(r, name);

    return i < 0 ? STR_EMPTY : db_column_str(r->stmt, i, r->a);
}

static int64_t number(const struct row *r, const char *name, int64_t fallback)
{
    int i = column(r, name);

    return i < 0 || sqlite3_column_type(r->stmt, i) == SQLITE_NULL
               ? fallback
               : sqlite3_column_int64(r->stmt, i);
}

static int64_t at_least(int64_t v, int64_t min)
{
    return v < min ? min : v;
}

static struct watch_order order_of(const struct row *r)
{
    return (struct watch_order){
        .box_name = text(r, "sandbox_name"),
        .run_id = text(r, "run_id"),
        .name = text(r, "name"),
        .session = text(r, "tmux_session"),
        .log_file = text(r, "log_file"),
        .cwd = text(r, "cwd"),
        .launch_command = text(r, "launch_command"),
        .resume_command = text(r, "resume_command"),
        .resume_plan = text(r, "resume_plan_json"),
        .metadata = text(r, "metadata_json"),
        .checkpoint_path = text(r, "checkpoint_path"),
        .checkpoint_format = text(r, "checkpoint_format"),
        .checkpoint_command = text(r, "checkpoint_command"),
        .webhook_url = text(r, "webhook_url"),
        .event_command = text(r, "event_command"),
        .interval_s = at_least(number(r, "interval_s", 300), 1),
        .max_log_lines = at_least(number(r, "max_log_lines", 80), 1),
        .alert_after_failures = at_least(number(r, "alert_after_failures", 2), 1),
        .resume_delay_s = at_least(number(r, "resume_delay_s", 300), 0),
        .max_resume_attempts = at_least(number(r, "max_resume_attempts", 1), 0),
        .auto_resume = number(r, "auto_resume", 0) != 0,
        .notify_local = number(r, "notify_local", 1) != 0,
    };
}

static enum watch_state state_of(struct str name)
{
    static const struct {
        struct str name;
        enum watch_state state;
    } known[] = {
        {{"running", 7}, STATE_RUNNING},
        {{"interrupted", 11}, STATE_INTERRUPTED},
        {{"ssh_unreachable", 15}, STATE_UNREACHABLE},
        {{"config_missing", 14}, STATE_NO_CONFIG},
    };

    for (size_t i = 0; i < COUNTOF(known); i++) {
        if (str_eq(known[i].name, name)) {
            return known[i].state;
        }
    }
    return STATE_NEW;
}

static struct watch_memory memory_of(const struct row *r)
{
    return (struct watch_memory){
        .status = WATCH_ACTIVE,
        .state = state_of(text(r, "last_state")),
        .failures = at_least(number(r, "consecutive_ssh_failures", 0), 0),
        .alert_sent = number(r, "ssh_alert_sent", 0) != 0,
        .interrupted_s = at_least(number(r, "interrupted_ts", 0), 0),
        .resume_due_s = at_least(number(r, "resume_due_ts", 0), 0),
        .resume_attempts = at_least(number(r, "resume_attempts", 0), 0),
    };
}

/* ---- reading --------------------------------------------------------------------------- */

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static int check_unchanged(const char *path, const struct stat *was, struct err *e)
{
    struct stat is;

    if (look(path, &is, e) < 0) {
        return -1;
    }
    if (!has_log(path) && !is_same(was, &is)) {
        return err_set(e, ERR_UNREACHABLE,
                       "remote-sandbox-mcp's database %s was changed while it was read; try again",
                       path);
    }
    return 0;
}

static int step_r(sqlite3 *db, sqlite3_stmt *stmt, const char *path, struct err *e)
{
    int rc = sqlite3_step(stmt);

    if (rc != SQLITE_ROW && rc != SQLITE_DONE) {
        return fail(db, path, e);
    }
    return rc == SQLITE_ROW;
}

int store_r_watches(const char *path, struct arena *a, struct watch_row **out, size_t *n,
                    struct err *e)
{
    sqlite3 *db CLEANUP(close_db) = NULL;
    sqlite3_stmt *stmt CLEANUP(finalize) = NULL;
    struct watch_row *rows;
    struct stat was;
    int rc;

    *n = 0;
    if (look(path, &was, e) < 0 || open_r(path, &db, e) < 0) {
        return -1;
    }
    if (sqlite3_prepare_v2(db, "SELECT * FROM watches WHERE status = 'active' ORDER BY id", -1,
                           &stmt, NULL) != SQLITE_OK) {
        return fail(db, path, e);
    }
    rows = arena_alloc(a, IMPORT_MAX, sizeof(*rows));
    for (rc = step_r(db, stmt, path, e); rc > 0 && *n < IMPORT_MAX;
         rc = step_r(db, stmt, path, e)) {
        const struct row r = {stmt, a};

        rows[(*n)++] = (struct watch_row){
            .id = number(&r, "id", 0),
            .order = order_of(&r),
            .memory = memory_of(&r),
        };
    }
    *out = rows;
    return rc < 0 ? -1 : check_unchanged(path, &was, e);
}

int store_r_heartbeat(const char *path, struct arena *a, struct str *out, struct err *e)
{
    sqlite3 *db CLEANUP(close_db) = NULL;
    sqlite3_stmt *stmt CLEANUP(finalize) = NULL;
    struct stat was;
    int rc;

    *out = STR_EMPTY;
    if (look(path, &was, e) < 0 || open_r(path, &db, e) < 0) {
        return -1;
    }
    if (sqlite3_prepare_v2(db, "SELECT value FROM daemon_meta WHERE key = 'heartbeat'", -1, &stmt,
                           NULL) != SQLITE_OK) {
        return fail(db, path, e);
    }
    rc = step_r(db, stmt, path, e);
    if (rc > 0) {
        *out = db_column_str(stmt, 0, a);
    }
    return rc < 0 ? -1 : check_unchanged(path, &was, e);
}

/* ---- into our own ------------------------------------------------------------------------ */

static int is_done(struct store *s, struct str key, struct err *e)
{
    sqlite3_stmt *stmt own_stmt = NULL;

    if (db_prepare(s, "SELECT 1 FROM watchdog WHERE key = ?1", &stmt, e) < 0) {
        return -1;
    }
    db_bind_str(stmt, 1, key);
    return db_step(s, stmt, e);
}

static int set_done(struct store *s, struct str key, struct str note, struct err *e)
{
    sqlite3_stmt *stmt own_stmt = NULL;

    if (db_prepare(s, "INSERT INTO watchdog (key, value, set_s) VALUES (?1, ?2, ?3)", &stmt, e) <
        0) {
        return -1;
    }
    db_bind_str(stmt, 1, key);
    db_bind_str(stmt, 2, note);
    db_bind_int(stmt, 3, clock_wall_ms() / 1000);
    return db_step(s, stmt, e);
}

static int import(struct store *s, struct str key, struct str note, const struct watch_row *rows,
                  size_t n, bool *did, struct err *e)
{
    int rc = is_done(s, key, e);

    if (rc != 0) {
        return rc < 0 ? -1 : 0;
    }
    for (size_t i = 0; i < n; i++) {
        struct watch_row added = rows[i];

        added.revision = 0;
        if (watch_sql_add(s, &rows[i].order, STR_EMPTY, &added.id, e) < 0 ||
            watch_sql_update(s, &added, &rows[i].memory, &rows[i].words, false, e) < 0) {
            return -1;
        }
    }
    *did = true;
    return set_done(s, key, note, e);
}

int store_import_watches(struct store *s, struct str key, struct str note,
                         const struct watch_row *rows, size_t n, struct err *e)
{
    LOCKED(&s->lock);
    bool did = false;

    if (db_open(s, e) < 0 || db_begin(s, e) < 0) {
        return -1;
    }
    if (db_end(s, import(s, key, note, rows, n, &did, e), e) < 0) {
        return -1;
    }
    return did;
}
