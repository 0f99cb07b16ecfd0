/* What a host's login shell is given, read by real shells. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "provider/command.h"
#include "test.h"

#define MARK "0123456789abcdef0123456789abcdef"

static const struct shell_facts sh_host = {.known = true, .is_plain_shell = true};
static const struct shell_facts bash_host = {
    .known = true, .has_bash = true, .has_timeout = true, .is_plain_shell = true};
static const struct shell_facts odd_host = {.known = true, .has_bash = true, .has_timeout = true};
static const struct shell_facts new_host = {0}; /* nobody has asked it yet */

/* Runs the text as sshd would, without what it prints to stderr. The output behind the
 * marker's line is in `to`; the exit status is returned. */
static int run(struct str text, char *to, size_t size)
{
    char *line = NULL;
    size_t len = 0;
    FILE *f;

    assert_true(asprintf(&line, "%.*s 2>/dev/null", STR_ARG(text)) > 0);
    f = popen(line, "r"); /* by sh */
    free(line);
    assert_non_null(f);
    char all[65536];
    size_t n = fread(all, 1, sizeof(all) - 1, f);
    all[n] = '\0';
    int status = pclose(f);
    const char *at = strstr(all, MARK " ");
    assert_non_null(at);
    assert_true(strtol(at + strlen(MARK), NULL, 10) > 1);
    at = strchr(at, '\n');
    assert_non_null(at);
    len = strlen(at + 1);
    assert_true(len < size);
    memcpy(to, at + 1, len + 1);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000;
}

static int run_with(const struct shell_facts *facts, const struct exec_req *req, char *to,
                    size_t size)
{
    struct buf text own_buf = {0};
    struct err e = {0};

    buf_init(&text, COMMAND_LINE_MAX);
    assert_int_equal(command_build(facts, req, MARK, &text, &e), 0);
    return run(buf_str(&text), to, size);
}

static const char *const nasty[] = {
    "it's",
    "$(touch /tmp/x)",
    "`id`",
    "a;b&&c|d>e<f",
    "\"quoted\" 'single' \\back\\\\slash",
    "two\nlines\n\nmore",
    "bang!! !x",
    "%s %b %n",
    "-n -e",
    "*?[a]{b,c}~",
    "\001\033[31m\t",
    "\xc3\xa4\xff",
    "'\\''",
};

static void test_words_survive(void **state)
{
    (void)state;
    const struct shell_facts *hosts[] = {&sh_host, &bash_host, &odd_host, &new_host};

    for (size_t h = 0; h < COUNTOF(hosts); h++) {
        for (size_t i = 0; i < COUNTOF(nasty); i++) {
            const struct str argv[] = {S("printf"), S("%s|"), str_from(nasty[i])};
            struct exec_req req = {
                .shell = SHELL_NONE, .argv = argv, .n_argv = 3, .timeout_ms = 9000};
            char want[256], got[4096];

            (void)snprintf(want, sizeof(want), "%s|", nasty[i]);
            assert_int_equal(run_with(hosts[h], &req, got, sizeof(got)), 0);
            assert_string_equal(got, want);
        }
    }
}

static void test_variables_survive(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNTOF(nasty); i++) {
        char pair[256], want[256], got[4096];

        (void)snprintf(pair, sizeof(pair), "V=%s", nasty[i]);
        (void)snprintf(want, sizeof(want), "[%s]", nasty[i]);
        struct str env[] = {str_from(pair)};
        struct exec_req req = {.shell = SHELL_BASH,
                               .command = S("printf '[%s]' \"$V\"; exit 7"),
                               .env = env,
                               .n_env = 1};
        assert_int_equal(run_with(&odd_host, &req, got, sizeof(got)), 7);
        assert_string_equal(got, want);
    }
}

static void test_cwd(void **state)
{
    (void)state;
    char dir[] = "/tmp/it's a $(dir) XXXXXX", got[4096], want[256];

    assert_non_null(mkdtemp(dir));
    struct exec_req req = {.shell = SHELL_SH, .command = S("pwd"), .cwd = str_from(dir)};
    (void)snprintf(want, sizeof(want), "%s\n", dir);
    assert_int_equal(run_with(&bash_host, &req, got, sizeof(got)), 0);
    assert_string_equal(got, want);
    (void)rmdir(dir);
    assert_int_equal(run_with(&bash_host, &req, got, sizeof(got)), 125);
    req.cwd = S("~");
    assert_int_equal(setenv("HOME", "/usr", 1), 0);
    assert_int_equal(run_with(&bash_host, &req, got, sizeof(got)), 0);
    assert_string_equal(got, "/usr\n");
}

