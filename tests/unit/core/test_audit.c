/* The audit log: what is written, and what is noticed of those who change it. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "core/audit.h"
#include "json/js.h"
#include "test.h"

struct fixture {
    char dir[64];
    char path[96];
    struct arena arena;
    struct audit *audit;
};

static int set_up(void **state)
{
    struct fixture *fx = calloc(1, sizeof(*fx));

    (void)snprintf(fx->dir, sizeof(fx->dir), "/tmp/test-audit-XXXXXX");
    assert_non_null(mkdtemp(fx->dir));
    (void)snprintf(fx->path, sizeof(fx->path), "%s/audit.log", fx->dir);
    arena_init(&fx->arena, 64u << 20);
    fx->audit = audit_new(str_from(fx->path));
    *state = fx;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fx = *state;
    struct err e;

    audit_free(fx->audit);
    arena_fini(&fx->arena);
    assert_ok(fd_remove_tree(AT_FDCWD, fx->dir, &e), &e);
    free(fx);
    return 0;
}

static void note(struct fixture *fx, const char *tool)
{
    const struct audit_entry entry = {.tool = str_from(tool), .outcome = S("ok"), .ms = 7};
    struct err e;

    assert_ok(audit_ready(fx->audit, &e), &e);
    assert_ok(audit_write(fx->audit, &entry, &e), &e);
}

static void restart(struct fixture *fx)
{
    audit_free(fx->audit);
    fx->audit = audit_new(str_from(fx->path));
}

static struct str contents(struct fixture *fx)
{
    struct str text;
    struct err e;

    assert_ok(fd_read_file(AT_FDCWD, fx->path, 32u << 20, &fx->arena, &text, &e), &e);
    return text;
}

/* In place, as an editor that keeps the file would. */
static void rewrite(struct fixture *fx, struct str text)
{
    struct err e;
    int fd own_fd = open(fx->path, O_WRONLY | O_TRUNC | O_CLOEXEC);

    assert_ok(fd_write_all(fd, text, &e), &e);
}

static struct audit_verdict verify(struct fixture *fx)
{
    struct audit_verdict v;
    struct err e;

    assert_ok(audit_verify(str_from(fx->path), &v, &e), &e);
    return v;
}

static struct str line_at(struct str text, int n)
{
    struct str line = STR_EMPTY;

    for (int i = 0; i < n; i++) {
        line = str_cut(text, '\n', &text);
    }
    return line;
}

#define assert_good(fx, n)                                                                         \
    do {                                                                                           \
        struct audit_verdict v_ = verify(fx);                                                      \
        if (v_.broken_at != 0 || v_.lines != (n)) {                                                \
            fail_msg("%lld lines, broken at %lld: %s", (long long)v_.lines,                        \
                     (long long)v_.broken_at, v_.reason);                                          \
        }                                                                                          \
    } while (0)

#define assert_broken(fx, line, word)                                                              \
    do {                                                                                           \
        struct audit_verdict v_ = verify(fx);                                                      \
        if (v_.broken_at != (line) || strstr(v_.reason, (word)) == NULL) {                         \
            fail_msg("%lld lines, broken at %lld: %s", (long long)v_.lines,                        \
                     (long long)v_.broken_at, v_.reason);                                          \
        }                                                                                          \
    } while (0)

