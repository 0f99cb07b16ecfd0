/* Forwards to a box whose port echoes, or is not there. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "base/thread.h"
#include "core/forward.h"
#include "provider/provider.h"
#include "test.h"

/* A box that is a thread with one end of each connection. */
struct echo_box {
    struct box box;
    struct provider provider;
    atomic_int dialled, released;
    atomic_bool gone, closed; /* it has ended; nothing listens */
    pthread_t threads[300];
};

static struct echo_box *echo_of(struct box *b)
{
    return (struct echo_box *)b;
}

static void *echo(void *arg)
{
    int fd own_fd = (int)(intptr_t)arg;
    char bytes[4096];

    for (;;) {
        ssize_t n = recv(fd, bytes, sizeof(bytes), 0);

        if (n <= 0 || send(fd, bytes, (size_t)n, MSG_NOSIGNAL) != n) {
            return NULL;
        }
    }
}

static int echo_dial(struct box *b, const struct ctx *ctx, uint16_t port, struct err *e)
{
    struct echo_box *x = echo_of(b);
    int fds[2];

    (void)ctx;
    if (atomic_load(&x->gone)) {
        return err_set(e, ERR_GONE, "it has ended: idle");
    }
    if (atomic_load(&x->closed)) {
        return err_set(e, ERR_NOT_FOUND, "nothing listens on port %u", port);
    }
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    (void)fcntl(fds[1], F_SETFL, 0);
    int n = atomic_fetch_add(&x->dialled, 1);
    assert_int_equal(pthread_create(&x->threads[n], NULL, echo, (void *)(intptr_t)fds[1]), 0);
    return fds[0];
}

static int echo_info(struct box *b, const struct ctx *ctx, struct box_info *out, struct err *e)
{
    (void)ctx;
    (void)e;
    *out = (struct box_info){.state = atomic_load(&echo_of(b)->gone) ? BOX_GONE : BOX_RUNNING,
                             .ended = S("idle")};
    return 0;
}

static void echo_release(struct box *b)
{
    atomic_fetch_add(&echo_of(b)->released, 1);
}

static const struct port_ops ports = {.dial = echo_dial};
static const struct factory_ops factory = {0};
static const struct provider_ops ops = {.type = "echo",
                                        .info = echo_info,
                                        .release = echo_release,
                                        .ports = &ports,
                                        .factory = &factory};
static const struct provider_ops without = {.type = "none", .release = echo_release};

struct fixture {
    struct echo_box box;
    struct forwards *all;
    struct arena arena;
    struct ctx ctx;
    atomic_int problems;
    struct err e;
};

static void count_problem(void *arg, const struct err *why)
{
    (void)why;
    atomic_fetch_add(&((struct fixture *)arg)->problems, 1);
}

static int set_up(void **state)
{
    struct fixture *x = calloc(1, sizeof(*x));

    x->box.provider = (struct provider){.ops = &ops, .name = S("echo")};
    x->box.box = (struct box){.provider = &x->box.provider, .ref = S("b")};
    atomic_init(&x->box.box.refs, 1);
    x->all = forwards_new();
    arena_init(&x->arena, 1u << 20);
    x->ctx = (struct ctx){.arena = &x->arena, .deadline_ms = clock_mono_ms() + 20000};
    *state = x;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *x = *state;

    forwards_free(x->all);
    for (int i = 0; i < atomic_load(&x->box.dialled); i++) {
        (void)pthread_join(x->box.threads[i], NULL);
    }
    assert_int_equal(atomic_load(&x->box.box.refs), 1); /* every reference was given back */
    arena_fini(&x->arena);
    free(x);
    return 0;
}

static struct forward *open_to(struct fixture *x, uint16_t local)
{
    struct forward_req req = {.box = &x->box.box,
                              .id = S("box-id"),
                              .port = 80,
                              .local = local,
                              .problem = count_problem,
                              .arg = x};
    return forward_open(x->all, &req, &x->e);
}

