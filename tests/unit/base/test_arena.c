#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "test.h"

static void gives_zeroed_aligned_memory(void **state)
{
    struct arena a own_arena = {.limit = 1 << 20};

    (void)state;
    for (size_t size = 0; size < 500; size++) {
        unsigned char *p = arena_alloc(&a, 1, size);

        assert_int_equal((uintptr_t)p % _Alignof(max_align_t), 0);
        for (size_t i = 0; i < size; i++) {
            assert_int_equal(p[i], 0);
            p[i] = 0xAA; /* overlapping memory would be seen */
        }
    }
}

static void serves_small_and_large_in_turn(void **state)
{
    struct arena a own_arena = {.limit = 64 << 20};
    char *small[50];
    char *large[50];

    (void)state;
    for (int i = 0; i < 50; i++) {
        small[i] = arena_alloc(&a, 10, 1);
        large[i] = arena_alloc(&a, 200000, 1);
        memset(small[i], 'a' + i % 26, 10);
        memset(large[i], 'A' + i % 26, 200000);
    }
    for (int i = 0; i < 50; i++) {
        assert_int_equal(small[i][9], 'a' + i % 26);
        assert_int_equal(large[i][0], 'A' + i % 26);
        assert_int_equal(large[i][199999], 'A' + i % 26);
    }
}

static void copies_strings_terminated(void **state)
{
    struct arena a own_arena = {.limit = 4096};
    struct str s = arena_str(&a, S("a\0b"));

    (void)state;
    assert_memory_equal(s.p, "a\0b", 4);
    assert_int_equal(s.len, 3);
    assert_string_equal(arena_str(&a, STR_EMPTY).p, "");
    assert_string_equal(arena_cstr(&a, S("ab\0cd")), "ab");
    assert_string_equal(arena_cstr(&a, S("abcd")), "abcd");
    assert_str(arena_printf(&a, "%d-%s", 7, "x"), S("7-x"));
}

static void can_be_used_again_after_fini(void **state)
{
    struct arena a;

    (void)state;
    arena_init(&a, 1024);
    assert_non_null(arena_alloc(&a, 500, 1));
    arena_fini(&a);
    assert_int_equal(a.used, 0);
    assert_non_null(arena_alloc(&a, 500, 1));
    arena_fini(&a);
    arena_fini(&a);
}

static void ends_the_program_beyond_its_limit(void **state)
{
    static const size_t sizes[][2] = {{1, 1001}, {SIZE_MAX / 2, 3}, {1, SIZE_MAX}};

    (void)state;
    for (size_t i = 0; i < COUNTOF(sizes); i++) {
        int status;
        pid_t pid = fork();

        if (pid == 0) {
            struct arena a;

            (void)close(STDERR_FILENO);
            arena_init(&a, 1000);
            _exit(arena_alloc(&a, sizes[i][0], sizes[i][1]) == NULL);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_zeroed_aligned_memory),
        cmocka_unit_test(serves_small_and_large_in_turn),
        cmocka_unit_test(copies_strings_terminated),
        cmocka_unit_test(can_be_used_again_after_fini),
        cmocka_unit_test(ends_the_program_beyond_its_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
