#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/duplex.h"
#include "test.h"

struct ends {
    int near[2], far[2]; /* [0] is the program's, [1] the duplex's */
    struct duplex d;
};

static void ends_open(struct ends *x)
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, x->near), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, x->far), 0);
    duplex_init(&x->d, x->near[1], x->far[1]);
}

static void ends_close(struct ends *x)
{
    duplex_fini(&x->d);
    for (int i = 0; i < 2; i++) {
        (void)close(x->near[i]);
        (void)close(x->far[i]);
    }
}

/* As long as something can be done at once. False: there is nothing left to do at all. */
static bool run(struct ends *x)
{
    struct pollfd fds[2];

    while (duplex_wants(&x->d, fds)) {
        if (poll(fds, 2, 0) == 0) {
            return true;
        }
        (void)duplex_move(&x->d, fds);
    }
    return false;
}

static void hear(int fd, const char *want)
{
    char got[64] = "";

    assert_int_equal(recv(fd, got, sizeof(got) - 1, MSG_DONTWAIT), strlen(want));
    assert_string_equal(got, want);
}

static void say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

static void carries_both_ways_and_each_end(void **state)
{
    struct ends x;
    (void)state;
    ends_open(&x);
    say(x.near[0], "question");
    (void)shutdown(x.near[0], SHUT_WR);
    assert_true(run(&x));
    hear(x.far[0], "question");
    hear(x.far[0], "");
    say(x.far[0], "answer");
    assert_true(run(&x));
    hear(x.near[0], "answer");
    assert_int_equal(duplex_wait_ms(&x.d), -1);
    (void)shutdown(x.far[0], SHUT_WR);
    assert_false(run(&x));
    hear(x.near[0], "");
    ends_close(&x);
}

static void one_that_left_is_heard_to_its_end(void **state)
{
    struct ends x;
    (void)state;
    ends_open(&x);
    say(x.near[0], "last words");
    (void)close(x.near[0]);
    x.near[0] = -1;
    assert_false(run(&x));
    hear(x.far[0], "last words");
    ends_close(&x);
}

static void one_that_left_is_not_waited_for_without_an_end(void **state)
{
    struct ends x;
    char many[4096] = "";
    (void)state;
    ends_open(&x);
    while (send(x.near[0], many, sizeof(many), MSG_DONTWAIT | MSG_NOSIGNAL) > 0 || run(&x)) {
        if (errno == EAGAIN && !run(&x)) {
            break;
        }
        struct pollfd fds[2];
        assert_true(duplex_wants(&x.d, fds));
        if (fds[0].events == 0) {
            break; /* it is full: nobody reads at the far end */
        }
    }
    (void)close(x.near[0]);
    x.near[0] = -1;
    assert_true(run(&x));
    assert_true(duplex_wait_ms(&x.d) > 0);
    /* And the closed one does not keep us awake. */
    struct pollfd fds[2];
    assert_true(duplex_wants(&x.d, fds));
    assert_int_equal(fds[0].fd, -1);
    ends_close(&x);
}

static void what_nobody_takes_is_dropped(void **state)
{
    struct ends x;
    (void)state;
    ends_open(&x);
    (void)close(x.far[0]);
    x.far[0] = -1;
    say(x.near[0], "hello?");
    assert_false(run(&x));
    ends_close(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(carries_both_ways_and_each_end),
        cmocka_unit_test(one_that_left_is_heard_to_its_end),
        cmocka_unit_test(one_that_left_is_not_waited_for_without_an_end),
        cmocka_unit_test(what_nobody_takes_is_dropped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
