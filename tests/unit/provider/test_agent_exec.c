/* Commands over the agent's protocol, against scripted agents. */
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "fake_agent.h"
#include "provider/talk.h"
#include "test.h"

struct fixture {
    struct fake_agent fake;
    struct arena arena;
    struct cancel cancel;
    struct ctx ctx;
    struct buf got[2];
    uint64_t lost[2];
    int sink_fails; /* fail at this call (from 1); 0: never */
    int sink_calls;
    struct sink sink;
    struct exec_result result;
    struct err e;
};

static int sink_write(void *arg, enum stream from, struct str bytes, struct err *e)
{
    struct fixture *fx = arg;
    if (++fx->sink_calls == fx->sink_fails) {
        return err_set(e, ERR_LIMIT, "the sink is full");
    }
    buf_add(&fx->got[from], bytes);
    return 0;
}

static void sink_lost(void *arg, enum stream from, uint64_t n)
{
    struct fixture *fx = arg;
    fx->lost[from] += n;
}

static int setup(void **state)
{
    struct fixture *fx = calloc(1, sizeof *fx);
    fake_init(&fx->fake);
    arena_init(&fx->arena, 16u << 20);
    assert_ok(cancel_init(&fx->cancel, &fx->e), &fx->e);
    fx->ctx = (struct ctx){.arena = &fx->arena, .cancel = &fx->cancel};
    buf_init(&fx->got[0], 1u << 20);
    buf_init(&fx->got[1], 1u << 20);
    fx->sink = (struct sink){.write = sink_write, .lost = sink_lost, .arg = fx};
    *state = fx;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fx = *state;
    fake_fini(&fx->fake);
    arena_fini(&fx->arena);
    cancel_fini(&fx->cancel);
    buf_fini(&fx->got[0]);
    buf_fini(&fx->got[1]);
    free(fx);
    return 0;
}

static int run_req(struct fixture *fx, const struct exec_req *req)
{
    return agent_exec(&fx->fake.agent.box, &fx->ctx, req, &fx->sink, &fx->result, &fx->e);
}

static int run(struct fixture *fx)
{
    return run_req(fx, &(struct exec_req){.id = S("t1"), .command = S("true")});
}

/* ---- the plain way ----------------------------------------------------------------------- */

static void test_output_and_end(void **state)
{
    struct fixture *fx = *state;
    fake_hello(&fx->fake, 0);
    fake_hear(&fx->fake, 0, FRAME_EXEC);
    fake_started(&fx->fake, 0);
    fake_data(&fx->fake, 0, 0, 0, S("hello "));
    fake_data(&fx->fake, 0, 1, 0, S("oops"));
    fake_data(&fx->fake, 0, 0, 6, S("world"));
    fx->fake.limits = LIMITED_PIDS | LIMITED_MEMORY;
    fake_ended(&fx->fake, 0, END_EXITED, 3, 11, 4);

    assert_ok(run(fx), &fx->e);
    assert_str(buf_str(&fx->got[0]), S("hello world"));
    assert_str(buf_str(&fx->got[1]), S("oops"));
    assert_int_equal(fx->result.end, EXEC_EXITED);
    assert_int_equal(fx->result.code, 3);
    assert_int_equal(fx->result.oom, KNOWN_NO);
    assert_int_equal(fx->result.limits_hit, LIMIT_PIDS | LIMIT_MEMORY);
    assert_int_equal(fx->result.wall_ms, 12);
    assert_int_equal(fx->result.out_bytes, 11);
    assert_int_equal(fx->lost[0] + fx->lost[1], 0);
}

