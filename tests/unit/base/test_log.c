#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/own.h"
#include "base/thread.h"
#include "test.h"

/* stderr is a pipe during a test. */
struct fixture {
    int old_stderr;
    int read_end;
};

static int set_up(void **state)
{
    struct fixture *f = xcalloc(1, sizeof(*f));
    int p[2];

    if (pipe2(p, O_CLOEXEC) < 0 || fcntl(p[0], F_SETFL, O_NONBLOCK) < 0) {
        return -1;
    }
    f->old_stderr = dup(STDERR_FILENO);
    f->read_end = p[0];
    (void)dup2(p[1], STDERR_FILENO);
    (void)close(p[1]);
    log_set_level(LOG_INFO);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f own_mem = *state;

    (void)dup2(f->old_stderr, STDERR_FILENO);
    (void)close(f->old_stderr);
    (void)close(f->read_end);
    return 0;
}

static struct str logged(struct fixture *f, struct arena *a)
{
    char text[8192];
    ssize_t n = read(f->read_end, text, sizeof(text));

    return arena_str(a, (struct str){text, n > 0 ? (size_t)n : 0});
}

static void writes_one_line_per_event(void **state)
{
    struct arena a own_arena = {.limit = 1 << 20};
    struct str line;

    log_line(LOG_INFO, "call", "tool=%s ms=%d", "exec_bash", 12);
    line = logged(*state, &a);
    assert_true(str_starts(line, S("t=20")));
    assert_true(str_ends(line, S("Z level=info area=call tool=exec_bash ms=12\n")));
}

static void leaves_out_what_is_below_the_level(void **state)
{
    struct arena a own_arena = {.limit = 1 << 20};

    log_line(LOG_DEBUG, "x", "a=1");
    log_set_level(LOG_OFF);
    log_line(LOG_ERROR, "x", "a=2");
    assert_int_equal(logged(*state, &a).len, 0);
    log_set_level(LOG_ERROR);
    log_line(LOG_WARN, "x", "a=3");
    log_line(LOG_ERROR, "x", "a=4");
    assert_true(str_ends(logged(*state, &a), S(" level=error area=x a=4\n")));
}

static void data_cannot_forge_a_line(void **state)
{
    struct arena a own_arena = {.limit = 1 << 20};

    log_line(LOG_INFO, "x", "v=%s", "1\nlevel=error\x1b[2J\t\x7f\xC2\x85\xFF\xC3\xA9");
    assert_true(str_ends(logged(*state, &a),
                         S(" v=1\\nlevel=error\\x1b[2J\\t\\x7f\\xc2\\x85\\xff\xC3\xA9\n")));
}

