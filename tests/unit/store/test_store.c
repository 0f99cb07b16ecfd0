#include "state.h"

/* Opens the database by a harmless question. */
static int touch(struct place *p, struct err *e)
{
    int64_t n;

    return store_count_boxes(p->store, STR_EMPTY, &n, e);
}

static void run_sql(struct place *p, const char *sql)
{
    sqlite3 *db;
    char path[128];
    char *message = NULL;

    (void)mkdir(p->state, 0700);
    (void)snprintf(path, sizeof(path), "%s/anybox.db", p->state);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK) {
        fail_msg("%s: %s", sql, message);
    }
    (void)sqlite3_close(db);
}

static mode_t mode_of(const char *dir, const char *name)
{
    char path[160];
    struct stat st;

    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    assert_int_equal(stat(path, &st), 0);
    return st.st_mode & 07777;
}

static void nothing_is_made_before_it_is_needed(void **state)
{
    struct place *p = *state;

    assert_int_equal(access(p->state, F_OK), -1);
}

static void the_files_are_private(void **state)
{
    struct place *p = *state;
    struct err e;

    (void)umask(0);
    place_add(p, 1, "one");
    (void)umask(022);
    assert_int_equal(mode_of(p->state, "."), 0700);
    assert_int_equal(mode_of(p->state, "anybox.db"), 0600);
    assert_int_equal(mode_of(p->state, "anybox.db-wal"), 0600);
    store_free(p->store);
    assert_int_equal(chmod(p->state, 0755), 0);
    p->store = store_new(str_from(p->state));
    assert_ok(touch(p, &e), &e);
    assert_int_equal(mode_of(p->state, "."), 0700);
}

static void somebody_elses_folder_is_refused(void **state)
{
    struct place *p = *state;
    struct err e;

    if (geteuid() != 0) {
        /* Any folder of root's will do. */
        store_free(p->store);
        p->store = store_new(S("/usr"));
    } else {
        assert_int_equal(mkdir(p->state, 0700), 0);
        assert_int_equal(chown(p->state, 12345, 12345), 0);
    }
    assert_fails(touch(p, &e), &e, ERR_DENIED, "belongs to somebody else");
    assert_non_null(strstr(e.msg, "ANYBOX_HOME"));
}

/* Root may name /usr by mistake: it must stay as it is. */
static void a_folder_with_other_things_is_left_alone(void **state)
{
    struct place *p = *state;
    char path[128];
    struct err e;

    assert_int_equal(mkdir(p->state, 0755), 0);
    (void)snprintf(path, sizeof(path), "%s/bin", p->state);
    assert_int_equal(mkdir(path, 0755), 0);
    assert_int_equal(chmod(p->state, 0755), 0); /* whatever the umask is */
    assert_fails(touch(p, &e), &e, ERR_DENIED, "holds other things");
    assert_non_null(strstr(e.msg, "ANYBOX_HOME"));
    assert_int_equal(mode_of(p->state, "."), 0755);
    (void)snprintf(path, sizeof(path), "%s/anybox.db", p->state);
    assert_int_equal(access(path, F_OK), -1);
    /* One that is closed to others already may hold what it likes. */
    assert_int_equal(chmod(p->state, 0700), 0);
    assert_ok(touch(p, &e), &e);
}

static void an_empty_folder_is_closed_to_others(void **state)
{
    struct place *p = *state;
    struct err e;

    assert_int_equal(mkdir(p->state, 0755), 0);
    assert_int_equal(chmod(p->state, 0755), 0);
    assert_ok(touch(p, &e), &e);
    assert_int_equal(mode_of(p->state, "."), 0700);
}

static void a_folder_of_remote_sandbox_mcp_is_closed_to_others(void **state)
{
    static const char *const names[] = {"events", "transfers", "watchdog.sqlite3", "config.json"};
    struct place *p = *state;
    struct err e;

    assert_int_equal(mkdir(p->state, 0755), 0);
    assert_int_equal(chmod(p->state, 0755), 0);
    for (size_t i = 0; i < COUNTOF(names); i++) {
        char path[128];

        (void)snprintf(path, sizeof(path), "%s/%s", p->state, names[i]);
        assert_int_equal(mkdir(path, 0755), 0);
    }
    assert_ok(touch(p, &e), &e);
    assert_int_equal(mode_of(p->state, "."), 0700);
}

