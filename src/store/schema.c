/*
 * schema.c - the format of the database and how it came to be.
 *
 * Append only: a migration that was ever released is never changed. user_version is
 * how many of them a database has seen. Migrations are additive, so that an older
 * instance that is still running goes on; one that must break older readers raises
 * `min_reader` in the same step, and those then refuse with a sentence.
 */
#include "store/db.h"

const char *const db_migrations[] = {
    /* 1: boxes. A name is taken as long as its row has not ended (state 2). Every
     * query has its index: the cost must not grow with the rows of the past. */
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;"
    "INSERT INTO meta VALUES ('min_reader', 1);"
    "CREATE TABLE boxes ("
    "  seq INTEGER PRIMARY KEY,"
    "  id TEXT NOT NULL UNIQUE,"
    "  owner TEXT NOT NULL,"
    "  name TEXT NOT NULL,"
    "  provider TEXT NOT NULL,"
    "  ref TEXT NOT NULL,"
    "  image TEXT NOT NULL,"
    "  state INTEGER NOT NULL CHECK (state IN (0, 1, 2)),"
    "  ended TEXT NOT NULL,"
    "  created_ms INTEGER NOT NULL,"
    "  ended_ms INTEGER NOT NULL,"
    "  used_ms INTEGER NOT NULL,"
    "  expires_ms INTEGER NOT NULL,"
    "  starter_pid INTEGER NOT NULL,"
    "  starter_start INTEGER NOT NULL"
    ") STRICT;"
    "CREATE UNIQUE INDEX boxes_by_name ON boxes (owner, name) WHERE state <> 2;"
    "CREATE INDEX boxes_not_ended ON boxes (owner) WHERE state <> 2;" /* and seq */
    "CREATE INDEX boxes_by_ref ON boxes (owner, provider, ref);"
    "CREATE INDEX boxes_ended_by_name ON boxes (owner, name, ended_ms) WHERE state = 2;"
    "CREATE INDEX boxes_ended ON boxes (ended_ms) WHERE state = 2;",

    /* 2: what was selected last, by owner and folder. */
    "CREATE TABLE selections ("
    "  owner TEXT NOT NULL,"
    "  folder TEXT NOT NULL,"
    "  box_id TEXT NOT NULL,"
    "  set_ms INTEGER NOT NULL,"
    "  PRIMARY KEY (owner, folder)"
    ") STRICT, WITHOUT ROWID;"
    "CREATE INDEX selections_by_box ON selections (box_id);",

    /* 3: transfers. AUTOINCREMENT: a number that was told is never given to another one. */
    "CREATE TABLE transfers ("
    "  id INTEGER PRIMARY KEY AUTOINCREMENT,"
    "  owner TEXT NOT NULL,"
    "  down INTEGER NOT NULL,"
    "  box_id TEXT NOT NULL,"
    "  box_name TEXT NOT NULL,"
    "  local TEXT NOT NULL,"
    "  remote TEXT NOT NULL,"
    "  options TEXT NOT NULL,"
    "  state INTEGER NOT NULL CHECK (state IN (0, 1, 2, 3, 4)),"
    "  pid INTEGER NOT NULL,"
    "  pid_start INTEGER NOT NULL,"
    "  boot TEXT NOT NULL,"
    "  lease_ms INTEGER NOT NULL,"
    "  phase TEXT NOT NULL DEFAULT 'queued',"
    "  path TEXT NOT NULL DEFAULT '',"
    "  is_file INTEGER NOT NULL DEFAULT 0,"
    "  dirs INTEGER NOT NULL DEFAULT 0,"
    "  files INTEGER NOT NULL DEFAULT 0,"
    "  files_total INTEGER NOT NULL DEFAULT 0,"
    "  unchanged INTEGER NOT NULL DEFAULT 0,"
    "  bytes INTEGER NOT NULL DEFAULT 0,"
    "  bytes_total INTEGER NOT NULL DEFAULT 0,"
    "  deleted_files INTEGER NOT NULL DEFAULT 0,"
    "  deleted_dirs INTEGER NOT NULL DEFAULT 0,"
    "  failed INTEGER NOT NULL DEFAULT 0,"
    "  note TEXT NOT NULL DEFAULT '',"
    "  rate INTEGER NOT NULL DEFAULT 0,"
    "  used_ms INTEGER NOT NULL DEFAULT 0,"
    "  error TEXT NOT NULL DEFAULT '',"
    "  log_file TEXT NOT NULL DEFAULT '',"
    "  created_ms INTEGER NOT NULL,"
    "  started_ms INTEGER NOT NULL DEFAULT 0,"
    "  finished_ms INTEGER NOT NULL DEFAULT 0,"
    "  updated_ms INTEGER NOT NULL"
    ") STRICT;"
    "CREATE INDEX transfers_by_owner ON transfers (owner, id);"
    "CREATE INDEX transfers_live ON transfers (id) WHERE state < 2;"
    "CREATE INDEX transfers_finished ON transfers (id) WHERE state > 1;",

    /* 4: tasks, by the id of their run. */
    "CREATE TABLE tasks ("
    "  seq INTEGER PRIMARY KEY,"
    "  id TEXT NOT NULL UNIQUE,"
    "  owner TEXT NOT NULL,"
    "  box_id TEXT NOT NULL,"
    "  name TEXT NOT NULL,"
    "  log TEXT NOT NULL,"
    "  dir TEXT NOT NULL,"
    "  command TEXT NOT NULL,"
    "  state TEXT NOT NULL,"
    "  exit_code INTEGER NOT NULL,"
    "  signal INTEGER NOT NULL,"
    "  created_ms INTEGER NOT NULL,"
    "  ended_ms INTEGER NOT NULL"
    ") STRICT;"
    "CREATE INDEX tasks_by_name ON tasks (owner, name, seq);"
    "CREATE INDEX tasks_by_log ON tasks (owner, log, seq);"
    "CREATE INDEX tasks_by_box ON tasks (owner, box_id, seq);"
    "CREATE INDEX tasks_by_time ON tasks (created_ms);",

    /* 5: watches, what happened, and who is still to be told. */
    "CREATE TABLE watches ("
    "  id INTEGER PRIMARY KEY AUTOINCREMENT,"
    "  revision INTEGER NOT NULL DEFAULT 0,"
    "  owner TEXT NOT NULL,"
    "  box_id TEXT NOT NULL,"
    "  box_name TEXT NOT NULL,"
    "  run_id TEXT NOT NULL,"
    "  name TEXT NOT NULL,"
    "  session TEXT NOT NULL,"
    "  log_file TEXT NOT NULL,"
    "  cwd TEXT NOT NULL,"
    "  launch_command TEXT NOT NULL,"
    "  resume_command TEXT NOT NULL,"
    "  resume_plan TEXT NOT NULL,"
    "  metadata TEXT NOT NULL,"
    "  checkpoint_path TEXT NOT NULL,"
    "  checkpoint_format TEXT NOT NULL,"
    "  checkpoint_command TEXT NOT NULL,"
    "  webhook_url TEXT NOT NULL,"
    "  event_command TEXT NOT NULL,"
    "  interval_s INTEGER NOT NULL,"
    "  max_log_lines INTEGER NOT NULL,"
    "  alert_after_failures INTEGER NOT NULL,"
    "  resume_delay_s INTEGER NOT NULL,"
    "  max_resume_attempts INTEGER NOT NULL,"
    "  auto_resume INTEGER NOT NULL,"
    "  notify_local INTEGER NOT NULL,"
    "  status INTEGER NOT NULL DEFAULT 0,"
    "  state INTEGER NOT NULL DEFAULT 0,"
    "  exit_code INTEGER,"
    "  failures INTEGER NOT NULL DEFAULT 0,"
    "  alert_sent INTEGER NOT NULL DEFAULT 0,"
    "  interrupted_s INTEGER NOT NULL DEFAULT 0,"
    "  resume_due_s INTEGER NOT NULL DEFAULT 0,"
    "  resume_attempts INTEGER NOT NULL DEFAULT 0,"
    "  resume_failures INTEGER NOT NULL DEFAULT 0,"
    "  resume_uncertain INTEGER NOT NULL DEFAULT 0,"
    "  last_checked_s INTEGER NOT NULL DEFAULT 0,"
    "  next_check_s INTEGER NOT NULL DEFAULT 0,"
    "  task_run TEXT NOT NULL,"
    "  next_run TEXT NOT NULL DEFAULT '',"
    "  summary TEXT NOT NULL DEFAULT '',"
    "  error TEXT NOT NULL DEFAULT '',"
    "  log_tail TEXT NOT NULL DEFAULT '',"
    "  checkpoint_text TEXT NOT NULL DEFAULT '',"
    "  created_s INTEGER NOT NULL,"
    "  updated_s INTEGER NOT NULL,"
    "  last_event_s INTEGER NOT NULL DEFAULT 0,"
    "  checkpoint_s INTEGER NOT NULL DEFAULT 0"
    ") STRICT;"
    "CREATE INDEX watches_due ON watches (next_check_s) WHERE status = 0;"
    "CREATE INDEX watches_by_owner ON watches (owner, id);"
    "CREATE INDEX watches_by_status ON watches (status, owner);"
    "CREATE INDEX watches_over ON watches (updated_s) WHERE status <> 0;"
    "CREATE TABLE watch_events ("
    "  id INTEGER PRIMARY KEY AUTOINCREMENT,"
    "  watch_id INTEGER NOT NULL,"
    "  owner TEXT NOT NULL,"
    "  type TEXT NOT NULL,"
    "  summary TEXT NOT NULL,"
    "  payload TEXT NOT NULL,"
    "  created_s INTEGER NOT NULL"
    ") STRICT;"
    "CREATE INDEX watch_events_by_watch ON watch_events (watch_id, id);"
    "CREATE INDEX watch_events_by_owner ON watch_events (owner, id);"
    "CREATE INDEX watch_events_by_age ON watch_events (created_s);"
    /* next_s 0: done or given up; such rows are removed, but for the reason of the latter. */
    "CREATE TABLE deliveries ("
    "  id INTEGER PRIMARY KEY,"
    "  event_id INTEGER NOT NULL,"
    "  kind INTEGER NOT NULL,"
    "  tries INTEGER NOT NULL DEFAULT 0,"
    "  next_s INTEGER NOT NULL,"
    "  error TEXT NOT NULL DEFAULT ''"
    ") STRICT;"
    "CREATE INDEX deliveries_due ON deliveries (next_s) WHERE next_s > 0;"
    "CREATE INDEX deliveries_by_event ON deliveries (event_id);"
    "CREATE TABLE watchdog ("
    "  key TEXT PRIMARY KEY,"
    "  value TEXT NOT NULL,"
    "  set_s INTEGER NOT NULL"
    ") STRICT, WITHOUT ROWID;",
};

