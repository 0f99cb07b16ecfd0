/* What a host's login shell is given, read by real shells. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "provider/ssh/command.h"
#include "test.h"

#define MARK "0123456789abcdef0123456789abcdef"

static const struct facts sh_host = {.known = true, .is_plain_shell = true};
static const struct facts bash_host = {
    .known = true, .has_bash = true, .has_timeout = true, .is_plain_shell = true};
static const struct facts odd_host = {.known = true, .has_bash = true, .has_timeout = true};
static const struct facts new_host = {0}; /* nobody has asked it yet */

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

static int run_with(const struct facts *facts, const struct exec_req *req, char *to, size_t size)
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
    const struct facts *hosts[] = {&sh_host, &bash_host, &odd_host, &new_host};

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words_survive), cmocka_unit_test(test_variables_survive),
        cmocka_unit_test(test_cwd),           cmocka_unit_test(test_keeps_the_time_without_timeout),
        cmocka_unit_test(test_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
