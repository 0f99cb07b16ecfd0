/* test_exec.c - exec_bash and its other names against scripted commands. */
#include <time.h>

#include "fake.h"

static int say(const struct sink *sink, enum stream which, struct str text)
{
    struct err e = {0};

    assert_ok(sink->write(sink->arg, which, text, &e), &e);
    return 0;
}

static int exits(struct fake *f, const struct exec_req *req, const struct sink *sink,
                 struct exec_result *out, struct err *e)
{
    (void)f;
    (void)e;
    say(sink, STREAM_OUT, req->command);
    say(sink, STREAM_ERR, S("warn\x1b[0m\n"));
    *out = (struct exec_result){.end = EXEC_EXITED, .code = 3, .oom = KNOWN_NO, .wall_ms = 1234};
    return 0;
}

static void a_command_is_answered_with_all_fields(void **state)
{
    struct fake *f = *state;
    own_json json_t *o = NULL;

    f->exec = exits;
    o = fake_ok(f, "exec_bash", "{\"command\":\"hello\"}");
    assert_json(o, "exit_code", json_integer(3));
    assert_json(o, "stdout", json_string("hello"));
    assert_json(o, "stderr", json_string("warn\n"));
    assert_json(o, "duration", json_real(1.234));
    assert_json(o, "timed_out", json_false());
    assert_json(o, "signal", json_null());
    assert_json(o, "connection_error", json_false());
    assert_json(o, "oom_killed", json_false());
    assert_null(js_get(o, "truncated"));
    assert_null(js_get(o, "limits_hit"));
    assert_null(js_get(o, "sandbox_ended"));
    assert_non_null(strstr(json_string_value(js_get(o, "note")), "a sandbox was made"));
}

static int shows_request(struct fake *f, const struct exec_req *req, const struct sink *sink,
                         struct exec_result *out, struct err *e)
{
    char text[512];
    char input[8] = "";
    ssize_t n = req->input ? req->input->read(req->input->arg, input, 3, e) : 0;

    (void)f;
    (void)snprintf(text, sizeof(text), "%d %.*s|%.*s|%.*s|%.*s|%lld|%lld", req->shell == SHELL_BASH,
                   STR_ARG(req->command), STR_ARG(req->cwd),
                   req->n_env > 0 ? (int)req->env[0].len : 0, req->n_env > 0 ? req->env[0].p : "",
                   (int)n, input, (long long)req->timeout_ms, (long long)req->window_ms);
    say(sink, STREAM_OUT, str_from(text));
    *out = (struct exec_result){.oom = KNOWN_NOT};
    return 0;
}

static void the_request_is_what_was_asked_for(void **state)
{
    static const struct {
        const char *tool, *arguments, *shown;
    } cases[] = {
        {"exec_bash", "{\"command\":\"c\"}", "1 c||||120000|0"},
        {"exec_bash",
         "{\"command\":\"c\",\"cwd\":\" ~/x \",\"env\":{\"A\":1},\"stdin\":\"input\","
         "\"timeout_s\":\"7\"}",
         "1 c|~/x|A=1|inp|7000|0"},
        {"exec_bash", "{\"command\":\"c\",\"timeout\":9}", "1 c||||9000|0"},
        {"run_command", "{\"command\":\"c\",\"timeout\":300}", "1 c||||300000|0"},
        {"run_command", "{\"command\":\"c\",\"timeout_s\":5.0}", "1 c||||5000|0"},
        {"execute_terminal_command", "{\"command\":\"c\"}", "1 c||||120000|0"},
    };
    struct fake *f = *state;

    f->exec = shows_request;
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        own_json json_t *o = fake_ok(f, cases[i].tool, cases[i].arguments);

        assert_string_equal(json_string_value(js_get(o, "stdout")), cases[i].shown);
        assert_null(js_get(o, "oom_killed"));
    }
    assert_int_equal(f->n_boxes, 1);
}

static int times_out(struct fake *f, const struct exec_req *req, const struct sink *sink,
                     struct exec_result *out, struct err *e)
{
    (void)f;
    (void)req;
    (void)e;
    say(sink, STREAM_ERR, S("half a line"));
    *out = (struct exec_result){.end = EXEC_SIGNALED, .code = 15, .timed_out = true};
    return 0;
}

