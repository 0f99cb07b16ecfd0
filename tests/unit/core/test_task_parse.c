#include "base/buf.h"
#include "core/task.h"
#include "test.h"

#define MARK "0123456789abcdef"

struct heard {
    struct task_seen seen[4];
    size_t n;
};

static int keep(void *arg, const struct task_seen *seen, struct err *e)
{
    struct heard *h = arg;

    (void)e;
    assert_true(h->n < COUNTOF(h->seen));
    h->seen[h->n++] = *seen;
    return 0;
}

static struct heard parse(const char *said)
{
    struct heard h = {0};
    struct err e = {0};

    assert_ok(task_parse(str_from(said), S(MARK), keep, &h, &e), &e);
    return h;
}

static void a_task_is_read(void **state)
{
    struct heard h =
        parse("now\t100\ntask\tr1\nwanted\tr1\nname\ttrain\nstate\texit\ncode\t3\n"
              "signal\t0\nended\t90\nbegan\t80\nhow\ttmux\nlog\t/h/a b.log\n"
              "dir\t/h/.anybox/train\ncwd\t/h\ncommand\techo\thi\nsize\t12\ntouched\t91\n"
              "first\t2\nlast\t12\ntext\t0\n..hello\nyou\n\n" MARK "\nend\t\n");

    (void)state;
    assert_int_equal(h.n, 1);
    const struct task_seen *s = &h.seen[0];
    assert_str(s->run, S("r1"));
    assert_str(s->name, S("train"));
    assert_str(s->how, S("tmux"));
    assert_str(s->log, S("/h/a b.log"));
    assert_str(s->command, S("echo\thi"));
    assert_int_equal(s->end.state, TASK_EXITED);
    assert_int_equal(s->end.code, 3);
    assert_int_equal(s->end.ended_s, 90);
    assert_int_equal(s->began_s, 80);
    assert_int_equal(s->now_s, 100);
    assert_int_equal(s->size, 12);
    assert_str(s->text, S("hello\nyou\n"));
    assert_int_equal(s->last, 12);
}

static void checkpoints_and_gaps_are_read(void **state)
{
    struct heard h = parse(
        "task\tr1\ngaps\t4096\ncheck\tread\nstep 3\n\n" MARK "\nfirst\t0\nlast\t0\ntext\t0\n\n" MARK
        "\ntask\tr2\ngaps\tsome\nfull\t1\ncheck\tmissing\n\n" MARK
        "\nfirst\t0\nlast\t0\ntext\t0\n\n" MARK "\ntask\tr3\ncheck\tslow\npart\n" MARK
        "\nfirst\t0\nlast\t0\ntext\t0\n\n" MARK "\ntask\tr4\nfirst\t0\nlast\t0\ntext\t0\n\n" MARK
        "\nend\t\n");

    (void)state;
    assert_int_equal(h.n, 4);
    assert_int_equal(h.seen[0].gaps, 4096);
    assert_false(h.seen[0].disk_is_full);
    assert_int_equal(h.seen[0].check_is, CHECK_READ);
    assert_str(h.seen[0].check, S("step 3\n"));
    assert_int_equal(h.seen[1].gaps, -1);
    assert_true(h.seen[1].disk_is_full);
    assert_int_equal(h.seen[1].check_is, CHECK_MISSING);
    assert_int_equal(h.seen[2].gaps, 0);
    assert_int_equal(h.seen[2].check_is, CHECK_SLOW);
    assert_int_equal(h.seen[3].check_is, CHECK_NONE);
}

static void a_text_may_hold_anything(void **state)
{
    struct heard h = parse("task\tr1\nfirst\t0\nlast\t99\ntext\t0\nend\t\ntask\tx\n" MARK
                           " not alone\nx" MARK "\n\n" MARK "\ntask\tr2\nstate\trunning\nfirst\t5\n"
                           "last\t5\ntext\t0\n\n" MARK "\nend\t\n");

    (void)state;
    assert_int_equal(h.n, 2);
    assert_str(h.seen[0].text, S("end\t\ntask\tx\n" MARK " not alone\nx" MARK "\n"));
    assert_str(h.seen[1].run, S("r2"));
    assert_str(h.seen[1].text, S(""));
}

static void texts_are_cut_to_what_is_wanted(void **state)
{
    struct heard h =
        parse("task\tr1\nfirst\t4098\nlast\t4100\nsize\t4100\ntext\t4096\nabcdefgh\n" MARK
              "\ntask\tr2\nfirst\t0\nlast\t100\ntext\t0\nshort\n" MARK "\nend\t\n");

    (void)state;
    assert_int_equal(h.n, 2);
    assert_str(h.seen[0].text, S("cd"));
    /* The log was cut short while it was read. */
    assert_str(h.seen[1].text, S("short"));
    assert_int_equal(h.seen[1].last, 5);
}

