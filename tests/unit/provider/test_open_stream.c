#include <signal.h>

#include "provider/opensandbox/stream.h"
#include "provider/opensandbox/web.h"
#include "test.h"

struct heard {
    struct buf text; /* "type:text|" each */
    int stop_at;     /* an event of that type is enough; -1: none */
};

static int hear(void *arg, const struct event *event, struct err *e)
{
    static const char *const names[] = {"init", "out", "err", "done", "error", "late", "other"};
    struct heard *h = arg;
    (void)e;
    buf_addf(&h->text, "%s:%.*s:%.*s:%.*s|", names[event->type], STR_ARG(event->text),
             STR_ARG(event->value), STR_ARG(event->trace));
    return (int)event->type == h->stop_at ? WEB_ENOUGH : WEB_MORE;
}

static const char stream[] =
    "{\"type\":\"init\",\"text\":\"3f2c\",\"timestamp\":1}\n\n"
    "{\"type\":\"ping\",\"text\":\"pong\",\"timestamp\":1}\n\n"
    "{\"type\":\"stdout\",\"text\":\"a\",\"timestamp\":1}\n\n"
    "{\"type\":\"stdout\",\"text\":\"\\n\",\"timestamp\":1}\n\n"
    "{\"type\":\"stderr\",\"text\":\"b\\u003cc\",\"timestamp\":1}\n\n"
    "{\"type\":\"error\",\"timestamp\":1,\"error\":{\"ename\":\"CommandExecError\",\"evalue\":\"3\","
    "\"traceback\":[\"exit status 3\"]}}\n\n";
static const char expected[] = "init:3f2c::|other:pong::|out:a::|out:\n::|err:b<c::|"
                               "error:CommandExecError:3:exit status 3|";

static void in_pieces(size_t step, int stop_at, const char *bytes, const char *wanted,
                      int rc_wanted)
{
    struct events s;
    struct heard h = {.stop_at = stop_at};
    struct err e;
    struct str all = str_from(bytes);
    int rc = WEB_MORE;
    events_init(&s);
    buf_init(&h.text, 4096);
    while (all.len > 0 && rc == WEB_MORE) {
        rc = events_take(&s, str_head(all, step), hear, &h, &e);
        all = str_skip(all, step < all.len ? step : all.len);
    }
    if (rc == WEB_MORE) {
        rc = events_end(&s, hear, &h, &e);
    }
    assert_int_equal(rc, rc_wanted);
    assert_str(buf_str(&h.text), str_from(wanted));
    buf_fini(&h.text);
    events_fini(&s);
}

static void events_are_read_however_they_are_cut(void **state)
{
    (void)state;
    for (size_t step = 1; step < sizeof(stream); step += 7) {
        in_pieces(step, -1, stream, expected, WEB_MORE);
        in_pieces(step, EVENT_ERROR, stream, expected, WEB_ENOUGH);
    }
    in_pieces(1000, EVENT_OUT, stream, "init:3f2c::|other:pong::|out:a::|", WEB_ENOUGH);
}

static void a_late_error_needs_no_end_of_line(void **state)
{
    (void)state;
    in_pieces(
        3, -1,
        "{\"type\":\"init\",\"text\":\"1\"}\n\n{\"code\":\"RUNTIME_ERROR\",\"message\":\"busy\"}",
        "init:1::|late:busy:RUNTIME_ERROR:|", WEB_MORE);
}

static void real_event_streams_are_read_too(void **state)
{
    (void)state;
    in_pieces(
        5, -1,
        ": hello\nevent: x\nid: 1\nretry: 5\ndata: {\"type\":\"init\",\"text\":\"1\"}\r\n\r\n",
        "init:1::|", WEB_MORE);
}

static void what_is_cut_in_two_tells_nothing(void **state)
{
    (void)state;
    in_pieces(1000, -1, "{\"type\":\"init\",\"text\":\"1\"}\n\n{\"type\":\"stdou", "init:1::|",
              WEB_MORE);
    in_pieces(1000, -1, "not json\n", "", -1);
}

static struct exec_result ended(const char *value, const char *trace)
{
    struct exec_result r = {0};
    struct event event = {.value = str_from(value), .trace = str_from(trace)};
    assert_true(event_result(&event, &r));
    return r;
}