static void a_timeout_is_124_and_says_so(void **state)
{
    struct fake *f = *state;
    own_json json_t *o = NULL;

    f->exec = times_out;
    o = fake_ok(f, "exec_bash", "{\"command\":\"sleep 9\",\"timeout_s\":2}");
    assert_json(o, "exit_code", json_integer(124));
    assert_json(o, "timed_out", json_true());
    assert_json(o, "stderr", json_string("half a line\n[TIMEOUT] command killed after 2s\n"));
}

static int is_killed(struct fake *f, const struct exec_req *req, const struct sink *sink,
                     struct exec_result *out, struct err *e)
{
    (void)f;
    (void)sink;
    (void)e;
    *out = (struct exec_result){
        .end = EXEC_SIGNALED, .oom = KNOWN_YES, .limits_hit = LIMIT_DISK | LIMIT_MEMORY};
    out->code = req->command.p[0] == '9' ? 9 : 63;
    return 0;
}

static void a_signal_is_named_and_memory_told(void **state)
{
    struct fake *f = *state;
    own_json json_t *killed = NULL;
    own_json json_t *strange = NULL;

    f->exec = is_killed;
    killed = fake_ok(f, "exec_bash", "{\"command\":\"9\"}");
    assert_json(killed, "exit_code", json_integer(137));
    assert_json(killed, "signal", json_string("SIGKILL"));
    assert_json(killed, "oom_killed", json_true());
    assert_json(killed, "limits_hit", json_pack("[ss]", "memory", "disk"));
    strange = fake_ok(f, "exec_bash", "{\"command\":\"r\"}");
    assert_json(strange, "exit_code", json_integer(191));
    assert_json(strange, "signal", json_string("signal 63"));
}

static int is_lost(struct fake *f, const struct exec_req *req, const struct sink *sink,
                   struct exec_result *out, struct err *e)
{
    (void)f;
    (void)req;
    (void)out;
    say(sink, STREAM_OUT, S("part\n"));
    return err_set(e, ERR_UNREACHABLE, "connection reset");
}

static void a_lost_connection_is_flagged_with_what_came_so_far(void **state)
{
    struct fake *f = *state;
    own_json json_t *o = NULL;

    f->exec = is_lost;
    o = fake_fails(f, "exec_bash", "{\"command\":\"x\"}", "unreachable", "Look before you run it");
    assert_json(o, "exit_code", json_integer(-1));
    assert_json(o, "stdout", json_string("part\n"));
    assert_json(o, "connection_error", json_true());
    assert_json(o, "timed_out", json_false());
    assert_non_null(strstr(json_string_value(js_get(o, "stderr")), "[CONNECTION ERROR] "));
    assert_int_equal(f->execs, 1);
}

static int ends_with_its_box(struct fake *f, const struct exec_req *req, const struct sink *sink,
                             struct exec_result *out, struct err *e)
{
    (void)req;
    (void)out;
    say(sink, STREAM_OUT, S("part\n"));
    f->boxes[0]->gone = true;
    return err_set(e, ERR_UNREACHABLE, "the sandbox ended while the command ran");
}

static void a_box_that_ends_under_a_command_is_told_with_its_reason(void **state)
{
    struct fake *f = *state;
    own_json json_t *o = NULL;

    f->exec = ends_with_its_box;
    o = fake_fails(f, "exec_bash", "{\"command\":\"x\"}", "gone",
                   "ended before the command did: the test said so. ");
    assert_json(o, "exit_code", json_integer(-1));
    assert_json(o, "stdout", json_string("part\n"));
    assert_json(o, "stderr", json_string("[SANDBOX ENDED] the test said so\n"));
    assert_json(o, "sandbox_ended", json_string("lifetime"));
    assert_json(o, "connection_error", json_true());
    assert_int_equal(f->execs, 1);
}

static int is_refused(struct fake *f, const struct exec_req *req, const struct sink *sink,
                      struct exec_result *out, struct err *e)
{
    (void)f;
    (void)sink;
    (void)out;
    return err_set(e, ERR_NOT_FOUND, "the folder %.*s is not there\x1b[2J", STR_ARG(req->cwd));
}