static void test_request(void **state)
{
    struct fixture *fx = *state;
    fake_hear(&fx->fake, 0, FRAME_EXEC);
    fake_hello(&fx->fake, 0);
    fake_started(&fx->fake, 0);
    fake_ended(&fx->fake, 0, END_SIGNALED, 9, 0, 0);
    const struct str env[] = {S("A=1"), S("B=")};
    const struct exec_req req = {.id = S("task-7"),
                                 .shell = SHELL_BASH,
                                 .command = S("echo \"$A\""),
                                 .cwd = S("~/x"),
                                 .env = env,
                                 .n_env = 2,
                                 .timeout_ms = 1500};
    assert_ok(run_req(fx, &req), &fx->e);
    assert_int_equal(fx->result.end, EXEC_SIGNALED);
    assert_int_equal(fx->result.code, 9);
    fake_join(&fx->fake);

    struct frame f;
    assert_true(fake_heard(&fx->fake, 0, FRAME_EXEC, 0, &f));
    struct wire_in r = wire_read(f.fields);
    const struct str *list = NULL;
    assert_str(wire_get_str(&r), S("task-7"));
    assert_int_equal(wire_get_list(&r, &fx->arena, ARGV_MAX, &list), 3);
    assert_str(list[0], S("bash"));
    assert_str(list[1], S("-c"));
    assert_str(list[2], S("echo \"$A\""));
    assert_str(wire_get_str(&r), S("~/x"));
    assert_int_equal(wire_get_list(&r, &fx->arena, ENV_MAX, &list), 2);
    assert_str(list[1], S("B="));
    assert_int_equal(wire_get_u8(&r), 0);
    assert_int_equal(wire_get_u64(&r), 1500);
    assert_int_equal(wire_get_u32(&r), KILL_GRACE_MS);
    assert_true(wire_done(&r));
}

static void test_byte_by_byte(void **state)
{
    struct fixture *fx = *state;
    fake_hello(&fx->fake, 0);
    fake_started(&fx->fake, 0);
    fake_data(&fx->fake, 0, 0, 0, S("drop by drop"));
    fake_ended(&fx->fake, 0, END_EXITED, 0, 12, 0);
    for (size_t i = 0; i < fx->fake.connections[0].n_steps; i++) {
        fx->fake.connections[0].steps[i].what = FAKE_TRICKLE;
    }
    assert_ok(run(fx), &fx->e);
    assert_str(buf_str(&fx->got[0]), S("drop by drop"));
}

static void test_many_large_frames(void **state)
{
    struct fixture *fx = *state;
    static char block[DATA_MAX];
    memset(block, 'x', sizeof block);
    fake_hello(&fx->fake, 0);
    fake_started(&fx->fake, 0);
    for (uint64_t i = 0; i < 10; i++) {
        fake_data(&fx->fake, 0, 0, i * DATA_MAX, (struct str){block, DATA_MAX});
    }
    fake_ended(&fx->fake, 0, END_EXITED, 0, 10 * DATA_MAX, 0);
    assert_ok(run(fx), &fx->e);
    assert_int_equal(fx->got[0].len, 10 * DATA_MAX);
}

/* ---- lost output --------------------------------------------------------------------------- */

static void test_gap(void **state)
{
    struct fixture *fx = *state;
    fake_hello(&fx->fake, 0);
    fake_started(&fx->fake, 0);
    fake_data(&fx->fake, 0, 0, 0, S("head"));
    fake_data(&fx->fake, 0, 0, 100, S("tail"));
    fake_ended(&fx->fake, 0, END_EXITED, 0, 110, 7);
    assert_ok(run(fx), &fx->e);
    assert_str(buf_str(&fx->got[0]), S("headtail"));
    assert_int_equal(fx->lost[0], 96 + 6);
    assert_int_equal(fx->lost[1], 7);
    assert_int_equal(fx->result.out_bytes, 110);
}

static void test_offset_that_goes_back(void **state)
{
    struct fixture *fx = *state;
    fake_hello(&fx->fake, 0);
    fake_started(&fx->fake, 0);
    fake_data(&fx->fake, 0, 0, 10, S("later"));
    fake_data(&fx->fake, 0, 0, 3, S("earlier"));
    fake_add(&fx->fake, 0, FAKE_LISTEN);
    assert_fails(run(fx), &fx->e, ERR_PROTOCOL, "output");
}

/* ---- agents that are wrong or gone ----------------------------------------------------------- */

