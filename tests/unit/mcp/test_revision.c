#include "mcp/revision.h"
#include "test.h"

static void test_names_are_found(void **state)
{
    (void)state;
    for (int r = REV_NONE + 1; r < REV_COUNT; r++) {
        assert_int_equal(revision_find(str_from(revision_name((enum revision)r))), r);
    }
    assert_int_equal(revision_find(S("2024-10-07")), REV_NONE);
    assert_int_equal(revision_find(S("2025-11-2")), REV_NONE);
    assert_int_equal(revision_find(STR_EMPTY), REV_NONE);
}

static void test_initialize_agrees(void **state)
{
    static const struct {
        const char *wanted, *agreed;
    } rows[] = {
        {"2024-11-05", "2024-11-05"}, {"2025-03-26", "2025-03-26"}, {"2025-06-18", "2025-06-18"},
        {"2025-11-25", "2025-11-25"}, {"2026-07-28", "2025-11-25"}, {"2024-10-07", "2025-11-25"},
        {"2099-01-01", "2025-11-25"}, {"", "2025-11-25"},           {"1.0", "2025-11-25"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_string_equal(revision_name(revision_agree(str_from(rows[i].wanted))),
                            rows[i].agreed);
    }
}

static void test_what_differs(void **state)
{
    static const struct {
        enum revision_trait trait;
        bool has[REV_COUNT];
    } rows[] = {
        {REV_MODERN, {0, 0, 0, 0, 0, 1}},      {REV_BATCHES, {0, 1, 1, 0, 0, 0}},
        {REV_ANNOTATIONS, {0, 0, 1, 1, 1, 1}}, {REV_PROGRESS_TEXT, {0, 0, 1, 1, 1, 1}},
        {REV_TITLES, {0, 0, 0, 1, 1, 1}},      {REV_RESULT_TYPE, {0, 0, 0, 0, 0, 1}},
        {REV_CACHE_HINTS, {0, 0, 0, 0, 0, 1}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (int r = REV_NONE; r < REV_COUNT; r++) {
            assert_int_equal(revision_has((enum revision)r, rows[i].trait), rows[i].has[r]);
        }
    }
}

static void test_all_are_listed_newest_first(void **state)
{
    struct buf out own_buf = {0};

    (void)state;
    buf_init(&out, 1024);
    revision_add_all(&out);
    assert_str(buf_str(&out),
               S("[\"2026-07-28\",\"2025-11-25\",\"2025-06-18\",\"2025-03-26\",\"2024-11-05\"]"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_are_found),
        cmocka_unit_test(test_initialize_agrees),
        cmocka_unit_test(test_what_differs),
        cmocka_unit_test(test_all_are_listed_newest_first),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
