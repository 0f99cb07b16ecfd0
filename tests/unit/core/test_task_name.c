#include "base/arena.h"
#include "core/task.h"
#include "test.h"

static void names_are_made_safe(void **state)
{
    static const struct {
        const char *given, *used;
    } rows[] = {
        {"train", "train"},
        {"train-001", "train-001"},
        {"v1.2", "v1_2"},
        {"a:b", "a_b"},
        {" two words ", "two_words"},
        {"-x", "_x"},
        {"--", "_-"},
        {"=eq", "_eq"},
        {"../up", "___up"},
        {"a/b", "a_b"},
        {"$(x)", "__x_"},
        {"it's", "it_s"},
        {"tab\there", "tab_here"},
        {"_", "_"},
    };
    struct arena a own_arena = {0};

    (void)state;
    arena_init(&a, 1 << 20);
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        struct str used = STR_EMPTY;
        struct err e = {0};

        assert_ok(task_name(&a, str_from(rows[i].given), &used, &e), &e);
        assert_str(used, str_from(rows[i].used));
    }
}

static void two_foreign_names_stay_two(void **state)
{
    struct arena a own_arena = {0};
    struct str one, two;
    struct err e = {0};

    (void)state;
    arena_init(&a, 1 << 20);
    assert_ok(task_name(&a, S("\xe8\xae\xad"), &one, &e), &e);
    assert_ok(task_name(&a, S("\xe7\xbb\x83"), &two, &e), &e);
    assert_false(str_eq(one, two));
    assert_true(str_starts(one, S("___-")));
    assert_int_equal(one.len, 10);
}

static void a_name_is_made_up(void **state)
{
    struct arena a own_arena = {0};
    struct str one, two;
    struct err e = {0};

    (void)state;
    arena_init(&a, 1 << 20);
    assert_ok(task_name(&a, S("  "), &one, &e), &e);
    assert_ok(task_name(&a, STR_EMPTY, &two, &e), &e);
    assert_true(str_starts(one, S("bg-")));
    assert_false(str_eq(one, two));
}

static void a_long_name_is_refused(void **state)
{
    char name[TASK_NAME_MAX + 2];
    struct arena a own_arena = {0};
    struct str out;
    struct err e = {0};

    (void)state;
    arena_init(&a, 1 << 20);
    memset(name, 'x', sizeof(name));
    assert_ok(task_name(&a, (struct str){name, TASK_NAME_MAX}, &out, &e), &e);
    assert_fails(task_name(&a, (struct str){name, TASK_NAME_MAX + 1}, &out, &e), &e, ERR_INVALID,
                 "101 bytes");
}

static void logs_go_where_they_should(void **state)
{
    static const struct {
        const char *cwd, *log, *want;
    } rows[] = {
        {"", "", ".codex_logs/n.log"},
        {"proj", "", ".codex_logs/n.log"},
        {"", "logs/a.log", "logs/a.log"},
        {"proj", "logs/a.log", "logs/a.log"},
        {"proj", "proj/logs/a.log", "logs/a.log"},
        {"proj/", "./proj/logs/a.log", "logs/a.log"},
        {"./proj", "proj/logs/a.log", "logs/a.log"},
        {"proj", "proj/proj/a.log", "proj/a.log"},
        {"proj", "project/a.log", "project/a.log"},
        {"proj", "proj", "proj"},
        {"proj", "proj/", "proj/"},
        {"a/b", "a/b/c.log", "c.log"},
        {"/abs", "abs/c.log", "abs/c.log"},
        {"~/proj", "proj/c.log", "proj/c.log"},
        {"proj", "/abs/a.log", "/abs/a.log"},
        {"proj", "~/a.log", "~/a.log"},
        {"", "~user/a.log", "~user/a.log"},
        {"", "  a.log ", "a.log"},
    };
    struct arena a own_arena = {0};

    (void)state;
    arena_init(&a, 1 << 20);
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        assert_str(task_log(&a, str_from(rows[i].cwd), str_from(rows[i].log), S("n")),
                   str_from(rows[i].want));
    }
}

static void the_head_of_a_command_is_one_harmless_line(void **state)
{
    struct arena a own_arena = {0};
    struct str head;

    (void)state;
    arena_init(&a, 1 << 20);
    assert_str(task_head(&a, S(" echo  a\n\tb \x1b[31mred\n")), S("echo a b red"));
    assert_str(task_head(&a, S("")), S(""));
    head = task_head(&a, arena_printf(&a, "%0500d", 7));
    assert_int_equal(head.len, 120);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_made_safe),
        cmocka_unit_test(two_foreign_names_stay_two),
        cmocka_unit_test(a_name_is_made_up),
        cmocka_unit_test(a_long_name_is_refused),
        cmocka_unit_test(logs_go_where_they_should),
        cmocka_unit_test(the_head_of_a_command_is_one_harmless_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