static void test_other_versions(void **state)
{
    struct fixture *fx = *state;
    char versions[32];
    snprintf(versions, sizeof versions, "%d to %d", AGENT_VERSION + 2, AGENT_VERSION + 5);
    fake_hello_of(&fx->fake, 0, AGENT_VERSION + 5, AGENT_VERSION + 2);
    fake_hello_of(&fx->fake, 1, AGENT_VERSION + 5, AGENT_VERSION);
    fake_started(&fx->fake, 1);
    fake_ended(&fx->fake, 1, END_EXITED, 0, 0, 0);
    fake_hello_of(&fx->fake, 2, AGENT_LOWEST, AGENT_LOWEST);
    fake_started(&fx->fake, 2);
    fake_ended(&fx->fake, 2, END_EXITED, 0, 0, 0);
    assert_fails(run(fx), &fx->e, ERR_UNSUPPORTED, versions);
    assert_ok(run(fx), &fx->e);
    assert_ok(run(fx), &fx->e);
}

static void test_fail_before_and_after_start(void **state)
{
    struct fixture *fx = *state;
    fake_hello(&fx->fake, 0);
    fake_fail(&fx->fake, 0, ERR_NOT_FOUND, "no such folder: \x1b[31m/nowhere\n\x01");
    fake_hello(&fx->fake, 1);
    fake_started(&fx->fake, 1);
    fake_fail(&fx->fake, 1, ERR_CANCELLED, "not its to say");
    fake_fail(&fx->fake, 2, ERR_LIMIT, "too many connections");

    assert_fails(run(fx), &fx->e, ERR_NOT_FOUND, "no such folder: /nowhere");
    assert_null(strchr(fx->e.msg, '\x1b'));
    assert_null(strchr(fx->e.msg, '\n'));
    assert_fails(run(fx), &fx->e, ERR_PROTOCOL, "not its to say");
    assert_fails(run(fx), &fx->e, ERR_LIMIT, "too many connections");
}

/* After each of them connections are opened until one greets, to be told why. */
static void test_early_end(void **state)
{
    struct fixture *fx = *state;
    fake_hear(&fx->fake, 0, FRAME_EXEC);
    fake_hello(&fx->fake, 1);
    fake_hello(&fx->fake, 2);
    fake_hear(&fx->fake, 2, FRAME_EXEC);
    fake_hello(&fx->fake, 3);
    fake_hello(&fx->fake, 4);
    fake_started(&fx->fake, 4);
    fake_data(&fx->fake, 4, 0, 0, S("so far"));
    fake_hello(&fx->fake, 6);

    /* The request was sent: nobody may run it again elsewhere. */
    assert_fails(run(fx), &fx->e, ERR_UNREACHABLE, "which may have run");
    assert_fails(run(fx), &fx->e, ERR_UNREACHABLE, "which may have run");
    assert_fails(run(fx), &fx->e, ERR_UNREACHABLE, "ended while the command ran");
    assert_string_equal(fx->e.msg, "the connection to the sandbox ended while the command ran");
    assert_str(buf_str(&fx->got[0]), S("so far"));
}

static int connect_to_nobody(struct box *b, const struct ctx *ctx, struct err *e)
{
    (void)b, (void)ctx;
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
        return err_sys(e, errno, "socketpair");
    }
    (void)close(ends[1]);
    return ends[0];
}

/* Of the request nothing was sent: it may be tried in another box. */
static void test_end_before_the_request(void **state)
{
    struct fixture *fx = *state;
    fx->fake.agent.connect = connect_to_nobody;
    assert_fails(run(fx), &fx->e, ERR_GONE, "before the command started");
}

/* The first connection is the script's; by the second one the box has ended. */
static int (*scripted_connect)(struct box *b, const struct ctx *ctx, struct err *e);

static int say_gone(struct box *b, const struct ctx *ctx, struct err *e)
{
    (void)b, (void)ctx;
    return err_set(e, ERR_GONE, "it has ended: its lifetime of 5 s was over");
}

static int connect_once(struct box *b, const struct ctx *ctx, struct err *e)
{
    CONTAINER_OF(b, struct agent_box, box)->connect = say_gone;
    return scripted_connect(b, ctx, e);
}

static void test_end_with_a_reason(void **state)
{
    struct fixture *fx = *state;
    fake_hello(&fx->fake, 0);
    fake_started(&fx->fake, 0);
    scripted_connect = fx->fake.agent.connect;
    fx->fake.agent.connect = connect_once;
    assert_fails(run(fx), &fx->e, ERR_UNREACHABLE,
                 "while the command ran: it has ended: its lifetime of 5 s was over");
}

