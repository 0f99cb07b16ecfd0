#include "boxinit/command.h"
#include "test.h"

static void later_variables_win(void **state)
{
    struct arena a own_arena = {0};
    const struct str first[] = {S("PATH=/bin"), S("A=1"), S("B=x=y")};
    const struct str second[] = {S("A=2"), S("C="), S("A=3"), S("AB=4")};
    char **env;

    (void)state;
    arena_init(&a, 1 << 20);
    env = command_env(&a, first, 3, second, 4);
    assert_string_equal(env[0], "PATH=/bin");
    assert_string_equal(env[1], "A=3");
    assert_string_equal(env[2], "B=x=y");
    assert_string_equal(env[3], "C=");
    assert_string_equal(env[4], "AB=4");
    assert_null(env[5]);
    assert_str(command_var(env, S("A")), S("3"));
    assert_str(command_var(env, S("B")), S("x=y"));
    assert_str(command_var(env, S("C")), STR_EMPTY);
    assert_str(command_var(env, S("PAT")), STR_EMPTY);

    env = command_env(&a, NULL, 0, NULL, 0);
    assert_null(env[0]);
}

static void programs_are_looked_up_in_the_path(void **state)
{
    struct arena a own_arena = {0};
    const char **files;

    (void)state;
    arena_init(&a, 1 << 20);
    files = command_files(&a, S("ls"), S("/usr/bin::/bin/:"));
    assert_string_equal(files[0], "/usr/bin/ls");
    assert_string_equal(files[1], "./ls");
    assert_string_equal(files[2], "/bin//ls");
    assert_string_equal(files[3], "./ls");
    assert_null(files[4]);

    files = command_files(&a, S("./ls"), S("/usr/bin"));
    assert_string_equal(files[0], "./ls");
    assert_null(files[1]);
}

static void paths_are_of_the_box(void **state)
{
    static const char *const cases[][2] = {
        {"", "/workspace"},          {"~", "/home/user"}, {"~/a", "/home/user/a"},
        {"a/b", "/workspace/a/b"},   {"/x", "/x"},        {"~other", "/workspace/~other"},
        {"../x", "/workspace/../x"},
    };
    const struct spec spec = {.home = "/home/user", .work_dir = "/workspace"};
    const struct spec of_image = {.home = "/root", .work_dir = "/workspace"};
    struct arena a own_arena = {0};

    (void)state;
    arena_init(&a, 1 << 20);
    assert_string_equal(command_path(&of_image, &a, S("~/a")), "/root/a");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_string_equal(command_path(&spec, &a, str_from(cases[i][0])), cases[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(later_variables_win),
        cmocka_unit_test(programs_are_looked_up_in_the_path),
        cmocka_unit_test(paths_are_of_the_box),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