static void a_line_says_who_did_what(void **state)
{
    struct fixture *fx = *state;
    const struct audit_entry entry = {
        .who = S("key:ci"),
        .transport = S("http"),
        .request = S("\"a\\n\""),
        .call = S("0123"),
        .tool = S("exec_bash"),
        .box = S("b0"),
        .digest = S("dd"),
        .command = S("echo \"\n\xff"),
        .outcome = S("timeout"),
        .ms = 1234,
    };
    struct stat st;
    struct err e;

    assert_ok(audit_write(fx->audit, &entry, &e), &e);
    assert_int_equal(stat(fx->path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    struct str text = contents(fx);
    json_t *o own_json = js_parse(text.p, text.len, &e);
    assert_str(js_str(js_get(o, "who")), S("key:ci"));
    assert_str(js_str(js_get(o, "transport")), S("http"));
    assert_str(js_str(js_get(o, "request")), S("\"a\\n\""));
    assert_str(js_str(js_get(o, "call")), S("0123"));
    assert_str(js_str(js_get(o, "tool")), S("exec_bash"));
    assert_str(js_str(js_get(o, "box")), S("b0"));
    assert_str(js_str(js_get(o, "arguments")), S("dd"));
    assert_str(js_str(js_get(o, "command")), S("echo \"\n\xef\xbf\xbd"));
    assert_str(js_str(js_get(o, "outcome")), S("timeout"));
    assert_int_equal(json_integer_value(js_get(o, "ms")), 1234);
    assert_int_equal(js_str(js_get(o, "prev")).len, 64);
    assert_true(str_ends(js_str(js_get(o, "time")), S("Z")));
    assert_good(fx, 1);
}

static void the_largest_line_is_one_line(void **state)
{
    struct fixture *fx = *state;
    static char command[100000];
    const struct audit_entry entry = {.command = {command, sizeof(command)}, .tool = S("x")};
    struct err e;

    memset(command, 1, sizeof(command));
    assert_ok(audit_write(fx->audit, &entry, &e), &e);
    note(fx, "y");
    restart(fx);
    note(fx, "z");
    assert_good(fx, 3);
}

static void the_chain_goes_over_restarts_and_processes(void **state)
{
    struct fixture *fx = *state;
    struct audit *other = audit_new(str_from(fx->path));
    const struct audit_entry entry = {.tool = S("theirs")};
    struct err e;

    for (int i = 0; i < 5; i++) {
        note(fx, "one");
        assert_ok(audit_write(other, &entry, &e), &e);
        note(fx, "two");
        restart(fx);
    }
    audit_free(other);
    assert_good(fx, 15);
    assert_false(verify(fx).continues);
}

static void any_changed_byte_is_noticed(void **state)
{
    struct fixture *fx = *state;
    struct str text;

    for (int i = 0; i < 3; i++) {
        note(fx, "x");
    }
    text = contents(fx);
    for (size_t i = 0; i < text.len; i++) {
        char *changed = arena_alloc(&fx->arena, text.len, 1);
        struct audit_verdict v;

        memcpy(changed, text.p, text.len);
        changed[i] = (char)(changed[i] ^ 1);
        rewrite(fx, (struct str){changed, text.len});
        v = verify(fx);
        if (v.broken_at == 0) {
            fail_msg("byte %zu of %zu: %lld lines are good", i, text.len, (long long)v.lines);
        }
    }
}

static void removed_added_and_swapped_lines_are_noticed(void **state)
{
    struct fixture *fx = *state;
    struct str text, one, two, three;

    note(fx, "one");
    note(fx, "two");
    note(fx, "three");
    text = arena_str(&fx->arena, contents(fx));
    one = line_at(text, 1);
    two = line_at(text, 2);
    three = line_at(text, 3);
    rewrite(fx, arena_printf(&fx->arena, "%.*s\n%.*s\n", STR_ARG(one), STR_ARG(three)));
    assert_broken(fx, 2, "removed");
    rewrite(fx, arena_printf(&fx->arena, "%.*s\n%.*s\n%.*s\n", STR_ARG(one), STR_ARG(three),
                             STR_ARG(two)));
    assert_broken(fx, 2, "changed");
    rewrite(fx, arena_printf(&fx->arena, "%.*s\n%.*s\n%.*s\n%.*s\n", STR_ARG(one), STR_ARG(one),
                             STR_ARG(two), STR_ARG(three)));
    assert_broken(fx, 2, "changed");
    rewrite(fx, arena_printf(&fx->arena, "garbage\n%.*s\n", STR_ARG(one)));
    assert_broken(fx, 1, "not a line");
    /* A last line that became longer, with the rest as it was. */
    rewrite(fx, arena_printf(&fx->arena, "%.*s\n%.*s\n%.*s  \n", STR_ARG(one), STR_ARG(two),
                             STR_ARG(three)));
    assert_broken(fx, 3, "changed");
}

static void a_truncated_file_is_noticed_even_after_more_calls(void **state)
{
    struct fixture *fx = *state;
    struct str text, one, two;

    note(fx, "one");
    note(fx, "two");
    note(fx, "three");
    text = arena_str(&fx->arena, contents(fx));
    one = line_at(text, 1);
    two = line_at(text, 2);
    for (size_t cut = 1; cut <= two.len + 1; cut += 7) {
        rewrite(fx, str_head(text, one.len + 1 + cut));
        assert_true(verify(fx).broken_at > 0);
    }
    rewrite(fx, str_head(text, one.len + 1));
    assert_broken(fx, 2, "removed from its end");
    note(fx, "four"); /* the process that has it open */
    assert_broken(fx, 2, "removed");
    restart(fx);
    note(fx, "five");
    assert_broken(fx, 2, "removed");
}

static void an_emptied_file_does_not_begin_anew(void **state)
{
    struct fixture *fx = *state;

    note(fx, "one");
    note(fx, "two");
    assert_int_equal(truncate(fx->path, 0), 0);
    assert_broken(fx, 1, "removed");
    restart(fx);
    note(fx, "three");
    assert_true(verify(fx).continues);
}

static void a_moved_file_is_continued_by_the_next(void **state)
{
    struct fixture *fx = *state;
    char old[100];
    struct audit_verdict before, after;
    struct err e;

    note(fx, "one");
    note(fx, "two");
    (void)snprintf(old, sizeof(old), "%s.1", fx->path);
    assert_int_equal(rename(fx->path, old), 0);
    note(fx, "three");
    assert_ok(audit_verify(str_from(old), &before, &e), &e);
    after = verify(fx);
    assert_int_equal(before.lines, 2);
    assert_int_equal(before.broken_at, 0);
    assert_int_equal(after.lines, 1);
    assert_int_equal(after.broken_at, 0);
    assert_true(after.continues);
    assert_string_equal(before.last, after.first);
}

/* What a process that is killed in the middle of a line leaves. */
static void a_torn_line_is_ended_and_told(void **state)
{
    struct fixture *fx = *state;
    struct audit_verdict v;
    struct err e;

    note(fx, "one");
    note(fx, "two");
    int fd own_fd = open(fx->path, O_WRONLY | O_APPEND | O_CLOEXEC);
    assert_ok(fd_write_all(fd, S("{\"time\":\"2026-11-15T1"), &e), &e);
    v = verify(fx);
    assert_int_equal(v.broken_at, 0);
    assert_int_equal(v.torn, 1);
    restart(fx);
    note(fx, "three");
    note(fx, "four");
    v = verify(fx);
    assert_int_equal(v.broken_at, 0);
    assert_int_equal(v.torn, 1);
    assert_int_equal(v.lines, 4);
    /* What is left of a torn line cannot be changed either. */
    struct str text = arena_str(&fx->arena, contents(fx));
    char *at = strstr(text.p, "2026-11-15T1\n");
    assert_non_null(at);
    at[3] = '7';
    rewrite(fx, text);
    assert_broken(fx, 4, "changed");
}

/* The line is there, the head was not brought up to date any more. */
static void a_head_that_lags_behind_is_fine(void **state)
{
    struct fixture *fx = *state;
    char head_path[110];
    struct str head;
    struct err e;

    note(fx, "one");
    (void)snprintf(head_path, sizeof(head_path), "%s.head", fx->path);
    assert_ok(fd_read_file(AT_FDCWD, head_path, 1000, &fx->arena, &head, &e), &e);
    note(fx, "two");
    int fd own_fd = open(head_path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    assert_ok(fd_write_all(fd, head, &e), &e);
    assert_good(fx, 2);
    restart(fx);
    note(fx, "three");
    assert_good(fx, 3);
}

#define WRITERS 6
#define EACH    200

static void write_many(const char *path, int n)
{
    struct audit *a = audit_new(str_from(path));
    const struct audit_entry entry = {.tool = S("many"),
                                      .command = S("xxxxxxxxxxxxxxxxxxxxxxxxxxx")};
    struct err e;

    for (int i = 0; i < n; i++) {
        if (audit_write(a, &entry, &e) < 0) {
            _exit(1);
        }
    }
    audit_free(a);
    _exit(0);
}

static void many_processes_write_one_chain(void **state)
{
    struct fixture *fx = *state;
    pid_t pids[WRITERS];

    for (int i = 0; i < WRITERS; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            write_many(fx->path, EACH);
        }
    }
    for (int i = 0; i < WRITERS; i++) {
        int status = 1;

        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
    assert_good(fx, WRITERS * EACH);
}

static void writers_that_are_killed_break_nothing(void **state)
{
    struct fixture *fx = *state;

    note(fx, "before"); /* a writer may be killed before it has made the file */

    for (int round = 0; round < 30; round++) {
        pid_t pid = fork();

        if (pid == 0) {
            write_many(fx->path, 1000000);
        }
        (void)usleep(1000 + 700 * (unsigned)round);
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        if (verify(fx).broken_at != 0) {
            fail_msg("round %d: line %lld: %s", round, (long long)verify(fx).broken_at,
                     verify(fx).reason);
        }
    }
    note(fx, "after");
    assert_int_equal(verify(fx).broken_at, 0);
}

static void *thread_writes(void *arg)
{
    struct fixture *fx = arg;
    const struct audit_entry entry = {.tool = S("thread")};
    struct err e;

    for (int i = 0; i < EACH; i++) {
        if (audit_write(fx->audit, &entry, &e) < 0) {
            return arg;
        }
    }
    return NULL;
}

static void many_threads_write_one_chain(void **state)
{
    struct fixture *fx = *state;
    pthread_t threads[WRITERS];

    for (int i = 0; i < WRITERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, thread_writes, fx), 0);
    }
    for (int i = 0; i < WRITERS; i++) {
        void *failed = NULL;

        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    assert_good(fx, WRITERS * EACH);
}

static void what_cannot_be_recorded_is_not_begun(void **state)
{
    struct fixture *fx = *state;
    struct audit *a = audit_new(S("/no/such/folder/audit.log"));
    struct err e;

    assert_fails(audit_ready(a, &e), &e, ERR_NOT_FOUND, "cannot be recorded");
    audit_free(a);
    a = audit_new(str_from(fx->dir));
    assert_fails(audit_ready(a, &e), &e, ERR_SYSTEM, "audit log");
    audit_free(a);
}

static void a_lost_line_is_told_before_anything_goes_on(void **state)
{
    struct fixture *fx = *state;
    const struct audit_entry entry = {.tool = S("lost")};
    struct err e;

    note(fx, "one");
    /* Gone, and nothing can be made in its place. */
    assert_int_equal(unlink(fx->path), 0);
    assert_int_equal(mkdir(fx->path, 0700), 0);
    assert_true(audit_write(fx->audit, &entry, &e) < 0);
    assert_true(audit_write(fx->audit, &entry, &e) < 0);
    assert_true(audit_ready(fx->audit, &e) < 0);
    assert_int_equal(rmdir(fx->path), 0);
    note(fx, "two");
    assert_good(fx, 2);
    assert_non_null(strstr(contents(fx).p, "2 lines were lost"));
}

static void a_file_that_is_no_log_is_told(void **state)
{
    struct fixture *fx = *state;
    struct audit_verdict v;
    struct err e;

    assert_fails(audit_verify(str_from(fx->path), &v, &e), &e, ERR_NOT_FOUND, "audit.log");
    note(fx, "x");
    assert_int_equal(truncate(fx->path, 1 << 20), 0); /* zeroes */
    assert_true(verify(fx).broken_at > 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_line_says_who_did_what),
        TEST(the_largest_line_is_one_line),
        TEST(the_chain_goes_over_restarts_and_processes),
        TEST(any_changed_byte_is_noticed),
        TEST(removed_added_and_swapped_lines_are_noticed),
        TEST(a_truncated_file_is_noticed_even_after_more_calls),
        TEST(an_emptied_file_does_not_begin_anew),
        TEST(a_moved_file_is_continued_by_the_next),
        TEST(a_torn_line_is_ended_and_told),
        TEST(a_head_that_lags_behind_is_fine),
        TEST(many_processes_write_one_chain),
        TEST(writers_that_are_killed_break_nothing),
        TEST(many_threads_write_one_chain),
        TEST(what_cannot_be_recorded_is_not_begun),
        TEST(a_lost_line_is_told_before_anything_goes_on),
        TEST(a_file_that_is_no_log_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