static void test_garbage(void **state)
{
    const struct str garbage[] = {
        S("\x00\x00\x00\x00\x40"),         /* length 0 */
        S("\xff\xff\xff\xff\x40\x01\x02"), /* 4 GiB */
        S("\x00\x00\x10\x00\x40"),         /* 1 MiB: legal on the wire, not for us */
        S("\x01\x00\x00\x00\x48"),         /* OK instead of HELLO */
    };
    struct fixture *fx = *state;
    static char filler[DATA_MAX + 8192];
    for (size_t i = 0; i < COUNTOF(garbage); i++) {
        fake_raw(&fx->fake, i, garbage[i]);
        fake_raw(&fx->fake, i, (struct str){filler, sizeof filler});
        fake_add(&fx->fake, i, FAKE_LISTEN);
    }
    for (size_t i = 0; i < COUNTOF(garbage); i++) {
        assert_true(run(fx) < 0);
        assert_int_equal(fx->e.kind, ERR_PROTOCOL);
    }
}

static void test_frames_in_the_wrong_place(void **state)
{
    struct fixture *fx = *state;
    fake_hello(&fx->fake, 0);
    fake_data(&fx->fake, 0, 0, 0, S("before STARTED"));
    fake_hello(&fx->fake, 1);
    fake_started(&fx->fake, 1);
    fake_started(&fx->fake, 1);
    fake_hello(&fx->fake, 2);
    fake_started(&fx->fake, 2);
    fake_data(&fx->fake, 2, 2, 0, S("stream 2"));
    fake_hello(&fx->fake, 3);
    fake_started(&fx->fake, 3);
    fake_ended(&fx->fake, 3, 2, 0, 0, 0);
    for (size_t i = 0; i < 4; i++) {
        fake_add(&fx->fake, i, FAKE_LISTEN);
        assert_fails(run(fx), &fx->e, ERR_PROTOCOL, "its agent");
    }
    assert_int_equal(fx->got[0].len, 0);
}

/* ---- input ------------------------------------------------------------------------------------- */

struct memory {
    struct str left;
};

static ssize_t memory_read(void *arg, char *to, size_t cap, struct err *e)
{
    (void)e;
    struct memory *m = arg;
    size_t n = m->left.len < cap ? m->left.len : cap;
    memcpy(to, m->left.p, n);
    m->left = str_skip(m->left, n);
    return (ssize_t)n;
}

/* All INPUT frames of connection 0, joined; the last must be empty. */
static void collect_input(struct fixture *fx, struct buf *out)
{
    struct frame f;
    bool ended = false;
    for (size_t i = 0; fake_heard(&fx->fake, 0, FRAME_INPUT, i, &f); i++) {
        struct wire_in r = wire_read(f.fields);
        struct str bytes = wire_get_str(&r);
        assert_true(wire_done(&r));
        assert_false(ended);
        assert_true(bytes.len <= DATA_MAX);
        ended = bytes.len == 0;
        buf_add(out, bytes);
    }
    assert_true(ended);
}

static void test_large_input(void **state)
{
    struct fixture *fx = *state;
    size_t size = 3u << 20;
    char *bytes = malloc(size);
    for (size_t i = 0; i < size; i++) {
        bytes[i] = (char)(i * 31 >> 3);
    }
    struct memory memory = {{bytes, size}};
    struct source source = {.read = memory_read, .arg = &memory, .fd = -1};
    fake_hello(&fx->fake, 0);
    fake_hear(&fx->fake, 0, FRAME_EXEC);
    fake_started(&fx->fake, 0);
    fake_add(&fx->fake, 0, FAKE_SLEEP)->ms = 50; /* the socket fills up */
    for (int i = 0; i < 20; i++) {
        fake_hear(&fx->fake, 0, FRAME_INPUT);
    }
    fake_data(&fx->fake, 0, 0, 0, S("reading"));
    fake_add(&fx->fake, 0, FAKE_LISTEN);
    /* The script never says ENDED: a window ends the call once all was sent. */
    const struct exec_req req = {
        .id = S("t"), .command = S("cat"), .input = &source, .window_ms = 1500};
    assert_ok(run_req(fx, &req), &fx->e);
    assert_int_equal(fx->result.end, EXEC_RUNNING);
    assert_str(buf_str(&fx->got[0]), S("reading"));
    fake_join(&fx->fake);
    struct buf all own_buf = {0};
    buf_init(&all, size + 1);
    collect_input(fx, &all);
    assert_int_equal(all.len, size);
    assert_memory_equal(all.p, bytes, size);
    free(bytes);
}