const int db_version = COUNTOF(db_migrations);

static int read_int(struct store *s, const char *sql, int64_t *out, struct err *e)
{
    sqlite3_stmt *stmt own_stmt = NULL;
    int rc;

    if (db_prepare(s, sql, &stmt, e) < 0) {
        return -1;
    }
    rc = db_step(s, stmt, e);
    if (rc < 0) {
        return -1;
    }
    *out = rc > 0 ? sqlite3_column_int64(stmt, 0) : 0;
    return 0;
}

static int check_newer(struct store *s, int64_t version, struct err *e)
{
    int64_t min_reader = 0;

    if (read_int(s, "SELECT value FROM meta WHERE key = 'min_reader'", &min_reader, e) < 0) {
        return -1;
    }
    if (min_reader > db_version) {
        return err_set(
            e, ERR_UNSUPPORTED,
            "the database %s was made by a newer anybox (format %lld, this one knows %d): "
            "upgrade this anybox, or set ANYBOX_HOME to another folder",
            s->path, (long long)version, db_version);
    }
    return 0;
}

static int apply(struct store *s, struct err *e)
{
    int64_t version;
    char sql[64];

    /* Another process may have been faster between our first look and the lock. */
    if (read_int(s, "PRAGMA user_version", &version, e) < 0) {
        return -1;
    }
    if (version >= db_version) {
        return 0;
    }
    for (int64_t i = version; i < db_version; i++) {
        if (db_run(s, db_migrations[i], e) < 0) {
            return err_wrap(e, "bring the database to format %lld", (long long)i + 1);
        }
    }
    (void)snprintf(sql, sizeof(sql), "PRAGMA user_version = %d", db_version);
    return db_run(s, sql, e);
}

int db_migrate(struct store *s, struct err *e)
{
    int64_t version = 0;

    if (read_int(s, "PRAGMA user_version", &version, e) < 0) {
        return -1;
    }
    if (version > db_version) {
        return check_newer(s, version, e);
    }
    if (version == db_version) {
        return 0;
    }
    if (db_begin(s, e) < 0) {
        return -1;
    }
    return db_end(s, apply(s, e), e);
}
