#include "boxinit/kill.h"
#include "test.h"

static void a_stat_line_is_read(void **state)
{
    struct proc_stat p;

    (void)state;
    assert_true(kill_parse_stat(S("42 (sleep) S 7 42 41 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 "
                                  "123456 1 2 3\n"),
                                &p));
    assert_int_equal(p.pid, 42);
    assert_int_equal(p.parent, 7);
    assert_int_equal(p.session, 41);
    assert_int_equal(p.state, 'S');
    assert_int_equal(p.start, 123456);
}

static void a_name_cannot_forge_the_rest(void **state)
{
    struct proc_stat p;

    (void)state;
    assert_true(kill_parse_stat(S("9 (a) S 1 1 1 0 (b)\n) Z 3 4 5 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 "
                                  "77 0"),
                                &p));
    assert_int_equal(p.pid, 9);
    assert_int_equal(p.state, 'Z');
    assert_int_equal(p.parent, 3);
    assert_int_equal(p.session, 5);
    assert_int_equal(p.start, 77);
}

static void other_lines_are_not(void **state)
{
    static const char *const bad[] = {"",
                                      "x",
                                      "1 (a",
                                      "1 (a)",
                                      "1 (a) ",
                                      "1 (a) S 1 2",
                                      "(a) S 1 1",
                                      "-1 (a) S 1 1 1",
                                      "1 (a) S x 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 77 0"};
    struct proc_stat p;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(kill_parse_stat(str_from(bad[i]), &p));
    }
}

static bool is_marked(const struct proc_stat *all, size_t n, pid_t pid)
{
    for (size_t i = 0; i < n; i++) {
        if (all[i].pid == pid) {
            return all[i].marked;
        }
    }
    fail_msg("no process %d", (int)pid);
    return false;
}

static void session_descendants_and_who_was_seen_are_marked(void **state)
{
    struct proc_stat all[] = {
        {.pid = 50, .parent = 1, .session = 50, .start = 5},  /* the other command */
        {.pid = 13, .parent = 12, .session = 12, .start = 3}, /* of one with its own session */
        {.pid = 12, .parent = 10, .session = 12, .start = 3}, /* which is a child */
        {.pid = 10, .parent = 1, .session = 10, .start = 1},  /* the command */
        {.pid = 11, .parent = 1, .session = 10, .start = 2},  /* orphan of the session */
        {.pid = 20, .parent = 1, .session = 20, .start = 9},  /* was seen before */
        {.pid = 21, .parent = 20, .session = 20, .start = 9}, /* and its child */
        {.pid = 30, .parent = 1, .session = 30, .start = 4},  /* has the pid of one seen */
        {.pid = 1, .parent = 0, .session = 1, .start = 0},
    };
    const struct proc_id seen[] = {{20, 9}, {30, 3}, {99, 1}, {1, 0}};
    size_t n = sizeof(all) / sizeof(all[0]);

    (void)state;
    kill_mark(all, n, 10, seen, 4);
    assert_true(is_marked(all, n, 10));
    assert_true(is_marked(all, n, 11));
    assert_true(is_marked(all, n, 12));
    assert_true(is_marked(all, n, 13));
    assert_true(is_marked(all, n, 20));
    assert_true(is_marked(all, n, 21));
    assert_false(is_marked(all, n, 30));
    assert_false(is_marked(all, n, 50));
    assert_false(is_marked(all, n, 1));
}

static void pid_1_is_never_marked(void **state)
{
    struct proc_stat all[] = {{.pid = 1, .parent = 0, .session = 1},
                              {.pid = 2, .parent = 1, .session = 1}};

    (void)state;
    kill_mark(all, 2, 1, NULL, 0);
    assert_false(is_marked(all, 2, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stat_line_is_read),
        cmocka_unit_test(a_name_cannot_forge_the_rest),
        cmocka_unit_test(other_lines_are_not),
        cmocka_unit_test(session_descendants_and_who_was_seen_are_marked),
        cmocka_unit_test(pid_1_is_never_marked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
