#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/attr.h"
#include "base/own.h"
#include "serve/outbox.h"
#include "test.h"

enum medium { PIPE, SOCKET };

static void make_pair(enum medium medium, int fds[2])
{
    int rc = medium == PIPE ? pipe2(fds, O_CLOEXEC)
                            : socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds);

    assert_int_equal(rc, 0);
}

static void read_exactly(int fd, char *to, size_t len)
{
    for (size_t done = 0; done < len;) {
        ssize_t n = read(fd, to + done, len - done);

        assert_true(n > 0);
        done += (size_t)n;
    }
}

static void test_lines_arrive_whole_and_in_order(void **state)
{
    enum { LINES = 40, SIZE = 100000 };
    char *line own_mem = xmalloc(SIZE);
    char *got own_mem = xmalloc(SIZE + 1);

    (void)state;
    for (int medium = PIPE; medium <= SOCKET; medium++) {
        struct outbox w;
        struct err e;
        int fds[2];

        make_pair((enum medium)medium, fds);
        assert_ok(outbox_init(&w, fds[1], &e), &e);
        close(fds[1]);
        for (int i = 0; i < LINES; i++) { /* far more than the other side holds */
            memset(line, 'a' + i % 26, SIZE);
            outbox_send(&w, (struct str){line, SIZE}, false);
        }
        assert_true(outbox_queued(&w) > 0);
        for (int i = 0; i < LINES; i++) {
            for (size_t done = 0; done < SIZE + 1; done += 20000) {
                size_t part = SIZE + 1 - done < 20000 ? SIZE + 1 - done : 20000;

                (void)outbox_flush(&w);
                read_exactly(fds[0], got + done, part);
            }
            memset(line, 'a' + i % 26, SIZE);
            assert_memory_equal(got, line, SIZE);
            assert_int_equal(got[SIZE], '\n');
        }
        assert_int_equal(outbox_queued(&w), 0);
        outbox_fini(&w);
        close(fds[0]);
    }
}

static void test_what_may_be_dropped_is_dropped_behind_a_queue(void **state)
{
    struct outbox w;
    struct err e;
    char *line own_mem = xcalloc(1, 1 << 20);
    size_t queued;
    uint64_t woken = 0;
    int fds[2];

    (void)state;
    make_pair(PIPE, fds);
    assert_ok(outbox_init(&w, fds[1], &e), &e);
    outbox_send(&w, S("progress"), true);
    assert_int_equal(outbox_queued(&w), 0);
    assert_true(read(w.wake, &woken, sizeof(woken)) < 0);
    outbox_send(&w, (struct str){line, 1 << 20}, false);
    queued = outbox_queued(&w);
    assert_true(queued > 0 && queued < (1 << 20));
    assert_int_equal(read(w.wake, &woken, sizeof(woken)), sizeof(woken));
    outbox_send(&w, S("progress"), true);
    assert_int_equal(outbox_queued(&w), queued);
    outbox_send(&w, S("answer"), false);
    assert_int_equal(outbox_queued(&w), queued + 7);
    outbox_fini(&w);
    close(fds[0]);
    close(fds[1]);
}

static void test_a_reader_that_went_away_breaks_it(void **state)
{
    (void)state;
    (void)signal(SIGPIPE, SIG_IGN);
    for (int medium = PIPE; medium <= SOCKET; medium++) {
        struct outbox w;
        struct err e;
        uint64_t woken = 0;
        int fds[2];

        make_pair((enum medium)medium, fds);
        assert_ok(outbox_init(&w, fds[1], &e), &e);
        close(fds[0]);
        assert_false(outbox_broken(&w));
        outbox_send(&w, S("x"), false);
        assert_true(outbox_broken(&w));
        assert_int_equal(read(w.wake, &woken, sizeof(woken)), sizeof(woken));
        outbox_send(&w, S("x"), false);
        assert_int_equal(outbox_queued(&w), 0);
        outbox_fini(&w);
        close(fds[1]);
    }
}

/* Others may share the description that we were given. */
static void test_what_we_were_given_stays_blocking(void **state)
{
    (void)state;
    for (int medium = PIPE; medium <= SOCKET; medium++) {
        struct end in;
        struct outbox out;
        struct err e;
        char byte;
        int fds[2];

        make_pair((enum medium)medium, fds);
        assert_ok(end_open(&in, fds[0], O_RDONLY, &e), &e);
        assert_ok(outbox_init(&out, fds[1], &e), &e);
        assert_int_equal(fcntl(fds[0], F_GETFL) & O_NONBLOCK, 0);
        assert_int_equal(fcntl(fds[1], F_GETFL) & O_NONBLOCK, 0);
        assert_int_equal(fcntl(in.fd, F_GETFD), FD_CLOEXEC);
        assert_int_equal(fcntl(out.end.fd, F_GETFD), FD_CLOEXEC);
        assert_true(end_read(&in, &byte, 1) < 0); /* nothing there, and no waiting for it */
        outbox_send(&out, S(""), false);
        assert_int_equal(end_read(&in, &byte, 1), 1);
        close(in.fd);
        outbox_fini(&out);
        close(fds[0]);
        close(fds[1]);
    }
}

static void test_a_shared_pipe_is_written_in_what_fits(void **state)
{
    struct outbox w;
    struct err e;
    char *line own_mem = xmalloc(200000);
    char *got own_mem = xmalloc(200001);
    size_t done = 0;
    int fds[2];

    (void)state;
    memset(line, 'z', 200000);
    make_pair(PIPE, fds);
    assert_ok(outbox_init(&w, fds[1], &e), &e);
    close(w.end.fd);
    w.end = (struct end){dup(fds[1]), END_SHARED}; /* as when it could not be reopened */
    outbox_send(&w, (struct str){line, 200000}, false);
    while (done < 200001) {
        ssize_t n = read(fds[0], got + done, 4096);

        assert_true(n > 0);
        done += (size_t)n;
        (void)outbox_flush(&w);
    }
    assert_memory_equal(got, line, 200000);
    assert_int_equal(got[200000], '\n');
    assert_int_equal(outbox_queued(&w), 0);
    outbox_fini(&w);
    close(fds[0]);
    close(fds[1]);
}

static void test_a_file_keeps_its_place(void **state)
{
    int fd own_fd = memfd_create("test", MFD_CLOEXEC);
    struct outbox w;
    struct err e;
    char got[16] = "";

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "head\n", 5), 5);
    assert_ok(outbox_init(&w, fd, &e), &e);
    outbox_send(&w, S("line"), false);
    assert_int_equal(pread(fd, got, sizeof(got), 0), 10);
    assert_string_equal(got, "head\nline\n");
    outbox_fini(&w);
}

static void test_a_closed_descriptor_is_an_error(void **state)
{
    struct outbox w;
    struct err e;

    (void)state;
    assert_fails(outbox_init(&w, 987, &e), &e, ERR_SYSTEM, "987 is not open");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_arrive_whole_and_in_order),
        cmocka_unit_test(test_what_may_be_dropped_is_dropped_behind_a_queue),
        cmocka_unit_test(test_a_reader_that_went_away_breaks_it),
        cmocka_unit_test(test_what_we_were_given_stays_blocking),
        cmocka_unit_test(test_a_shared_pipe_is_written_in_what_fits),
        cmocka_unit_test(test_a_file_keeps_its_place),
        cmocka_unit_test(test_a_closed_descriptor_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
