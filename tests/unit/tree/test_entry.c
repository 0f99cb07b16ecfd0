#include "test.h"
#include "tree/entry.h"

static void a_folder_comes_right_before_its_contents(void **state)
{
    (void)state;
    const char *sorted[] = {"", "a", "a/b", "a/b/c", "a/z", "a b", "a.txt", "a0", "b", "\xff"};
    for (size_t i = 0; i + 1 < sizeof sorted / sizeof *sorted; i++) {
        assert_int_equal(tree_path_cmp(str_from(sorted[i]), str_from(sorted[i + 1])), -1);
        assert_int_equal(tree_path_cmp(str_from(sorted[i + 1]), str_from(sorted[i])), 1);
        assert_int_equal(tree_path_cmp(str_from(sorted[i]), str_from(sorted[i])), 0);
    }
}

static void paths_that_lead_out_are_refused(void **state)
{
    (void)state;
    const char *good[] = {"", "a", "a/b", "...", "a/..b", ".a", "a\nb", "-x", "\xff\xfe"};
    const char *bad[] = {"/", "/a", "a/", "a//b", ".", "..", "a/..", "../a", "a/./b", "a/../b"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_true(tree_path_ok(str_from(good[i])));
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(tree_path_ok(str_from(bad[i])));
    }
    assert_false(tree_path_ok(S("a\0b")));
    char longest[TREE_PATH_MAX + 1];
    memset(longest, 'x', sizeof longest);
    assert_true(tree_path_ok((struct str){longest, TREE_PATH_MAX}));
    assert_false(tree_path_ok((struct str){longest, TREE_PATH_MAX + 1}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_comes_right_before_its_contents),
        cmocka_unit_test(paths_that_lead_out_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
