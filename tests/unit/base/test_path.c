#include "base/path.h"
#include "test.h"

static void cleans(void **state)
{
    static const char *const cases[][2] = {
        {"", "."},
        {".", "."},
        {"./", "."},
        {"a", "a"},
        {"a/", "a"},
        {"a//b", "a/b"},
        {"a/./b", "a/b"},
        {"a/../b", "b"},
        {"a/..", "."},
        {"..", ".."},
        {"../a", "../a"},
        {"a/../../b", "../b"},
        {"../../a", "../../a"},
        {"/", "/"},
        {"//", "/"},
        {"///a", "/a"},
        {"/..", "/"},
        {"/../a", "/a"},
        {"/a/b/../../..", "/"},
        {"/a/b/..", "/a"},
        {"/a/b/../c", "/a/c"},
        {"a/b/../c", "a/c"},
        {"/.", "/"},
        {"...", "..."},
        {"a/...", "a/..."},
        {"/a/..b", "/a/..b"},
        {"../..", "../.."},
    };
    struct arena a own_arena = {.limit = 1 << 20};

    (void)state;
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        struct str clean = path_clean(&a, str_from(cases[i][0]));

        assert_str(clean, str_from(cases[i][1]));
        assert_int_equal(clean.p[clean.len], '\0');
        assert_str(path_clean(&a, clean), clean);
    }
}

static void joins(void **state)
{
    struct arena a own_arena = {.limit = 1 << 16};

    (void)state;
    assert_str(path_join(&a, S("/a"), S("b")), S("/a/b"));
    assert_str(path_join(&a, S("/a/"), S("b")), S("/a/b"));
    assert_str(path_join(&a, S("/a"), S("/b")), S("/b"));
    assert_str(path_join(&a, S(""), S("b")), S("b"));
    assert_str(path_join(&a, S("/a"), S("")), S("/a"));
    assert_str(path_join(&a, S("/"), S("b")), S("/b"));
}

static void expands_the_tilde(void **state)
{
    struct arena a own_arena = {.limit = 1 << 16};

    (void)state;
    assert_str(path_tilde(&a, S("~"), S("/home/x")), S("/home/x"));
    assert_str(path_tilde(&a, S("~/a"), S("/home/x")), S("/home/x/a"));
    assert_str(path_tilde(&a, S("~//a"), S("/home/x")), S("/home/x/a"));
    assert_str(path_tilde(&a, S("~/"), S("/home/x")), S("/home/x"));
    assert_str(path_tilde(&a, S("~user/a"), S("/home/x")), S("~user/a"));
    assert_str(path_tilde(&a, S("/a/~"), S("/home/x")), S("/a/~"));
}

static void splits(void **state)
{
    static const char *const cases[][3] = {
        {"/a/b/c", "/a/b", "c"}, {"c/", ".", "c"},  {"c", ".", "c"}, {"/c", "/", "c"},
        {"/", "/", "/"},         {"//", "/", "/"},  {"", ".", ""},   {"a/b//", "a", "b"},
        {"a//b", "a", "b"},      {"//a", "/", "a"},
    };

    (void)state;
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        assert_str(path_dir(str_from(cases[i][0])), str_from(cases[i][1]));
        assert_str(path_base(str_from(cases[i][0])), str_from(cases[i][2]));
    }
    assert_true(path_is_absolute(S("/a")));
    assert_false(path_is_absolute(S("a")));
    assert_false(path_is_absolute(STR_EMPTY));
}

static void knows_what_is_inside(void **state)
{
    (void)state;
    assert_true(path_inside(S("/a"), S("/a")));
    assert_true(path_inside(S("/a/b"), S("/a")));
    assert_false(path_inside(S("/ab"), S("/a")));
    assert_false(path_inside(S("/"), S("/a")));
    assert_true(path_inside(S("/a"), S("/")));
    assert_true(path_inside(S("a"), S(".")));
    assert_true(path_inside(S("."), S(".")));
    assert_true(path_inside(S("..a"), S(".")));
    assert_false(path_inside(S("../a"), S(".")));
    assert_false(path_inside(S(".."), S(".")));
    assert_false(path_inside(S("/a"), S(".")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cleans),
        cmocka_unit_test(joins),
        cmocka_unit_test(expands_the_tilde),
        cmocka_unit_test(splits),
        cmocka_unit_test(knows_what_is_inside),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