static ssize_t fd_source_read(void *arg, char *to, size_t cap, struct err *e)
{
    (void)e;
    return read(*(int *)arg, to, cap);
}

static void write_and_close(void *arg)
{
    int fd = *(int *)arg;
    assert_int_equal(write(fd, "typed", 5), 5);
    (void)close(fd);
}

static void test_input_from_a_descriptor(void **state)
{
    struct fixture *fx = *state;
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    struct source source = {.read = fd_source_read, .arg = &ends[0], .fd = ends[0]};
    fake_hello(&fx->fake, 0);
    fake_hear(&fx->fake, 0, FRAME_EXEC);
    fake_started(&fx->fake, 0);
    struct fake_step *step = fake_add(&fx->fake, 0, FAKE_CALL);
    step->call = write_and_close;
    step->arg = &ends[1];
    fake_hear(&fx->fake, 0, FRAME_INPUT);
    fake_hear(&fx->fake, 0, FRAME_INPUT);
    fake_ended(&fx->fake, 0, END_EXITED, 0, 0, 0);
    const struct exec_req req = {.id = S("t"), .command = S("cat"), .input = &source};
    assert_ok(run_req(fx, &req), &fx->e);
    fake_join(&fx->fake);
    struct buf all own_buf = {0};
    buf_init(&all, 100);
    collect_input(fx, &all);
    assert_str(buf_str(&all), S("typed"));
    (void)close(ends[0]);
}

static ssize_t failing_read(void *arg, char *to, size_t cap, struct err *e)
{
    (void)arg, (void)to, (void)cap;
    return err_set(e, ERR_SYSTEM, "the source broke");
}

static void test_failing_source_kills(void **state)
{
    struct fixture *fx = *state;
    struct source source = {.read = failing_read, .fd = -1};
    fake_hello(&fx->fake, 0);
    fake_add(&fx->fake, 0, FAKE_LISTEN);
    fake_hello(&fx->fake, 1);
    fake_hear(&fx->fake, 1, FRAME_KILL);
    fake_ok(&fx->fake, 1, 0);
    const struct exec_req req = {.id = S("t"), .command = S("cat"), .input = &source};
    assert_fails(run_req(fx, &req), &fx->e, ERR_SYSTEM, "the source broke");
    fake_join(&fx->fake);
    struct frame f;
    assert_true(fake_heard(&fx->fake, 1, FRAME_KILL, 0, &f));
}

/* ---- leaving and killing -------------------------------------------------------------------------- */

static void test_window_detaches(void **state)
{
    struct fixture *fx = *state;
    fake_hello(&fx->fake, 0);
    fake_started(&fx->fake, 0);
    fake_data(&fx->fake, 0, 0, 0, S("12345"));
    fake_hear(&fx->fake, 0, FRAME_DETACH);
    const struct exec_req req = {.id = S("t"), .command = S("sleep 9"), .window_ms = 60};
    assert_ok(run_req(fx, &req), &fx->e);
    assert_int_equal(fx->result.end, EXEC_RUNNING);
    assert_int_equal(fx->result.out_bytes, 5);
    assert_true(fx->result.wall_ms >= 60);
    fake_join(&fx->fake);
    struct frame f;
    assert_true(fake_heard(&fx->fake, 0, FRAME_DETACH, 0, &f));
    assert_false(fake_heard(&fx->fake, 0, FRAME_KILL, 0, &f));
}

