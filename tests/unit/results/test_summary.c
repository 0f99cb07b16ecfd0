/* test_summary.c - the last lines of runners, as they printed them. */
#include "results/results.h"
#include "test.h"

static struct arena arena;

static int set_up(void **state)
{
    (void)state;
    arena_init(&arena, 16u << 20);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    arena_fini(&arena);
    return 0;
}

static const struct {
    const char *text;
    int passed, failed, skipped, errors;
    int64_t duration_ms;
    const char *name, *file, *message; /* of the first failure; NULL: there is none */
} rows[] = {
    {"FAILED a/test_x.py::test_p[a - b] - AssertionError: no\nERROR a/test_x.py::test_td - Error: in teardown\n"
     "=============== 1 failed, 8 passed, 1 xfailed, 1 error in 0.04s ================\n",
     8, 1, 1, 1, 40, "a/test_x.py::test_p[a - b]", "a/test_x.py", "AssertionError: no"},
    {"3 passed, 1 skipped, 2 deselected, 1 warning in 61.50s (0:01:01)\n", 3, 0, 1, 0, 61500, NULL,
     NULL, NULL},
    {"  \xe2\x97\x8f math \xe2\x80\xba fails\n\n    no\n  \xe2\x97\x8f math \xe2\x80\xba fails\n"
     "Test Suites: 2 failed, 1 passed, 3 total\nTests:       1 failed, 1 skipped, 1 todo, 5 passed, 8 total\n",
     5, 1, 2, 0, -1, "math \xe2\x80\xba fails", "", ""},
    {" FAIL  a.test.js > math > fails\n Test Files  2 failed | 1 passed (3)\n"
     "      Tests  1 failed | 5 passed | 1 skipped | 1 todo (8)\n",
     5, 1, 2, 0, -1, "a.test.js > math > fails", "a.test.js", ""},
    {"\n  5 passing (12ms)\n  1 pending\n  2 failing\n", 5, 2, 1, 0, -1, NULL, NULL, NULL},
    {"25% tests passed, 3 tests failed out of 4\n\nThe following tests FAILED:\n\t  2 - bad (Timeout)\n",
     1, 3, 0, 0, -1, "bad", "", "Timeout"},
};

static void reads_the_last_lines(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        struct test_results r;

        assert_true(results_summary(&arena, str_from(rows[i].text), &r));
        assert_int_equal(r.passed, rows[i].passed);
        assert_int_equal(r.failed, rows[i].failed);
        assert_int_equal(r.skipped, rows[i].skipped);
        assert_int_equal(r.errors, rows[i].errors);
        assert_int_equal(r.duration_ms, rows[i].duration_ms);
        if (rows[i].name == NULL) {
            assert_int_equal(r.n_failures, 0);
            continue;
        }
        assert_str(r.failures[0].name, str_from(rows[i].name));
        assert_str(r.failures[0].file, str_from(rows[i].file));
        assert_str(r.failures[0].message, str_from(rows[i].message));
    }
}

static void what_only_looks_like_one_is_none(void **state)
{
    static const char *const texts[] = {"",
                                        "I passed 3 exams in 2s\n",
                                        "3 apples, 4 passed in 2s\n",
                                        "3 passed in a row\n",
                                        "Tests: none\n",
                                        "Tests  were fun (3)\n",
                                        "2 failing\n",
                                        "2 tests failed out of 1\n",
                                        "=====\n",
                                        "==== no tests ran in 0.01s ====\n"};
    struct test_results r;

    (void)state;
    for (size_t i = 0; i < COUNTOF(texts); i++) {
        assert_false(results_summary(&arena, str_from(texts[i]), &r));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_the_last_lines),
        cmocka_unit_test(what_only_looks_like_one_is_none),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
