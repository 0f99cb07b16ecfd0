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

/* From here on the log stays in a file. */
struct folder {
    char path[32];
    struct arena arena;
};

static int set_up_folder(void **state)
{
    struct folder *f = calloc(1, sizeof(*f));

    (void)snprintf(f->path, sizeof(f->path), "/tmp/anybox-test-XXXXXX");
    assert_non_null(mkdtemp(f->path));
    arena_init(&f->arena, 1 << 20);
    log_set_level(LOG_INFO);
    *state = f;
    return 0;
}

static int tear_down_folder(void **state)
{
    struct folder *f = *state;
    struct err e;

    arena_fini(&f->arena);
    assert_ok(fd_remove_tree(AT_FDCWD, f->path, &e), &e);
    free(f);
    return 0;
}

/* Of the log (0) or an old one; empty when it is not there. */
static struct str log_text(struct folder *f, int number)
{
    struct str path = number > 0 ? arena_printf(&f->arena, "%s/log.%d", f->path, number)
                                 : arena_printf(&f->arena, "%s/log", f->path);
    struct str text = STR_EMPTY;
    struct err e;

    (void)!fd_read_file(AT_FDCWD, path.p, 1000, &f->arena, &text, &e);
    return text;
}

static void turns_a_full_file_over(void **state)
{
    struct folder *f = *state;
    struct str path = arena_printf(&f->arena, "%s/log", f->path);
    struct stat st;
    struct err e;

    assert_fails(log_set_file(arena_printf(&f->arena, "%s/none/log", f->path).p, 1000, 1, &e), &e,
                 ERR_NOT_FOUND, "open the log file");
    assert_ok(log_set_file(path.p, 1000, 1, &e), &e);
    assert_int_equal(stat(path.p, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    for (int i = 0; i < 45; i++) {
        log_line(LOG_INFO, "x", "i=%d", i);
    }
    assert_true(str_ends(log_text(f, 0), S(" i=44\n")));
    assert_true(log_text(f, 1).len > 900);
    assert_int_equal(log_text(f, 2).len, 0);
}

static void keeps_as_many_old_files_as_told(void **state)
{
    struct folder *f = *state;
    struct str path = arena_printf(&f->arena, "%s/log", f->path);
    struct err e;

    assert_ok(log_set_file(path.p, 1000, 3, &e), &e);
    for (int i = 0; i < 200; i++) {
        log_line(LOG_INFO, "x", "i=%d", i);
    }
    for (int i = 0; i <= 3; i++) {
        assert_true(log_text(f, i).len > 0);
    }
    assert_int_equal(log_text(f, 4).len, 0);
    assert_ok(log_set_file(path.p, 1000, 0, &e), &e);
    for (int i = 0; i < 30; i++) {
        log_line(LOG_INFO, "x", "none=%d", i);
    }
    assert_true(str_ends(log_text(f, 0), S(" none=29\n")));
    assert_null(strstr(log_text(f, 1).p, "none="));
}

/* Another process turned the file over: its new one is used, and not moved away again. */
static void follows_a_file_that_another_turned_over(void **state)
{
    struct folder *f = *state;
    struct str path = arena_printf(&f->arena, "%s/log", f->path);
    struct str old = arena_printf(&f->arena, "%s/log.1", f->path);
    char filler[900];
    struct err e;

    assert_ok(log_set_file(path.p, 1000, 1, &e), &e);
    memset(filler, 'x', sizeof(filler));
    log_line(LOG_INFO, "x", "%.*s", (int)sizeof(filler), filler);
    assert_int_equal(rename(path.p, old.p), 0);
    assert_ok(fd_replace_file(AT_FDCWD, path.p, S("theirs\n"), 0600, &e), &e);
    log_line(LOG_INFO, "x", "i=1 and more that does not fit into the old one any more");
    assert_true(str_starts(log_text(f, 0), S("theirs\n")));
    assert_true(str_ends(log_text(f, 0), S("any more\n")));
    assert_true(log_text(f, 1).len > 900);
    assert_int_equal(log_text(f, 2).len, 0);
    assert_int_equal(unlink(path.p), 0);
    log_line(LOG_INFO, "x", "i=2");
    assert_true(str_ends(log_text(f, 0), S("i=2\n")));
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
        cmocka_unit_test_setup_teardown(turns_a_full_file_over, set_up_folder, tear_down_folder),
        cmocka_unit_test_setup_teardown(keeps_as_many_old_files_as_told, set_up_folder,
                                        tear_down_folder),
        cmocka_unit_test_setup_teardown(follows_a_file_that_another_turned_over, set_up_folder,
                                        tear_down_folder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
