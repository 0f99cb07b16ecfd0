#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/own.h"
#include "test.h"

static void zeroes_what_calloc_gives(void **state)
{
    unsigned char *p own_mem = xcalloc(100, 3);

    (void)state;
    for (size_t i = 0; i < 300; i++) {
        assert_int_equal(p[i], 0);
    }
}

static void keeps_the_bytes_when_growing(void **state)
{
    char *p own_mem = xmemdup("abc", 3);

    (void)state;
    p = xrealloc(p, 1000, 10);
    assert_memory_equal(p, "abc", 4);
}

static void terminates_copies(void **state)
{
    char *bytes own_mem = xmemdup("a\0b", 3);
    char *text own_mem = xstrdup("hello");
    char *nothing own_mem = xmemdup(NULL, 0);

    (void)state;
    assert_memory_equal(bytes, "a\0b", 4);
    assert_string_equal(text, "hello");
    assert_string_equal(nothing, "");
}

static void ends_the_program_when_a_size_overflows(void **state)
{
    int status;
    pid_t pid = fork();

    (void)state;
    if (pid == 0) {
        (void)close(STDERR_FILENO);
        free(xcalloc(SIZE_MAX / 2, 3));
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zeroes_what_calloc_gives),
        cmocka_unit_test(keeps_the_bytes_when_growing),
        cmocka_unit_test(terminates_copies),
        cmocka_unit_test(ends_the_program_when_a_size_overflows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