static void test_end_that_crosses_the_detach(void **state)
{
    struct fixture *fx = *state;
    fake_hello(&fx->fake, 0);
    fake_started(&fx->fake, 0);
    fake_hear(&fx->fake, 0, FRAME_DETACH);
    fake_data(&fx->fake, 0, 0, 0, S("just in time"));
    fake_ended(&fx->fake, 0, END_EXITED, 4, 12, 0);
    const struct exec_req req = {.id = S("t"), .command = S("x"), .window_ms = 40};
    assert_ok(run_req(fx, &req), &fx->e);
    assert_int_equal(fx->result.end, EXEC_EXITED);
    assert_int_equal(fx->result.code, 4);
    assert_str(buf_str(&fx->got[0]), S("just in time"));
}

static void fire(void *arg)
{
    cancel_fire(arg);
}

static void test_cancel_kills_and_waits(void **state)
{
    struct fixture *fx = *state;
    fake_hello(&fx->fake, 0);
    fake_started(&fx->fake, 0);
    struct fake_step *step = fake_add(&fx->fake, 0, FAKE_CALL);
    step->call = fire;
    step->arg = &fx->cancel;
    fake_hear(&fx->fake, 0, FRAME_KILL);
    fake_data(&fx->fake, 0, 0, 0, S("last words"));
    fake_ended(&fx->fake, 0, END_SIGNALED, 15, 10, 0);
    assert_fails(run(fx), &fx->e, ERR_CANCELLED, "");
    assert_str(buf_str(&fx->got[0]), S("last words"));
    fake_join(&fx->fake);
    struct frame f;
    assert_true(fake_heard(&fx->fake, 0, FRAME_KILL, 0, &f));
    struct wire_in r = wire_read(f.fields);
    assert_str(wire_get_str(&r), S("t1"));
    assert_int_equal(wire_get_u32(&r), 500);
}

static void test_deadline_with_a_deaf_agent(void **state)
{
    struct fixture *fx = *state;
    fake_hello(&fx->fake, 0);
    fake_started(&fx->fake, 0);
    fake_add(&fx->fake, 0, FAKE_LISTEN);
    int64_t began_ms = clock_mono_ms();
    fx->ctx.deadline_ms = began_ms + 50;
    assert_fails(run(fx), &fx->e, ERR_TIMEOUT, "");
    int64_t took_ms = clock_mono_ms() - began_ms;
    assert_true(took_ms >= 50 && took_ms < 30000);
}

static void test_failing_sink_kills(void **state)
{
    struct fixture *fx = *state;
    fx->sink_fails = 2;
    fake_hello(&fx->fake, 0);
    fake_started(&fx->fake, 0);
    fake_data(&fx->fake, 0, 0, 0, S("one"));
    fake_data(&fx->fake, 0, 0, 3, S("two"));
    fake_hear(&fx->fake, 0, FRAME_KILL);
    fake_data(&fx->fake, 0, 0, 6, S("three"));
    fake_ended(&fx->fake, 0, END_SIGNALED, 15, 11, 0);
    assert_fails(run(fx), &fx->e, ERR_LIMIT, "the sink is full");
    assert_string_equal(fx->e.msg, "the sink is full");
    assert_int_equal(fx->sink_calls, 2);
    fake_join(&fx->fake);
    struct frame f;
    assert_true(fake_heard(&fx->fake, 0, FRAME_KILL, 0, &f));
}

/* ---- long commands and bad requests ------------------------------------------------------------------ */