static void a_command_that_was_left_has_two_texts(void **state)
{
    struct heard h = parse("task\tr1\nhow\texec\nsize\t3\nerrors_log\t/k/r1/stderr\n"
                           "errors_size\t4\nerrors\t0\nbad\n\n" MARK
                           "\nfirst\t0\nlast\t3\ntext\t0\nok\n\n" MARK "\nend\t\n");

    (void)state;
    assert_int_equal(h.n, 1);
    assert_str(h.seen[0].errors_log, S("/k/r1/stderr"));
    assert_str(h.seen[0].errors, S("bad\n"));
    assert_int_equal(h.seen[0].errors_size, 4);
    assert_str(h.seen[0].text, S("ok\n"));
}

static void numbers_that_are_none_are_not_known(void **state)
{
    struct heard h = parse("now\tx\ntask\tr\nstate\tnonsense\ncode\t\nsignal\t-1\nbegan\t9x\n"
                           "first\t0\nlast\t0\ntext\t0\n\n" MARK "\nend\t\n");

    (void)state;
    assert_int_equal(h.seen[0].end.state, TASK_UNKNOWN);
    assert_int_equal(h.seen[0].end.code, -1);
    assert_int_equal(h.seen[0].end.signal, 0);
    assert_int_equal(h.seen[0].began_s, 0);
    assert_int_equal(h.seen[0].now_s, 0);
}

static void what_breaks_off_is_an_error(void **state)
{
    static const char *const bad[] = {
        "",
        "now\t1\n",
        "task\tr\nstate\trunning",
        "task\tr\nfirst\t0\nlast\t1\ntext\t0\nx",
        "task\tr\nfirst\t0\nlast\t1\ntext\t0\nx" MARK "\nend\t\n",
        "task\tr\nfirst\t5\nlast\t9\ntext\t4096\nx\n" MARK "\nend\t\n",
        "task\tr\nfirst\t9\nlast\t5\ntext\t0\nx\n" MARK "\nend\t\n",
        "task\tr\nfirst\t0\nlast\t1\ntext\tx\nx\n" MARK "\nend\t\n",
    };

    (void)state;
    for (size_t i = 0; i < COUNTOF(bad); i++) {
        struct heard h = {0};
        struct err e = {0};

        assert_fails(task_parse(str_from(bad[i]), S(MARK), keep, &h, &e), &e, ERR_PROTOCOL,
                     "tasks");
    }
}

static void ends_are_read(void **state)
{
    static const struct {
        const char *line;
        bool good;
        enum task_phase phase;
        int code, signal;
        int64_t ended_s;
    } rows[] = {
        {"r1 exit 0 0 77", true, TASK_EXITED, 0, 0, 77},
        {"r1 exit 3 0 77          ", true, TASK_EXITED, 3, 0, 77},
        {"r1 signal 137 9 77", true, TASK_KILLED, 137, 9, 77},
        {"r1 interrupted 129 1 77", true, TASK_INTERRUPTED, 129, 1, 77},
        {"r1 cancelled 143 15 77", true, TASK_CANCELLED, 143, 15, 77},
        {"r1 exit 3 0", false, 0, 0, 0, 0},
        {"", false, 0, 0, 0, 0},
        {"r1 nonsense 3 0 77", false, 0, 0, 0, 0},
        {"r1 exit 256 0 77", true, TASK_EXITED, -1, 0, 77},
    };

    (void)state;
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        struct str run = STR_EMPTY;
        struct task_end end = {0};

        assert_int_equal(task_parse_end(str_from(rows[i].line), &run, &end), rows[i].good);
        if (rows[i].good) {
            assert_str(run, S("r1"));
            assert_int_equal(end.state, rows[i].phase);
            assert_int_equal(end.code, rows[i].code);
            assert_int_equal(end.signal, rows[i].signal);
            assert_int_equal(end.ended_s, rows[i].ended_s);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_task_is_read),
        cmocka_unit_test(checkpoints_and_gaps_are_read),
        cmocka_unit_test(a_text_may_hold_anything),
        cmocka_unit_test(a_command_that_was_left_has_two_texts),
        cmocka_unit_test(texts_are_cut_to_what_is_wanted),
        cmocka_unit_test(numbers_that_are_none_are_not_known),
        cmocka_unit_test(what_breaks_off_is_an_error),
        cmocka_unit_test(ends_are_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