static void what_did_not_start_is_an_error(void **state)
{
    struct fake *f = *state;

    f->exec = is_refused;
    json_decref(fake_fails(f, "exec_bash", "{\"command\":\"x\",\"cwd\":\"/no\"}", "not_found",
                           "the folder /no is not there"));
    json_decref(
        fake_fails(f, "exec_bash", "{\"command\":\" \\n \"}", "invalid", "command is empty"));
    json_decref(
        fake_fails(f, "exec_bash", "{}", "invalid", "command is required: the shell text to run"));
    json_decref(fake_fails(f, "exec_bash", "{\"command\":\"x\",\"timeout_s\":-5}", "invalid",
                           "timeout_s must be an integer from 1 to 86400, not -5"));
    json_decref(fake_fails(f, "exec_bash", "{\"command\":\"x\",\"max_output_chars\":0}", "invalid",
                           "max_output_chars must be an integer of 1 or more, not 0"));
    assert_int_equal(f->execs, 1);
}

static void a_command_of_a_mebibyte_is_taken_and_more_is_not(void **state)
{
    struct fake *f = *state;
    struct buf text own_buf = {0};

    f->exec = exits;
    buf_init(&text, 2 << 20);
    buf_add(&text, S("{\"max_output_chars\":10,\"command\":\""));
    memset(buf_room(&text, 1 << 20), 'x', 1 << 20);
    text.len += 1 << 20;
    buf_add(&text, S("\"}"));
    json_decref(fake_ok(f, "exec_bash", text.p));
    text.len -= 2;
    buf_add(&text, S("x\"}"));
    json_decref(fake_fails(f, "exec_bash", text.p, "invalid",
                           "command is 1048577 bytes long; at most 1048576 are accepted"));
}

static int prints_much(struct fake *f, const struct exec_req *req, const struct sink *sink,
                       struct exec_result *out, struct err *e)
{
    (void)f;
    (void)req;
    (void)e;
    for (int i = 0; i < 100000; i++) {
        char line[32];
        int len = snprintf(line, sizeof(line), "\"%d\"\t\\\n", i);

        say(sink, STREAM_OUT, (struct str){line, (size_t)len});
        say(sink, STREAM_ERR, (struct str){line, (size_t)len});
    }
    *out = (struct exec_result){0};
    return 0;
}

static void long_output_is_cut_and_readable_whole(void **state)
{
    struct fake *f = *state;
    own_json json_t *o = NULL;
    own_json json_t *piece = NULL;
    const char *at;
    char arguments[128];

    f->exec = prints_much;
    o = fake_ok(f, "exec_bash", "{\"command\":\"x\",\"max_output_chars\":1000}");
    assert_json(o, "truncated", json_true());
    assert_true(json_string_length(js_get(o, "stdout")) < 1200);
    at = strstr(json_string_value(js_get(o, "stderr")), "output:");
    assert_non_null(at);
    (void)snprintf(arguments, sizeof(arguments), "{\"remote_path\":\"%.23s\",\"max_bytes\":9}", at);
    piece = fake_ok(f, "read_remote_file", arguments);
    assert_json(piece, "content", json_string("\"0\"\t\\\n\"1\""));
    assert_json(piece, "truncated", json_true());
    assert_json(piece, "next_offset", json_integer(9));
    assert_json(piece, "file_size", json_integer(988890));
}

static void a_kept_output_is_its_owners(void **state)
{
    struct fake *f = *state;
    own_json json_t *o = NULL;
    const char *at;
    char arguments[128];

    f->exec = prints_much;
    o = fake_ok(f, "exec_bash", "{\"command\":\"x\",\"max_output_chars\":1000}");
    at = strstr(json_string_value(js_get(o, "stdout")), "output:");
    assert_non_null(at);
    (void)snprintf(arguments, sizeof(arguments), "{\"remote_path\":\"%.19s\"}", at);
    f->scope.owner = S("key:other");
    json_decref(fake_fails(f, "read_remote_file", arguments, "not_found", "there is no output"));
    f->scope.owner = STR_EMPTY;
    json_decref(fake_ok(f, "read_remote_file", arguments));
}