static void test_long_command_goes_by_a_file(void **state)
{
    struct fixture *fx = *state;
    size_t size = 1u << 20;
    char *text = malloc(size);
    memset(text, '#', size);
    fake_hello(&fx->fake, 0);
    fake_hear(&fx->fake, 0, FRAME_WRITE);
    for (size_t i = 0; i < 4; i++) {
        fake_hear(&fx->fake, 0, FRAME_CHUNK);
    }
    fake_add(&fx->fake, 0, FAKE_SLEEP)->ms = 30;
    fake_entry(&fx->fake, 0, "/tmp/x", ENTRY_FILE, size);
    fake_add(&fx->fake, 0, FAKE_LISTEN);
    fake_hello(&fx->fake, 1);
    fake_hear(&fx->fake, 1, FRAME_EXEC);
    fake_started(&fx->fake, 1);
    fake_ended(&fx->fake, 1, END_EXITED, 0, 0, 0);
    const struct exec_req req = {.id = S("t"), .command = {text, size}};
    assert_ok(run_req(fx, &req), &fx->e);
    fake_join(&fx->fake);

    struct frame f;
    assert_true(fake_heard(&fx->fake, 0, FRAME_WRITE, 0, &f));
    struct wire_in r = wire_read(f.fields);
    struct str path = wire_get_str(&r);
    assert_true(str_starts(path, S("/tmp/.anybox-")));
    assert_int_equal(wire_get_u32(&r), 0600);
    assert_true(fake_heard(&fx->fake, 0, FRAME_CHUNK, 0, &f));
    r = wire_read(f.fields);
    assert_true(str_starts(wire_get_str(&r), S("command rm -f -- /tmp/.anybox-")));
    assert_true(fake_heard(&fx->fake, 1, FRAME_EXEC, 0, &f));
    r = wire_read(f.fields);
    (void)wire_get_str(&r);
    const struct str *argv = NULL;
    assert_int_equal(wire_get_list(&r, &fx->arena, ARGV_MAX, &argv), 3);
    assert_str(argv[0], S("bash"));
    assert_str(str_skip(argv[2], 2), path);
    free(text);
}

static void test_failed_long_command_removes_its_file(void **state)
{
    struct fixture *fx = *state;
    size_t size = 200u << 10;
    char *text = calloc(1, size);
    memset(text, ' ', size);
    fake_hello(&fx->fake, 0);
    fake_hear(&fx->fake, 0, FRAME_CHUNK);
    fake_entry(&fx->fake, 0, "/tmp/x", ENTRY_FILE, size);
    fake_add(&fx->fake, 0, FAKE_LISTEN);
    fake_hello(&fx->fake, 1);
    fake_fail(&fx->fake, 1, ERR_NOT_FOUND, "no such folder");
    fake_hello(&fx->fake, 2);
    fake_hear(&fx->fake, 2, FRAME_REMOVE);
    fake_ok(&fx->fake, 2, 0);
    const struct exec_req req = {.id = S("t"), .command = {text, size}, .cwd = S("/nowhere")};
    assert_fails(run_req(fx, &req), &fx->e, ERR_NOT_FOUND, "no such folder");
    fake_join(&fx->fake);
    struct frame f;
    assert_true(fake_heard(&fx->fake, 2, FRAME_REMOVE, 0, &f));
    free(text);
}

static void test_bad_requests_reach_nobody(void **state)
{
    struct fixture *fx = *state;
    const struct str no_equals[] = {S("PATH")};
    const struct str no_name[] = {S("=x")};
    const struct str nul[] = {S("A=\0b")};
    static char huge[DATA_MAX * 3];
    memset(huge, 'a', sizeof huge);
    const struct str long_word[] = {S("echo"), {huge, sizeof huge}};
    const struct exec_req bad[] = {
        {.command = S("true"), .env = no_equals, .n_env = 1},
        {.command = S("true"), .env = no_name, .n_env = 1},
        {.command = S("true"), .env = nul, .n_env = 1},
        {.command = S("true\0x")},
        {.command = S("true"), .cwd = S("/a\0b")},
        {.command = S("true"), .timeout_ms = -1},
        {.command = S("true"), .id = {huge, 65}},
        {.shell = SHELL_NONE},
        {.shell = SHELL_NONE, .argv = long_word, .n_argv = 2},
    };
    for (size_t i = 0; i < COUNTOF(bad); i++) {
        assert_true(run_req(fx, &bad[i]) < 0);
        assert_int_equal(fx->e.kind, ERR_INVALID);
        assert_true(strlen(fx->e.msg) > 10);
    }
    assert_int_equal(fx->fake.n_opened, 0);
}

/* ---- tasks ------------------------------------------------------------------------------------------- */

static void test_attach_continues(void **state)
{
    struct fixture *fx = *state;
    fake_hello(&fx->fake, 0);
    fake_hear(&fx->fake, 0, FRAME_ATTACH);
    fake_started(&fx->fake, 0);
    fake_data(&fx->fake, 0, 0, 1000, S("rest"));
    fake_ended(&fx->fake, 0, END_EXITED, 0, 1004, 20);
    struct attach_req req = {.id = S("t"), .from_out = 1000, .from_err = 20};
    assert_ok(tasks_over_agent.attach(&fx->fake.agent.box, &fx->ctx, &req, &fx->sink, &fx->result,
                                      &fx->e),
              &fx->e);
    assert_str(buf_str(&fx->got[0]), S("rest"));
    assert_int_equal(fx->lost[0] + fx->lost[1], 0);
}