static int dial_local(uint16_t port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct timeval patience = {.tv_sec = 10};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    if (connect(fd, (struct sockaddr *)&at, sizeof(at)) < 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

static bool echoes(int fd)
{
    char got[8] = "";

    return send(fd, "ping", 4, MSG_NOSIGNAL) == 4 && recv(fd, got, 4, MSG_WAITALL) == 4 &&
           strcmp(got, "ping") == 0;
}

static bool is_over(int fd)
{
    char c;

    return recv(fd, &c, 1, 0) <= 0;
}

static void passes_connections_on_and_closes_them(void **state)
{
    struct fixture *x = *state;
    struct forward *f = open_to(x, 0);

    assert_non_null(f);
    int a own_fd = dial_local(forward_local(f));
    int b own_fd = dial_local(forward_local(f));
    assert_true(echoes(a));
    assert_true(echoes(b));
    (void)shutdown(a, SHUT_WR); /* the echo ends with its input */
    assert_true(is_over(a));
    assert_true(echoes(b));
    uint16_t port = forward_local(f);
    forward_close(f);
    assert_true(is_over(b));
    assert_int_equal(dial_local(port), -1);
}

static void a_port_that_is_taken_is_told(void **state)
{
    struct fixture *x = *state;
    struct forward *f = open_to(x, 0);

    assert_non_null(f);
    assert_null(open_to(x, forward_local(f)));
    assert_int_equal(x->e.kind, ERR_EXISTS);
    uint16_t port = forward_local(f);
    forward_close(f);
    f = open_to(x, port); /* at once again */
    assert_non_null(f);
}

static void nothing_that_listens_is_a_problem_and_no_end(void **state)
{
    struct fixture *x = *state;
    struct forward *f = open_to(x, 0);

    atomic_store(&x->box.closed, true);
    int a own_fd = dial_local(forward_local(f));
    assert_true(is_over(a));
    atomic_store(&x->box.closed, false);
    int b own_fd = dial_local(forward_local(f));
    assert_true(echoes(b));
    assert_int_equal(atomic_load(&x->problems), 1);
}

static void ends_with_its_box_when_that_is_dialled(void **state)
{
    struct fixture *x = *state;
    struct forward *f = open_to(x, 0);

    atomic_store(&x->box.gone, true);
    int a own_fd = dial_local(forward_local(f));
    assert_fails(forward_wait(f, &x->ctx, &x->e), &x->e, ERR_GONE, "idle");
    assert_true(is_over(a));
}

static void ends_with_its_box_by_itself(void **state)
{
    struct fixture *x = *state;
    struct forward *f = open_to(x, 0);

    atomic_store(&x->box.gone, true);
    assert_fails(forward_wait(f, &x->ctx, &x->e), &x->e, ERR_GONE, "idle");
}

static void ends_when_the_box_is_deleted(void **state)
{
    struct fixture *x = *state;
    struct forward *f = open_to(x, 0);
    int a own_fd = dial_local(forward_local(f));

    assert_true(echoes(a));
    forwards_box_ended(x->all, S("other-id"), S("it was deleted"));
    assert_true(echoes(a));
    forwards_box_ended(x->all, S("box-id"), S("it was deleted"));
    assert_fails(forward_wait(f, &x->ctx, &x->e), &x->e, ERR_GONE, "deleted");
    assert_true(is_over(a));
}

static void has_so_many_connections_at_most(void **state)
{
    struct fixture *x = *state;
    struct forward *f = open_to(x, 0);
    int fds[FORWARD_CONNS];

    for (int i = 0; i < FORWARD_CONNS; i++) {
        fds[i] = dial_local(forward_local(f));
        assert_true(echoes(fds[i]));
    }
    int more own_fd = dial_local(forward_local(f));
    assert_true(is_over(more));
    assert_int_equal(atomic_load(&x->problems), 1);
    (void)close(fds[0]);
    for (int tries = 0; tries < 1000; tries++) { /* until that was noticed */
        fds[0] = dial_local(forward_local(f));
        if (echoes(fds[0])) {
            break;
        }
        (void)close(fds[0]);
        fds[0] = -1;
    }
    assert_true(fds[0] >= 0);
    for (int i = 0; i < FORWARD_CONNS; i++) {
        (void)close(fds[i]);
    }
}

static void what_cannot_be_is_refused(void **state)
{
    struct fixture *x = *state;
    struct forward_req req = {.box = &x->box.box, .id = S("b"), .port = 0};

    assert_null(forward_open(x->all, &req, &x->e));
    assert_int_equal(x->e.kind, ERR_INVALID);
    x->box.provider.ops = &without;
    req.port = 80;
    assert_null(forward_open(x->all, &req, &x->e));
    assert_int_equal(x->e.kind, ERR_UNSUPPORTED);
}

static void waiting_can_be_cancelled(void **state)
{
    struct fixture *x = *state;
    struct forward *f = open_to(x, 0);

    x->ctx.deadline_ms = clock_mono_ms() + 50;
    assert_fails(forward_wait(f, &x->ctx, &x->e), &x->e, ERR_TIMEOUT, "");
}

int main(void)
{
#define WITH(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        WITH(passes_connections_on_and_closes_them),
        WITH(a_port_that_is_taken_is_told),
        WITH(nothing_that_listens_is_a_problem_and_no_end),
        WITH(ends_with_its_box_when_that_is_dialled),
        WITH(ends_with_its_box_by_itself),
        WITH(ends_when_the_box_is_deleted),
        WITH(has_so_many_connections_at_most),
        WITH(what_cannot_be_is_refused),
        WITH(waiting_can_be_cancelled),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