static void a_file_in_the_place_of_the_folder_is_told(void **state)
{
    struct place *p = *state;
    struct err e;
    int fd = open(p->state, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    (void)close(fd);
    assert_true(touch(p, &e) < 0);
    assert_non_null(strstr(e.msg, p->state));
    assert_non_null(strstr(e.msg, "ANYBOX_HOME"));
}

static void a_folder_in_the_place_of_the_file_is_told(void **state)
{
    struct place *p = *state;
    char path[128];
    struct err e;

    assert_int_equal(mkdir(p->state, 0700), 0);
    (void)snprintf(path, sizeof(path), "%s/anybox.db", p->state);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_fails(touch(p, &e), &e, ERR_INVALID, "anybox.db is not a file: move it away");
}

static void an_older_database_is_brought_up(void **state)
{
    struct place *p = *state;
    struct box_row got;
    struct str selected;
    struct err e;

    run_sql(p, db_migrations[0]);
    run_sql(p,
            "PRAGMA user_version = 1;"
            "INSERT INTO boxes VALUES (1, '0123456789abcdef0123456789abcdef', '', 'old', 'local', "
            "'r', '', 1, '', 5, 0, 5, 0, 1, 1)");
    assert_ok(store_box_by_name(p->store, &p->arena, STR_EMPTY, S("old"), &got, &e), &e);
    assert_int_equal(got.state, ROW_LIVE);
    assert_ok(store_set_selected(p->store, STR_EMPTY, S("/f"), got.id, &e), &e);
    assert_ok(store_get_selected(p->store, &p->arena, STR_EMPTY, S("/f"), &selected, &e), &e);
    assert_str(selected, got.id);
}

static void a_newer_database_is_used_when_it_allows_it(void **state)
{
    struct place *p = *state;
    struct err e;

    place_add(p, 1, "one");
    run_sql(p, "PRAGMA user_version = 99; ALTER TABLE boxes ADD COLUMN future TEXT");
    store_free(p->store);
    p->store = store_new(str_from(p->state));
    place_add(p, 2, "two");
    assert_ok(touch(p, &e), &e);
}

static void a_newer_database_is_refused_when_it_must_be(void **state)
{
    struct place *p = *state;
    struct err e;

    place_add(p, 1, "one");
    run_sql(p, "PRAGMA user_version = 99; UPDATE meta SET value = 98 WHERE key = 'min_reader'");
    store_free(p->store);
    p->store = store_new(str_from(p->state));
    assert_fails(touch(p, &e), &e, ERR_UNSUPPORTED, "made by a newer anybox (format 99");
    assert_non_null(strstr(e.msg, "upgrade"));
}

static void a_file_that_is_no_database_is_told(void **state)
{
    struct place *p = *state;
    char path[128];
    FILE *f;
    struct err e;

    assert_int_equal(mkdir(p->state, 0700), 0);
    (void)snprintf(path, sizeof(path), "%s/anybox.db", p->state);
    f = fopen(path, "w");
    assert_non_null(f);
    for (int i = 0; i < 10000; i++) {
        (void)fputs("garbage ", f);
    }
    (void)fclose(f);
    assert_fails(touch(p, &e), &e, ERR_SYSTEM, "is damaged");
    assert_non_null(strstr(e.msg, path));
    assert_non_null(strstr(e.msg, "move it away"));

    /* The same process goes on once that was done. */
    assert_int_equal(unlink(path), 0);
    assert_ok(touch(p, &e), &e);
}

static void a_database_that_breaks_later_is_told(void **state)
{
    struct place *p = *state;
    char path[128];
    char junk[4096];
    int fd;
    struct err e;

    for (int i = 1; i < 200; i++) {
        char name[16];

        (void)snprintf(name, sizeof(name), "n%d", i);
        place_add(p, i, arena_cstr(&p->arena, str_from(name)));
    }
    store_free(p->store);
    (void)snprintf(path, sizeof(path), "%s/anybox.db", p->state);
    memset(junk, 0xa5, sizeof(junk));
    fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    for (off_t at = 4096; at < 40 * 4096; at += 4096) {
        assert_int_equal(pwrite(fd, junk, sizeof(junk), at), sizeof(junk));
    }
    (void)close(fd);
    p->store = store_new(str_from(p->state));
    assert_fails(touch(p, &e), &e, ERR_SYSTEM, "is damaged");
}

static void a_removed_folder_is_made_again(void **state)
{
    struct place *p = *state;
    int64_t n = -1;
    struct err e;

    place_add(p, 1, "one");
    assert_ok(fd_remove_tree(AT_FDCWD, p->state, &e), &e);
    assert_ok(store_count_boxes(p->store, STR_EMPTY, &n, &e), &e);
    assert_int_equal(n, 0);
    place_add(p, 1, "one");
    assert_int_equal(mode_of(p->state, "anybox.db"), 0600);
}

static void a_full_disk_is_told_and_survived(void **state)
{
    struct place *p = *state;
    struct err e = {0};
    int i;

    place_add(p, 1, "one");
    assert_ok(db_run(p->store, "PRAGMA max_page_count = 1", &e), &e); /* what it has now */
    for (i = 2; i < 5000; i++) {
        struct box_row row = place_row(p, i, "x");

        row.name = arena_printf(&p->arena, "name-%d", i);
        if (store_add_box(p->store, &row, 0, &e) < 0) {
            break;
        }
    }
    assert_true(i < 5000);
    assert_int_equal(e.kind, ERR_LIMIT);
    assert_non_null(strstr(e.msg, "no space left"));
    assert_ok(db_run(p->store, "PRAGMA max_page_count = 100000", &e), &e);
    place_add(p, 9999, "again");
}

static void a_write_protected_database_is_told(void **state)
{
    struct place *p = *state;
    struct err e;

    place_add(p, 1, "one");
    /* Root writes to any file; SQLite can be told not to. */
    assert_ok(db_run(p->store, "PRAGMA query_only = 1", &e), &e);
    assert_fails(store_drop_box(p->store, S("x"), &e), &e, ERR_DENIED, "cannot be written");
    assert_non_null(strstr(e.msg, "ANYBOX_HOME"));
}

static void a_writer_that_stays_is_told_after_a_while(void **state)
{
    struct place *p = *state;
    struct store *other = store_new(str_from(p->state));
    struct box_row row = place_row(p, 2, "two");
    int64_t n;
    struct err e;

    place_add(p, 1, "one");
    assert_ok(store_count_boxes(other, STR_EMPTY, &n, &e), &e);
    assert_ok(db_begin(other, &e), &e);
    (void)sqlite3_busy_timeout(p->store->db, 50);
    assert_fails(store_add_box(p->store, &row, 0, &e), &e, ERR_UNREACHABLE, "is busy");
    assert_ok(touch(p, &e), &e); /* readers are not held up */
    assert_int_equal(db_end(other, 0, &e), 0);
    assert_ok(store_add_box(p->store, &row, 0, &e), &e);
    store_free(other);
}

static void the_library_has_a_version(void **state)
{
    (void)state;
    assert_string_equal(store_library(), sqlite3_libversion());
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, place_set_up, place_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(nothing_is_made_before_it_is_needed),
        TEST(the_files_are_private),
        TEST(somebody_elses_folder_is_refused),
        TEST(a_folder_with_other_things_is_left_alone),
        TEST(an_empty_folder_is_closed_to_others),
        TEST(a_folder_of_remote_sandbox_mcp_is_closed_to_others),
        TEST(a_file_in_the_place_of_the_folder_is_told),
        TEST(a_folder_in_the_place_of_the_file_is_told),
        TEST(an_older_database_is_brought_up),
        TEST(a_newer_database_is_used_when_it_allows_it),
        TEST(a_newer_database_is_refused_when_it_must_be),
        TEST(a_file_that_is_no_database_is_told),
        TEST(a_database_that_breaks_later_is_told),
        TEST(a_removed_folder_is_made_again),
        TEST(a_full_disk_is_told_and_survived),
        TEST(a_write_protected_database_is_told),
        TEST(a_writer_that_stays_is_told_after_a_while),
        TEST(the_library_has_a_version),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