static void however_much_is_asked_for_the_answer_fits(void **state)
{
    struct fake *f = *state;
    own_json json_t *o = NULL;

    f->exec = prints_much;
    o = fake_ok(f, "exec_bash", "{\"command\":\"x\",\"max_output_chars\":99999999}");
    assert_json(o, "truncated", json_true());
    assert_true(json_string_length(js_get(o, "stdout")) > 100000);
    assert_true(json_string_length(js_get(o, "stderr")) > 100000);
}

static void a_default_box_that_ended_is_made_again(void **state)
{
    struct fake *f = *state;
    own_json json_t *first = NULL;
    own_json json_t *second = NULL;
    own_json json_t *third = NULL;

    f->exec = exits;
    first = fake_ok(f, "exec_bash", "{\"command\":\"x\"}");
    f->boxes[0]->gone = true;
    second = fake_ok(f, "exec_bash", "{\"command\":\"x\"}");
    assert_non_null(strstr(json_string_value(js_get(second, "note")), "had ended"));
    assert_int_equal(f->n_boxes, 2);
    assert_int_equal(f->execs, 2);
    third = fake_ok(f, "exec_bash", "{\"command\":\"x\"}");
    assert_null(js_get(third, "note"));
    assert_int_equal(f->n_boxes, 2);
}

static void a_named_box_that_ended_is_not_replaced(void **state)
{
    struct fake *f = *state;

    f->exec = exits;
    json_decref(fake_ok(f, "create_sandbox", "{\"name\":\"mine\"}"));
    json_decref(fake_ok(f, "exec_bash", "{\"command\":\"x\",\"sandbox_name\":\"mine\"}"));
    f->boxes[0]->gone = true;
    json_decref(fake_fails(f, "exec_bash", "{\"command\":\"x\",\"sandbox_name\":\"mine\"}", "gone",
                           "create_sandbox"));
    json_decref(fake_fails(f, "exec_bash", "{\"command\":\"x\",\"sandbox_name\":\"mine\"}", "gone",
                           "the test said so"));
    json_decref(
        fake_fails(f, "exec_bash", "{\"command\":\"x\",\"sandbox_id\":\"no\"}", "not_found", "no"));
    assert_int_equal(f->n_boxes, 1);
    assert_int_equal(f->execs, 1);
}

static int goes_after_output(struct fake *f, const struct exec_req *req, const struct sink *sink,
                             struct exec_result *out, struct err *e)
{
    (void)req;
    (void)out;
    say(sink, STREAM_OUT, S("begun\n"));
    f->boxes[f->n_boxes - 1]->gone = true;
    return err_set(e, ERR_GONE, "it has ended");
}

static void a_command_that_began_is_never_run_again(void **state)
{
    struct fake *f = *state;
    own_json json_t *o = NULL;

    f->exec = goes_after_output;
    o = fake_fails(f, "exec_bash", "{\"command\":\"x\"}", "gone", "ended before the command did");
    assert_json(o, "stdout", json_string("begun\n"));
    assert_int_equal(f->execs, 1);
}

/* ---- progress ----------------------------------------------------------------------- */

static int detaches(struct fake *f, const struct exec_req *req, const struct sink *sink,
                    struct exec_result *out, struct err *e)
{
    (void)f;
    (void)e;
    assert_int_equal(req->id.len, 16);
    assert_int_equal(req->window_ms, 10000);
    say(sink, STREAM_OUT, S("one\n"));
    say(sink, STREAM_ERR, S("warning"));
    (void)nanosleep(&(struct timespec){.tv_sec = 1, .tv_nsec = 50000000}, NULL);
    *out = (struct exec_result){.end = EXEC_RUNNING};
    return 0;
}

static int goes_on(struct fake *f, struct str id, uint64_t from_out, uint64_t from_err,
                   const struct sink *sink, struct exec_result *out, struct err *e)
{
    (void)e;
    assert_int_equal(id.len, 16);
    assert_int_equal(from_err, 7);
    if (f->attaches == 1) {
        assert_int_equal(from_out, 4);
        sink->lost(sink->arg, STREAM_OUT, 100);
        *out = (struct exec_result){.end = EXEC_RUNNING};
        return 0;
    }
    assert_int_equal(from_out, 104);
    say(sink, STREAM_OUT, S("two\n"));
    *out = (struct exec_result){.end = EXEC_EXITED, .wall_ms = 20000};
    return 0;
}