static void bounds_a_line(void **state)
{
    struct arena a own_arena = {.limit = 1 << 20};
    char text[5000];
    struct str line;

    memset(text, '\n', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    log_line(LOG_INFO, "x", "%s", text);
    line = logged(*state, &a);
    assert_true(line.len <= 2048);
    assert_true(line.len > 1900);
    assert_ptr_equal(memchr(line.p, '\n', line.len), line.p + line.len - 1);
}

static void never_blocks_and_counts_what_it_drops(void **state)
{
    struct arena a own_arena = {.limit = 4 << 20};
    struct fixture *f = *state;
    int64_t start_ms = clock_mono_ms();
    size_t lines = 0;
    char want[64];
    struct str text, last;

    for (int i = 0; i < 5000; i++) { /* more than a pipe takes */
        log_line(LOG_INFO, "x", "i=%d padding=0123456789012345678901234567890123456789", i);
    }
    assert_true(clock_mono_ms() - start_ms < 10000);
    for (text = logged(f, &a); text.len > 0; text = logged(f, &a)) {
        for (size_t i = 0; i < text.len; i++) {
            lines += text.p[i] == '\n';
        }
    }
    assert_true(lines > 100 && lines < 5000);
    log_line(LOG_INFO, "x", "i=last");
    last = logged(f, &a);
    (void)snprintf(want, sizeof(want), " i=last dropped=%zu\n", 5000 - lines);
    assert_true(str_ends(last, str_from(want)));
    log_line(LOG_INFO, "x", "i=after");
    assert_true(str_ends(logged(f, &a), S(" i=after\n")));
}

static void survives_a_closed_stderr(void **state)
{
    struct fixture *f = *state;

    (void)close(f->read_end);
    f->read_end = -1;
    log_line(LOG_INFO, "x", "a=1"); /* SIGPIPE would end the test */
    (void)close(STDERR_FILENO);
    log_line(LOG_INFO, "x", "a=2");
}

static void quotes_values(void **state)
{
    char to[LOG_QUOTE_SIZE];
    char big[1000];

    (void)state;
    assert_string_equal(log_quote(S("a \"b\" \\ \n\x1b"), to), "\"a \\\"b\\\" \\\\ \\n\\x1b\"");
    assert_string_equal(log_quote(STR_EMPTY, to), "\"\"");
    memset(big, '"', sizeof(big));
    (void)log_quote((struct str){big, sizeof(big)}, to);
    assert_true(strlen(to) < LOG_QUOTE_SIZE);
    assert_true(strlen(to) > LOG_QUOTE_SIZE - 8);
    assert_true(str_ends(str_from(to), S("\\\"...\"")));
}

static void reads_levels(void **state)
{
    enum log_level level = LOG_OFF;
    struct err e;

    (void)state;
    assert_ok(log_level_parse(S("WARN"), &level, &e), &e);
    assert_int_equal(level, LOG_WARN);
    assert_ok(log_level_parse(S(" debug"), &level, &e), &e);
    assert_int_equal(level, LOG_DEBUG);
    assert_ok(log_level_parse(S("Critical"), &level, &e), &e);
    assert_int_equal(level, LOG_ERROR);
    assert_fails(log_level_parse(S("loud"), &level, &e), &e, ERR_INVALID,
                 "\"loud\" is not a log level: use DEBUG, INFO");
}

/* The last test: the log stays in the file from here on. */
static void turns_a_full_file_over(void **state)
{
    struct arena a own_arena = {.limit = 1 << 20};
    char folder[] = "/tmp/anybox-test-XXXXXX";
    struct str path, old, new;
    struct stat st;
    struct err e;

    (void)state;
    log_set_level(LOG_INFO);
    assert_non_null(mkdtemp(folder));
    path = arena_printf(&a, "%s/log", folder);
    assert_fails(log_set_file(arena_printf(&a, "%s/none/log", folder).p, 1000, &e), &e,
                 ERR_NOT_FOUND, "open the log file");
    assert_ok(log_set_file(path.p, 1000, &e), &e);
    assert_int_equal(stat(path.p, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    for (int i = 0; i < 45; i++) {
        log_line(LOG_INFO, "x", "i=%d", i);
    }
    assert_ok(fd_read_file(AT_FDCWD, path.p, 1000, &a, &new, &e), &e);
    assert_ok(fd_read_file(AT_FDCWD, arena_printf(&a, "%s.1", path.p).p, 1000, &a, &old, &e), &e);
    assert_true(str_ends(new, S(" i=44\n")));
    assert_true(old.len > 900);
    assert_ok(fd_remove_tree(AT_FDCWD, folder, &e), &e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(writes_one_line_per_event, set_up, tear_down),
        cmocka_unit_test_setup_teardown(leaves_out_what_is_below_the_level, set_up, tear_down),
        cmocka_unit_test_setup_teardown(data_cannot_forge_a_line, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bounds_a_line, set_up, tear_down),
        cmocka_unit_test_setup_teardown(never_blocks_and_counts_what_it_drops, set_up, tear_down),
        cmocka_unit_test_setup_teardown(survives_a_closed_stderr, set_up, tear_down),
        cmocka_unit_test(quotes_values),
        cmocka_unit_test(reads_levels),
        cmocka_unit_test(turns_a_full_file_over),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
