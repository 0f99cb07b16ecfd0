#include "base/buf.h"
#include "state.h"
#include "store/import_r.h"

/* A database as remote-sandbox-mcp makes it, with the columns that `watches` names. */
static const char *make(struct place *p, const char *sql)
{
    const char *path = arena_printf(&p->arena, "%s/watchdog.sqlite3", p->dir).p;
    sqlite3 *db = NULL;

    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK) {
        fail_msg("%s", sqlite3_errmsg(db));
    }
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    return path;
}

#define TABLE                                                                                      \
    "PRAGMA journal_mode = WAL;"                                                                   \
    "CREATE TABLE watches (id INTEGER PRIMARY KEY, run_id TEXT, name TEXT, sandbox_name TEXT, "    \
    "tmux_session TEXT, log_file TEXT, interval_s INTEGER, status TEXT, last_state TEXT, "         \
    "auto_resume INTEGER, resume_attempts INTEGER, max_resume_attempts INTEGER, "                  \
    "interrupted_ts REAL, metadata_json TEXT);"                                                    \
    "CREATE TABLE daemon_meta (key TEXT PRIMARY KEY, value TEXT, updated_ts REAL);"

static void active_ones_are_read_whatever_columns_there_are(void **state)
{
    struct place *p = *state;
    const char *path =
        make(p, TABLE "INSERT INTO watches VALUES (7, 'r', 'n', 'gpu1', 'train', '/h/t.log', 60, "
                      "'active', 'interrupted', 1, 2, 5, 1700000000.5, '{}');"
                      "INSERT INTO watches VALUES (8, '', '', 'gpu1', 'over', '/h/o.log', 60, "
                      "'completed', 'completed', 0, 0, 1, 0, '{}');"
                      "INSERT INTO watches VALUES (9, '', '', 'gpu2', 'odd', '/h/o.log', -4, "
                      "'active', 'strange', 0, NULL, NULL, NULL, NULL);");
    struct watch_row *rows;
    struct err e;
    size_t n;

    assert_ok(store_r_watches(path, &p->arena, &rows, &n, &e), &e);
    assert_int_equal(n, 2);
    assert_int_equal(rows[0].id, 7);
    assert_str(rows[0].order.box_name, S("gpu1"));
    assert_str(rows[0].order.session, S("train"));
    assert_int_equal(rows[0].order.max_resume_attempts, 5);
    assert_true(rows[0].order.auto_resume);
    assert_int_equal(rows[0].memory.resume_attempts, 2);
    assert_int_equal(rows[0].memory.interrupted_s, 1700000000);
    assert_int_equal(rows[0].memory.state, STATE_INTERRUPTED);
    assert_str(rows[0].order.event_command, S("")); /* no such column */
    assert_int_equal(rows[0].order.alert_after_failures, 2);
    assert_int_equal(rows[1].order.interval_s, 1);
    assert_int_equal(rows[1].order.max_resume_attempts, 1);
    assert_int_equal(rows[1].memory.state, STATE_NEW);
}

static void it_is_left_as_it_is(void **state)
{
    struct place *p = *state;
    const char *path = make(p, TABLE);
    struct stat was, is;
    struct watch_row *rows;
    struct str beat;
    struct err e;
    size_t n;

    assert_int_equal(stat(path, &was), 0);
    assert_ok(store_r_watches(path, &p->arena, &rows, &n, &e), &e);
    assert_ok(store_r_heartbeat(path, &p->arena, &beat, &e), &e);
    assert_int_equal(n, 0);
    assert_str(beat, S(""));
    assert_int_equal(stat(path, &is), 0);
    assert_memory_equal(&was.st_mtim, &is.st_mtim, sizeof(was.st_mtim));
    assert_int_equal(access(arena_printf(&p->arena, "%s-wal", path).p, F_OK), -1);
    assert_int_equal(access(arena_printf(&p->arena, "%s-shm", path).p, F_OK), -1);
}

static void what_its_user_has_just_written_counts(void **state)
{
    struct place *p = *state;
    const char *path = make(p, TABLE);
    sqlite3 *db = NULL;
    struct str beat;
    struct err e;

    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db,
                                  "INSERT INTO daemon_meta VALUES ('heartbeat', '{\"ts\": 5}', 5)",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    assert_ok(store_r_heartbeat(path, &p->arena, &beat, &e), &e); /* in the write-ahead log */
    assert_str(beat, S("{\"ts\": 5}"));
    (void)sqlite3_close(db);
}

static void what_is_no_database_is_named(void **state)
{
    struct place *p = *state;
    const char *path = arena_printf(&p->arena, "%s/w?#%%41.sqlite3", p->dir).p;
    struct watch_row *rows;
    struct err e;
    size_t n;

    assert_int_equal(store_r_watches(path, &p->arena, &rows, &n, &e), -1);
    assert_int_equal(e.kind, ERR_NOT_FOUND);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    (void)fputs("this is a text and no database at all, but for its name, you see", f);
    (void)fclose(f);
    assert_int_equal(store_r_watches(path, &p->arena, &rows, &n, &e), -1);
    assert_non_null(strstr(e.msg, path));
}

static void they_come_over_once(void **state)
{
    struct place *p = *state;
    const struct watch_row rows[] = {
        {
            .id = 7,
            .order = {.box_id = S("ssh:gpu1"), .session = S("train"), .interval_s = 60},
            .memory = {.state = STATE_INTERRUPTED, .resume_attempts = 2, .interrupted_s = 9},
        },
        {.id = 9, .order = {.box_id = S("ssh:gpu1"), .session = S("other"), .interval_s = 60}},
    };
    struct watch_row row;
    struct err e;
    int64_t counts[WATCH_STATUSES];

    assert_int_equal(store_import_watches(p->store, S("k"), S("{}"), rows, 2, &e), 1);
    assert_int_equal(store_import_watches(p->store, S("k"), S("{}"), rows, 2, &e), 0);
    assert_ok(store_count_watches(p->store, NULL, counts, &e), &e);
    assert_int_equal(counts[WATCH_ACTIVE], 2);
    assert_ok(store_get_watch(p->store, &p->arena, NULL, 1, &row, &e), &e);
    assert_str(row.order.session, S("train"));
    assert_int_equal(row.memory.resume_attempts, 2);
    assert_int_equal(row.memory.interrupted_s, 9);
    assert_int_equal(row.memory.state, STATE_INTERRUPTED);
    assert_int_equal(row.memory.next_check_s, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(active_ones_are_read_whatever_columns_there_are,
                                        place_set_up, place_tear_down),
        cmocka_unit_test_setup_teardown(it_is_left_as_it_is, place_set_up, place_tear_down),
        cmocka_unit_test_setup_teardown(what_its_user_has_just_written_counts, place_set_up,
                                        place_tear_down),
        cmocka_unit_test_setup_teardown(what_is_no_database_is_named, place_set_up,
                                        place_tear_down),
        cmocka_unit_test_setup_teardown(they_come_over_once, place_set_up, place_tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