static void who_asked_for_progress_is_served_in_slices(void **state)
{
    struct fake *f = *state;
    own_json json_t *o = NULL;

    f->exec = detaches;
    f->attach = goes_on;
    f->wants_progress = true;
    o = fake_ok(f, "exec_bash", "{\"command\":\"x\"}");
    assert_json(o, "exit_code", json_integer(0));
    assert_non_null(strstr(json_string_value(js_get(o, "stdout")), "one\n"));
    assert_non_null(strstr(json_string_value(js_get(o, "stdout")), "100 bytes lost"));
    assert_non_null(strstr(json_string_value(js_get(o, "stdout")), "two\n"));
    assert_json(o, "stderr", json_string("warning"));
    assert_int_equal(f->attaches, 2);
    assert_int_equal(f->n_progress, 1); /* not more often than once a second */
    assert_string_equal(f->progress[0], "1 s, 1 line: warning");
}

static int cancels(struct fake *f, const struct exec_req *req, const struct sink *sink,
                   struct exec_result *out, struct err *e)
{
    (void)req;
    (void)sink;
    (void)e;
    cancel_fire(f->cancel);
    *out = (struct exec_result){.end = EXEC_RUNNING};
    return 0;
}

static void a_cancel_between_slices_kills_the_command(void **state)
{
    struct fake *f = *state;
    struct cancel cancel;
    struct err e = {0};

    f->exec = cancels;
    f->wants_progress = true;
    json_decref(fake_ok(f, "create_sandbox", "{\"name\":\"a\"}"));
    assert_ok(cancel_init(&cancel, &e), &e);
    f->cancel = &cancel;
    json_decref(fake_fails(f, "exec_bash", "{\"command\":\"x\"}", "cancelled", ""));
    assert_int_equal(f->kills, 1);
    cancel_fini(&cancel);
}

static int loses_the_task(struct fake *f, struct str id, uint64_t from_out, uint64_t from_err,
                          const struct sink *sink, struct exec_result *out, struct err *e)
{
    (void)f;
    (void)id;
    (void)from_out;
    (void)from_err;
    (void)sink;
    (void)out;
    return err_set(e, ERR_NOT_FOUND, "no such task");
}

static void a_task_that_cannot_be_found_again_is_a_lost_command(void **state)
{
    struct fake *f = *state;
    own_json json_t *o = NULL;

    f->exec = detaches;
    f->attach = loses_the_task;
    f->wants_progress = true;
    o = fake_fails(f, "exec_bash", "{\"command\":\"x\"}", "not_found", "no such task");
    assert_json(o, "connection_error", json_true());
    assert_json(o, "stdout", json_string("one\n"));
    assert_int_equal(f->execs, 1);
}

int main(void)
{
    const struct CMUnitTest all[] = {
        FAKE_TEST(a_command_is_answered_with_all_fields),
        FAKE_TEST(the_request_is_what_was_asked_for),
        FAKE_TEST(a_timeout_is_124_and_says_so),
        FAKE_TEST(a_signal_is_named_and_memory_told),
        FAKE_TEST(a_lost_connection_is_flagged_with_what_came_so_far),
        FAKE_TEST(a_box_that_ends_under_a_command_is_told_with_its_reason),
        FAKE_TEST(what_did_not_start_is_an_error),
        FAKE_TEST(a_command_of_a_mebibyte_is_taken_and_more_is_not),
        FAKE_TEST(long_output_is_cut_and_readable_whole),
        FAKE_TEST(a_kept_output_is_its_owners),
        FAKE_TEST(however_much_is_asked_for_the_answer_fits),
        FAKE_TEST(a_default_box_that_ended_is_made_again),
        FAKE_TEST(a_named_box_that_ended_is_not_replaced),
        FAKE_TEST(a_command_that_began_is_never_run_again),
        FAKE_TEST(who_asked_for_progress_is_served_in_slices),
        FAKE_TEST(a_cancel_between_slices_kills_the_command),
        FAKE_TEST(a_task_that_cannot_be_found_again_is_a_lost_command),
    };

    return cmocka_run_group_tests(all, NULL, NULL);
}