static void say_task(struct fake_agent *f, size_t c, const char *id, uint8_t running)
{
    struct wire_out w = wire_begin(&fake_add(f, c, FAKE_SAY)->bytes, FRAME_TASK);
    wire_str(&w, str_from(id));
    wire_u8(&w, running);
    wire_u8(&w, END_EXITED);
    wire_u32(&w, running ? 0 : 5);
    wire_u8(&w, 0);
    wire_u8(&w, OOM_UNKNOWN);
    wire_u8(&w, LIMITED_DISK);
    wire_u64(&w, 1000);
    wire_u64(&w, 10);
    wire_u64(&w, 20);
    wire_u64(&w, 1700000000000);
    assert_true(wire_end(&w));
}

struct seen_tasks {
    struct task_state tasks[8];
    size_t n;
};

static int see_task(void *arg, const struct task_state *state, struct err *e)
{
    (void)e;
    struct seen_tasks *seen = arg;
    seen->tasks[seen->n++] = *state;
    return 0;
}

static void test_task_states(void **state)
{
    struct fixture *fx = *state;
    fake_hello(&fx->fake, 0);
    say_task(&fx->fake, 0, "a", 1);
    say_task(&fx->fake, 0, "b", 0);
    fake_ok(&fx->fake, 0, 0);
    fake_hello(&fx->fake, 1);
    say_task(&fx->fake, 1, "b", 0);
    struct seen_tasks seen = {0};
    struct box *box = &fx->fake.agent.box;
    assert_ok(tasks_over_agent.state(box, &fx->ctx, STR_EMPTY, see_task, &seen, &fx->e), &fx->e);
    assert_int_equal(seen.n, 2);
    assert_str(seen.tasks[0].id, S("a"));
    assert_int_equal(seen.tasks[0].result.end, EXEC_RUNNING);
    assert_int_equal(seen.tasks[1].result.code, 5);
    assert_int_equal(seen.tasks[1].result.oom, KNOWN_NOT);
    assert_int_equal(seen.tasks[1].result.limits_hit, LIMIT_DISK);
    assert_int_equal(seen.tasks[1].started_at, 1700000000);
    assert_ok(tasks_over_agent.state(box, &fx->ctx, S("b"), see_task, &seen, &fx->e), &fx->e);
    assert_int_equal(seen.n, 3);
}

static void test_task_kill(void **state)
{
    struct fixture *fx = *state;
    fake_hello(&fx->fake, 0);
    fake_hear(&fx->fake, 0, FRAME_KILL);
    fake_ok(&fx->fake, 0, 0);
    assert_ok(tasks_over_agent.kill(&fx->fake.agent.box, &fx->ctx, S("t"), 100, &fx->e), &fx->e);
    assert_fails(tasks_over_agent.kill(&fx->fake.agent.box, &fx->ctx, STR_EMPTY, 100, &fx->e),
                 &fx->e, ERR_INVALID, "task id");
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_output_and_end),
        T(test_request),
        T(test_byte_by_byte),
        T(test_many_large_frames),
        T(test_gap),
        T(test_offset_that_goes_back),
        T(test_other_versions),
        T(test_fail_before_and_after_start),
        T(test_early_end),
        T(test_end_before_the_request),
        T(test_end_with_a_reason),
        T(test_garbage),
        T(test_frames_in_the_wrong_place),
        T(test_large_input),
        T(test_input_from_a_descriptor),
        T(test_failing_source_kills),
        T(test_window_detaches),
        T(test_end_that_crosses_the_detach),
        T(test_cancel_kills_and_waits),
        T(test_deadline_with_a_deaf_agent),
        T(test_failing_sink_kills),
        T(test_long_command_goes_by_a_file),
        T(test_failed_long_command_removes_its_file),
        T(test_bad_requests_reach_nobody),
        T(test_attach_continues),
        T(test_task_states),
        T(test_task_kill),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