static void test_keeps_the_time_without_timeout(void **state)
{
    (void)state;
    char got[256];
    struct exec_req req = {.shell = SHELL_SH, .command = S("echo on; exit 4"), .timeout_ms = 60000};

    assert_int_equal(run_with(&sh_host, &req, got, sizeof(got)), 4);
    assert_string_equal(got, "on\n");
}

static void test_refuses(void **state)
{
    (void)state;
    struct buf text own_buf = {0};
    struct err e = {0};
    struct str bad[] = {S("A-B=1")};
    struct exec_req req = {.command = S("true"), .env = bad, .n_env = 1};
    char *large = calloc(1, COMMAND_LINE_MAX + 1);

    buf_init(&text, COMMAND_LINE_MAX);
    assert_fails(command_build(&bash_host, &req, MARK, &text, &e), &e, ERR_INVALID, "A-B");
    req = (struct exec_req){.command = S("a\0b")};
    assert_fails(command_build(&bash_host, &req, MARK, &text, &e), &e, ERR_INVALID, "NUL");
    memset(large, 'x', COMMAND_LINE_MAX);
    req.command = str_from(large);
    assert_fails(command_build(&bash_host, &req, MARK, &text, &e), &e, ERR_LIMIT, "too long");
    free(large);
}

/* A program of that name that leaves a line in `log` and becomes the real one. */
static void add_spy(const char *dir, const char *name, const char *log)
{
    char *path = NULL;

    assert_true(asprintf(&path, "%s/%s", dir, name) > 0);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fprintf(f, "#!/bin/sh\necho %s >>%s\nPATH=/usr/bin:/bin exec %s \"$@\"\n", name,
                        log, name) > 0);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(path, 0700), 0);
    free(path);
}

static int count_lines(const char *path, const char *line)
{
    char got[64];
    int n = 0;
    FILE *f = fopen(path, "r");

    while (f != NULL && fgets(got, sizeof(got), f) != NULL) {
        n += strncmp(got, line, strlen(line)) == 0;
    }
    if (f != NULL) {
        assert_int_equal(fclose(f), 0);
    }
    return n;
}

static void wait_until_gone(const char *path)
{
    for (int i = 0; i < 1000 && access(path, F_OK) == 0; i++) {
        (void)usleep(10000);
    }
    assert_int_not_equal(access(path, F_OK), 0);
}

/* The first call of every host goes this way: nobody reads a status of what is delivered. */
static void test_a_kept_command_that_takes_no_time_is_cheap(void **state)
{
    (void)state;
    static const char *const names[] = {"date", "mv"};
    char dir[] = "/tmp/anybox-kept-XXXXXX", log[64], kept[64], path[256], got[256];
    char *before = xstrdup(getenv("PATH")), *home = xstrdup(getenv("HOME"));

    assert_non_null(mkdtemp(dir));
    (void)snprintf(log, sizeof(log), "%s/log", dir);
    (void)snprintf(kept, sizeof(kept), "%s/.anybox", dir);
    (void)snprintf(path, sizeof(path), "%s:/usr/bin:/bin", dir);
    for (size_t i = 0; i < COUNTOF(names); i++) {
        add_spy(dir, names[i], log);
    }
    assert_int_equal(setenv("PATH", path, 1) + setenv("HOME", dir, 1), 0);
    struct exec_req req = {
        .shell = SHELL_BASH, .command = S("echo said; exit 5"), .keep = true, .id = S("0123abcd")};
    int64_t took_ms = 0;
    for (int i = 0; i == 0 || (took_ms >= 900 && i < 20); i++) { /* on a busy machine again */
        (void)unlink(log);
        took_ms = clock_mono_ms();
        assert_int_equal(run_with(&bash_host, &req, got, sizeof(got)), 5);
        took_ms = clock_mono_ms() - took_ms;
        assert_string_equal(got, "said\n");
        wait_until_gone(kept);
    }
    assert_int_equal(setenv("PATH", before, 1) + setenv("HOME", home, 1), 0);
    for (size_t i = 0; i < COUNTOF(names); i++) {
        assert_int_equal(count_lines(log, names[i]), 1);
        (void)snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(unlink(log) + rmdir(dir), 0);
    free(before);
    free(home);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words_survive),
        cmocka_unit_test(test_variables_survive),
        cmocka_unit_test(test_cwd),
        cmocka_unit_test(test_keeps_the_time_without_timeout),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_a_kept_command_that_takes_no_time_is_cheap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
