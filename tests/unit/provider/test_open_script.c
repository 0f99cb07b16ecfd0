#include <stdlib.h>
#include <string.h>

#include "provider/opensandbox/script.h"
#include "provider/shell.h"
#include "test.h"

#define MARK "0123456789abcdef0123456789abcdef"
#define END  "\036" MARK "\n"

/* What the real bash makes of the script between these, and its status. */
static int run_in(const struct script_req *s, struct str before, struct str behind, struct buf *out)
{
    struct buf script own_buf = {0}, line own_buf = {0};
    struct err e;
    char piece[4096];
    size_t n;
    buf_init(&script, SCRIPT_MAX);
    buf_init(&line, 4 * SCRIPT_MAX);
    assert_ok(script_build(s, &script, &e), &e);
    buf_add(&line, before);
    buf_add_quoted(&line, buf_str(&script));
    buf_add(&line, behind);
    buf_clear(out);
    FILE *p = popen(line.p, "r");
    assert_non_null(p);
    while ((n = fread(piece, 1, sizeof(piece), p)) > 0) {
        buf_add(out, (struct str){piece, n});
    }
    return WEXITSTATUS(pclose(p));
}

/* Both streams. */
static int run(const struct script_req *s, struct buf *out)
{
    return run_in(s, S("exec bash -c "), S(" 2>&1 </dev/null"), out);
}

static void a_file_that_stays_empty_needs_no_mark(void **state)
{
    struct exec_req req = {.shell = SHELL_BASH, .command = S("exit 3")};
    struct script_req s = {.req = &req, .mark = MARK, .cwd = S("/"), .has_bash = true};
    struct buf out own_buf = {0};
    (void)state;
    buf_init(&out, 1u << 20);
    for (int i = 0; i < 4; i++) {
        s.has_bash = i < 2;
        req.command = i % 2 == 0 ? S("exit 3") : S("printf hi; exit 3");
        assert_int_equal(run_in(&s, S("f=$(mktemp);bash -c "),
                                S(" >$f 2>$f.e </dev/null;c=$?;cat $f $f.e;rm $f $f.e;exit $c"),
                                &out),
                         3);
        assert_str(buf_str(&out), i % 2 == 0 ? STR_EMPTY : S("hi" END));
    }
}

static void the_marks_follow_what_was_printed(void **state)
{
    struct exec_req req = {.shell = SHELL_BASH, .command = S("printf 'it'\\''s'; exit 3")};
    struct script_req s = {.req = &req, .mark = MARK, .cwd = S("/"), .has_bash = true};
    struct buf out own_buf = {0};
    (void)state;
    buf_init(&out, 1u << 20);
    assert_int_equal(run(&s, &out), 3);
    assert_str(buf_str(&out), S("it's" END END));
    /* Where the command redirects itself, the marks do not. */
    req.command = S("exec >/dev/null 2>&1; echo lost");
    assert_int_equal(run(&s, &out), 0);
    assert_str(buf_str(&out), S(END END));
    req.command = S("trap 'echo bye' EXIT; exec sh -c 'exit 4'");
    assert_int_equal(run(&s, &out), 4);
    assert_true(str_ends(buf_str(&out), S(END END)));
}

static void a_folder_that_is_not_there_is_told_by_a_mark(void **state)
{
    struct exec_req req = {.shell = SHELL_BASH, .command = S("echo ran")};
    struct script_req s = {.req = &req, .mark = MARK, .cwd = S("/no/such $x"), .has_bash = true};
    struct buf out own_buf = {0};
    (void)state;
    buf_init(&out, 1u << 20);
    assert_int_equal(run(&s, &out), 125);
    assert_str(buf_str(&out), S(MARK "cd\n"));
}

static void little_input_travels_in_the_script(void **state)
{
    struct exec_req req = {.shell = SHELL_BASH, .command = S("od -An -tx1")};
    struct script_req s = {.req = &req,
                           .mark = MARK,
                           .cwd = S("/"),
                           .has_bash = true,
                           .has_small = true,
                           .small = {"a\0\xff\n'", 5}};
    struct buf out own_buf = {0};
    (void)state;
    buf_init(&out, 1u << 20);
    assert_int_equal(run(&s, &out), 0);
    assert_true(str_starts(buf_str(&out), S(" 61 00 ff 0a 27\n")));
}

