/* A port of a box over the agent's protocol, against scripted agents. */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "fake_agent.h"
#include "test.h"

struct fixture {
    struct fake_agent fake;
    struct arena arena;
    struct ctx ctx;
    struct err e;
};

static int setup(void **state)
{
    struct fixture *fx = calloc(1, sizeof *fx);

    fake_init(&fx->fake);
    arena_init(&fx->arena, 16u << 20);
    fx->ctx = (struct ctx){.arena = &fx->arena, .deadline_ms = clock_mono_ms() + 10000};
    *state = fx;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fx = *state;

    fake_fini(&fx->fake);
    arena_fini(&fx->arena);
    free(fx);
    return 0;
}

static int dial(struct fixture *fx)
{
    return ports_over_agent.dial(&fx->fake.agent.box, &fx->ctx, 8080, &fx->e);
}

static void expect_bytes(int fd, const char *want)
{
    char got[64] = "";
    size_t len = 0;

    while (len < strlen(want)) {
        struct pollfd p = {.fd = fd, .events = POLLIN};

        assert_int_equal(poll(&p, 1, 5000), 1);
        ssize_t n = recv(fd, got + len, sizeof(got) - 1 - len, MSG_DONTWAIT);
        assert_true(n > 0);
        len += (size_t)n;
    }
    assert_string_equal(got, want);
}

static void the_first_words_of_the_port_are_not_ours(void **state)
{
    struct fixture *fx = *state;
    struct frame heard;
    struct buf all own_buf = {0};

    buf_init(&all, 4096);
    struct wire_out w = wire_begin(&all, FRAME_HELLO);
    wire_u32(&w, AGENT_VERSION);
    wire_u32(&w, AGENT_VERSION);
    assert_true(wire_end(&w));
    w = wire_begin(&all, FRAME_OK);
    wire_u8(&w, 0);
    assert_true(wire_end(&w));
    buf_add(&all, S("220 welcome"));
    fake_raw(&fx->fake, 0, buf_str(&all)); /* in one piece */
    fake_hear(&fx->fake, 0, FRAME_TCP);
    int fd own_fd = dial(fx);
    assert_ok(fd, &fx->e);
    expect_bytes(fd, "220 welcome");
    (void)shutdown(fd, SHUT_WR);
    fake_join(&fx->fake);
    assert_true(fake_heard(&fx->fake, 0, FRAME_TCP, 0, &heard));
    struct wire_in r = wire_read(heard.fields);
    assert_int_equal(wire_get_u32(&r), 8080);
    assert_true(wire_done(&r));
}

static void an_answer_may_come_byte_by_byte(void **state)
{
    struct fixture *fx = *state;
    struct fake_step *step;

    fake_hello(&fx->fake, 0);
    fake_hear(&fx->fake, 0, FRAME_TCP);
    fake_ok(&fx->fake, 0, 0);
    step = fake_add(&fx->fake, 0, FAKE_TRICKLE);
    buf_init(&step->bytes, 64);
    buf_add(&step->bytes, S("bytes"));
    int fd own_fd = dial(fx);
    assert_ok(fd, &fx->e);
    expect_bytes(fd, "bytes");
    fake_join(&fx->fake);
}

static void what_the_agent_refuses_is_told(void **state)
{
    struct fixture *fx = *state;

    fake_hello(&fx->fake, 0);
    fake_fail(&fx->fake, 0, ERR_NOT_FOUND, "nothing listens on port 8080");
    assert_fails(dial(fx), &fx->e, ERR_NOT_FOUND, "nothing listens");
}

static void an_agent_that_is_too_old_is_told(void **state)
{
    struct fixture *fx = *state;

    fake_hello_of(&fx->fake, 0, 1, 1);
    fake_fail(&fx->fake, 0, ERR_PROTOCOL, "unknown request 24");
    assert_fails(dial(fx), &fx->e, ERR_UNSUPPORTED, "older");
}

static void a_socket_is_dialled_by_its_path(void **state)
{
    struct fixture *fx = *state;
    struct frame heard;

    fake_hello(&fx->fake, 0);
    fake_hear(&fx->fake, 0, FRAME_UNIX);
    fake_ok(&fx->fake, 0, 0);
    int fd own_fd =
        ports_over_agent.dial_unix(&fx->fake.agent.box, &fx->ctx, S("~/.anybox/s"), &fx->e);
    assert_ok(fd, &fx->e);
    fake_join(&fx->fake);
    assert_true(fake_heard(&fx->fake, 0, FRAME_UNIX, 0, &heard));
    struct wire_in r = wire_read(heard.fields);
    assert_str(wire_get_str(&r), S("~/.anybox/s"));
    assert_true(wire_done(&r));
}

static void an_agent_without_sockets_is_told(void **state)
{
    struct fixture *fx = *state;

    fake_hello_of(&fx->fake, 0, AGENT_UNIX - 1, 1);
    fake_fail(&fx->fake, 0, ERR_PROTOCOL, "unknown request 25");
    assert_fails(ports_over_agent.dial_unix(&fx->fake.agent.box, &fx->ctx, S("/s"), &fx->e), &fx->e,
                 ERR_UNSUPPORTED, "older");
    assert_fails(ports_over_agent.dial_unix(&fx->fake.agent.box, &fx->ctx, STR_EMPTY, &fx->e),
                 &fx->e, ERR_INVALID, "path");
}

static void an_answer_that_is_none_is_refused(void **state)
{
    struct fixture *fx = *state;

    fake_hello(&fx->fake, 0);
    fake_chunk(&fx->fake, 0, S("x"));
    assert_fails(dial(fx), &fx->e, ERR_PROTOCOL, "an answer");
    fake_hello(&fx->fake, 1);
    fake_raw(&fx->fake, 1, S("\xff\xff\xff\x7f\x48"));
    assert_true(dial(fx) < 0);
    assert_int_equal(fx->e.kind, ERR_PROTOCOL);
}

int main(void)
{
#define WITH(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        WITH(the_first_words_of_the_port_are_not_ours), WITH(an_answer_may_come_byte_by_byte),
        WITH(what_the_agent_refuses_is_told),           WITH(an_agent_that_is_too_old_is_told),
        WITH(an_answer_that_is_none_is_refused),        WITH(a_socket_is_dialled_by_its_path),
        WITH(an_agent_without_sockets_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