static void exits_and_signals(void **state)
{
    struct exec_result r = ended("3", "exit status 3");
    struct event event = {.value = S("fork/exec /bin/bash: no such file")};
    (void)state;
    assert_int_equal(r.end, EXEC_EXITED);
    assert_int_equal(r.code, 3);
    r = ended("137", "exit status 137");
    assert_int_equal(r.end, EXEC_EXITED);
    r = ended("-1", "signal: killed");
    assert_int_equal(r.end, EXEC_SIGNALED);
    assert_int_equal(r.code, SIGKILL);
    assert_int_equal(ended("-1", "signal: segmentation fault (core dumped)").code, SIGSEGV);
    assert_int_equal(ended("-1", "signal: terminated").code, SIGTERM);
    assert_int_equal(ended("-1", "signal: signal 33").code, 33);
    assert_int_equal(ended("-1", "").code, SIGKILL);
    assert_false(event_result(&event, &r));
}

/* What is handed on of these lines. */
static void given(const char *const *lines, bool has_mark, const char *wanted)
{
    struct lines l = {.mark = S("MARK")};
    struct buf out = {0};
    struct line line;
    buf_init(&out, 1000);
    for (size_t i = 0; lines[i] != NULL; i++) {
        lines_take(&l, str_from(lines[i]), &line);
        buf_add(&out, line.pieces[0]);
        buf_add(&out, line.pieces[1]);
    }
    assert_int_equal(l.is_over, has_mark);
    buf_add(&out, lines_end(&l));
    assert_str(buf_str(&out), str_from(wanted));
    assert_int_equal(l.n_bytes, out.len);
    buf_fini(&out);
}

static void a_line_of_ours_is_none_of_the_command(void **state)
{
    struct lines l = {.mark = S("MARK")};
    struct line line;
    (void)state;
    lines_take(&l, S("MARKcd"), &line);
    assert_str(line.note, S("cd"));
    assert_int_equal(line.pieces[0].len + line.pieces[1].len, 0);
    assert_false(l.is_over || l.owes_end);
}

static void lines_get_their_ends_back(void **state)
{
    (void)state;
    given((const char *[]){"abc\036MARK", NULL}, true, "abc");
    given((const char *[]){"abc", "\036MARK", NULL}, true, "abc\n");
    given((const char *[]){"\036MARK", NULL}, true, "");
    given((const char *[]){"\n", "\036MARK", NULL}, true, "\n");
    given((const char *[]){"a", "\n", "b", "\n", "\036MARK", "late", NULL}, true, "a\n\nb\n\n");
    given((const char *[]){"RUN=MARK", "\036", "\036MAR", "\036MARK", NULL}, true,
          "RUN=MARK\n\036\n\036MAR\n");
    given((const char *[]){"MARKcd", "\036MARK", NULL}, true, "");
    given((const char *[]){"a", "b", NULL}, false, "a\nb\n");
    given((const char *[]){NULL}, false, "");
}

/* `text` in pieces of each length, of which `n` lines were told. */
static void passed(const char *text, uint64_t n, const char *wanted)
{
    for (size_t step = 1; step <= strlen(text); step++) {
        struct told t = {.n = n};
        struct buf out;
        struct str rest = str_from(text);

        buf_init(&out, 1000);
        for (; rest.len > 0; rest = str_skip(rest, step < rest.len ? step : rest.len)) {
            buf_add(&out, told_skip(&t, str_head(rest, step)));
        }
        assert_str(buf_str(&out), str_from(wanted));
        buf_fini(&out);
    }
}

static void what_was_told_of_a_file_is_passed(void **state)
{
    (void)state;
    passed("a\nb\nc", 0, "a\nb\nc");
    passed("a\nb\nc", 1, "b\nc");
    passed("a\r\nb\nc", 1, "b\nc");
    passed("a\rb\nc\n", 2, "c\n");
    passed("a\r\n\r\n\nb\n", 2, "\nb\n");
    passed("a\n\n\rb\n", 2, "\rb\n");
    passed("\r\rb\r\n\n", 3, "\n");
    passed("\xff\n\nb", 2, "b");
    passed("a\nb", 2, "");
    passed("a\n", 5, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_told_of_a_file_is_passed),
        cmocka_unit_test(events_are_read_however_they_are_cut),
        cmocka_unit_test(a_late_error_needs_no_end_of_line),
        cmocka_unit_test(real_event_streams_are_read_too),
        cmocka_unit_test(what_is_cut_in_two_tells_nothing),
        cmocka_unit_test(exits_and_signals),
        cmocka_unit_test(lines_get_their_ends_back),
        cmocka_unit_test(a_line_of_ours_is_none_of_the_command),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
