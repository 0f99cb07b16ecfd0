#include "sync/seq.h"
#include "test.h"

static struct seq seq;

static int start(void **state)
{
    (void)state;
    seq_init(&seq);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    seq_fini(&seq);
    return 0;
}

static void what_is_written_is_read(void **state)
{
    char longest[TREE_PATH_MAX];
    memset(longest, 'x', sizeof longest);
    const struct tree_entry entries[] = {
        {.path = STR_EMPTY, .type = TREE_DIR, .mode = 0755, .mtime_ns = -1},
        {.path = S("a"), .type = TREE_DIR, .mode = 0700, .mtime_ns = INT64_MIN},
        {.path = S("a/\n"), .type = TREE_FILE, .mode = 0644, .size = UINT64_MAX, .mtime_ns = 0},
        {.path = S("a/b"), .type = TREE_LINK, .mode = 0777, .target = S("../\xff")},
        {.path = S("a/b c"),
         .type = TREE_FILE,
         .size = 127,
         .mtime_ns = INT64_MAX,
         .meta_only = true,
         .has_sum = true,
         .sum = {1, 2, [TREE_SUM - 1] = 255}},
        {.path = S("b"), .type = TREE_OTHER, .mtime_ns = 1700000000123456789},
        {.path = {longest, sizeof longest}, .type = TREE_FILE, .size = 128},
    };
    struct seq_reader *r = malloc(sizeof *r);
    struct tree_entry got;
    struct err e;
    unsigned tag;

    (void)state;
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        assert_ok(seq_add(&seq, &entries[i], (unsigned)i * 2, &e), &e);
    }
    assert_int_equal(seq.n, sizeof entries / sizeof *entries);
    seq_read(r, &seq);
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        assert_true(seq_next(r, &got, &tag));
        assert_str(got.path, entries[i].path);
        assert_int_equal(got.path.p[got.path.len], '\0');
        assert_int_equal(got.type, entries[i].type);
        assert_int_equal(got.mode, entries[i].mode);
        assert_true(got.size == entries[i].size);
        assert_true(got.mtime_ns == entries[i].mtime_ns);
        assert_str(got.target, entries[i].target);
        assert_int_equal(got.meta_only, entries[i].meta_only);
        assert_int_equal(got.has_sum, entries[i].has_sum);
        assert_memory_equal(got.sum, entries[i].sum, TREE_SUM);
        assert_int_equal(tag, i * 2);
    }
    assert_false(seq_next(r, &got, &tag));
    free(r);
}

static void what_no_folder_can_hold_is_refused(void **state)
{
    const char *bad[] = {"/etc/passwd", "../up", "a/../b", "a//b", "."};
    struct err e;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct tree_entry entry = {.path = str_from(bad[i]), .type = TREE_FILE};
        assert_int_equal(seq_add(&seq, &entry, 0, &e), -1);
        assert_int_equal(e.kind, ERR_PROTOCOL);
    }
}

static void what_is_out_of_order_or_twice_is_refused(void **state)
{
    struct tree_entry first = {.path = S("a/b"), .type = TREE_FILE};
    struct tree_entry before = {.path = S("a"), .type = TREE_DIR};
    struct err e;

    (void)state;
    assert_ok(seq_add(&seq, &first, 0, &e), &e);
    assert_int_equal(seq_add(&seq, &before, 0, &e), -1);
    assert_int_equal(e.kind, ERR_PROTOCOL);
    assert_int_equal(seq_add(&seq, &first, 0, &e), -1);
    assert_int_equal(e.kind, ERR_PROTOCOL);
    assert_int_equal(seq.n, 1);
}

static void a_file_takes_few_bytes(void **state)
{
    char path[128];
    struct err e;

    (void)state;
    for (int i = 0; i < 100000; i++) {
        int len = snprintf(path, sizeof path, "packages/some-long-name-%03d/src/module_%05d.py",
                           i / 100, i);
        struct tree_entry entry = {
            .path = {path, (size_t)len},
            .type = TREE_FILE,
            .mode = 0644,
            .size = (uint64_t)i * 37,
            .mtime_ns = 1700000000000000000 + i * 1000003ll,
        };
        assert_ok(seq_add(&seq, &entry, 0, &e), &e);
    }
    assert_true(seq.bytes.cap < (size_t)100000 * 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_written_is_read, start, stop),
        cmocka_unit_test_setup_teardown(what_no_folder_can_hold_is_refused, start, stop),
        cmocka_unit_test_setup_teardown(what_is_out_of_order_or_twice_is_refused, start, stop),
        cmocka_unit_test_setup_teardown(a_file_takes_few_bytes, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