static void argv_and_sh(void **state)
{
    const struct str argv[] = {S("printf"), S("[%s]"), S("a b"), S("$(x)")};
    struct exec_req req = {.shell = SHELL_NONE, .argv = argv, .n_argv = 4};
    struct script_req s = {.req = &req, .mark = MARK, .cwd = S("/"), .has_bash = true};
    struct buf out own_buf = {0};
    (void)state;
    buf_init(&out, 1u << 20);
    assert_int_equal(run(&s, &out), 0);
    assert_true(str_starts(buf_str(&out), S("[a b][$(x)]" END)));
    req =
        (struct exec_req){.shell = SHELL_SH, .command = S("echo \"${BASH_VERSION:-sh}\"; exit 2")};
    assert_int_equal(run(&s, &out), 2);
}

static void what_cannot_be_sent_is_refused(void **state)
{
    struct str env[] = {S("A B=x")};
    struct exec_req req = {.shell = SHELL_BASH, .command = {"a\0b", 3}};
    struct script_req s = {.req = &req, .mark = MARK, .has_bash = true};
    struct buf out own_buf = {0};
    struct err e;
    char *big = calloc(1, SCRIPT_MAX + 1);
    (void)state;
    buf_init(&out, SCRIPT_MAX);
    assert_fails(script_build(&s, &out, &e), &e, ERR_INVALID, "NUL");
    memset(big, 'x', SCRIPT_MAX);
    req.command = (struct str){big, SCRIPT_MAX};
    buf_clear(&out);
    assert_fails(script_build(&s, &out, &e), &e, ERR_LIMIT, "write_remote_file");
    req = (struct exec_req){.env = env, .n_env = 1};
    assert_fails(shell_check_env(&req, &e), &e, ERR_INVALID, "A B");
    free(big);
}

struct bytes {
    struct str rest;
    size_t step;
};

static ssize_t some(void *arg, char *to, size_t cap, struct err *e)
{
    struct bytes *b = arg;
    size_t n = b->rest.len < b->step ? b->rest.len : b->step;
    (void)e;
    n = n < cap ? n : cap;
    memcpy(to, b->rest.p, n);
    b->rest = str_skip(b->rest, n);
    return (ssize_t)n;
}

static void a_feed_gives_all_bytes_once(void **state)
{
    const size_t sizes[] = {0, 1, INLINE_MAX, INLINE_MAX + 1, 3 * INLINE_MAX};
    (void)state;
    for (size_t i = 0; i < COUNTOF(sizes); i++) {
        char *data = malloc(sizes[i] + 1);
        struct bytes b = {.rest = {data, sizes[i]}, .step = 7001};
        struct source from = {.read = some, .arg = &b, .fd = -1};
        struct arena arena own_arena = {0};
        struct ctx ctx = {.arena = &arena};
        struct feed f;
        struct err e;
        char piece[1000];
        size_t got = 0;
        ssize_t n;
        for (size_t k = 0; k < sizes[i]; k++) {
            data[k] = (char)(k * 31);
        }
        arena_init(&arena, 1u << 20);
        feed_init(&f, &from);
        assert_ok(feed_fill(&f, &ctx, &e), &e);
        assert_int_equal(f.is_whole, sizes[i] <= INLINE_MAX);
        struct source rest = feed_rest(&f);
        while ((n = rest.read(rest.arg, piece, sizeof(piece), &e)) > 0) {
            assert_memory_equal(piece, data + got, (size_t)n);
            got += (size_t)n;
        }
        assert_int_equal(got, sizes[i]);
        feed_fini(&f);
        free(data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_that_stays_empty_needs_no_mark),
        cmocka_unit_test(the_marks_follow_what_was_printed),
        cmocka_unit_test(a_folder_that_is_not_there_is_told_by_a_mark),
        cmocka_unit_test(little_input_travels_in_the_script),
        cmocka_unit_test(argv_and_sh),
        cmocka_unit_test(what_cannot_be_sent_is_refused),
        cmocka_unit_test(a_feed_gives_all_bytes_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
