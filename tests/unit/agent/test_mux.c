/* Two muxes, one of each side, with the stream between them in memory: what one shows is fed
 * to the other, in pieces of a chosen size. */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/mux.h"
#include "base/alloc.h"
#include "base/fd.h"
#include "base/own.h"
#include "test.h"

#define MANY 300

struct pair {
    struct mux *near, *far;
    int accepted[MUX_STREAMS]; /* the far program's ends, in the order of their beginning */
    size_t n_accepted;
    bool refuse;
    size_t piece;       /* most bytes that are fed at once */
    uint64_t sent[2];   /* from near to far, and back */
    uint64_t most_held; /* the most that mux_out() showed */
};

static int make_socket(int fds[2])
{
    int rc = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds);

    assert_int_equal(rc, 0);
    return fds[0];
}

static int accept_one(void *arg)
{
    struct pair *p = arg;
    int fds[2];

    if (p->refuse) {
        return -1;
    }
    (void)make_socket(fds);
    p->accepted[p->n_accepted++] = fds[1];
    return fds[0];
}

static void pair_open(struct pair *p)
{
    struct err e;

    *p = (struct pair){.piece = SIZE_MAX};
    p->near = mux_new(NULL, NULL, &e);
    p->far = mux_new(accept_one, p, &e);
    assert_non_null(p->near);
    assert_non_null(p->far);
}

static void pair_close(struct pair *p)
{
    mux_free(p->near);
    mux_free(p->far);
    for (size_t i = 0; i < p->n_accepted; i++) {
        if (p->accepted[i] >= 0) {
            (void)close(p->accepted[i]);
        }
    }
}

/* At most `max` bytes one way. */
static bool carry(struct pair *p, struct mux *from, struct mux *to, size_t max)
{
    struct str out = mux_out(from);
    struct err e;

    p->most_held = out.len > p->most_held ? out.len : p->most_held;
    out = str_head(out, max < p->piece ? max : p->piece);
    if (out.len == 0) {
        return false;
    }
    /* A copy: the view ends with the next call. */
    char *copy own_mem = xmemdup(out.p, out.len);

    assert_ok(mux_feed(to, (struct str){copy, out.len}, &e), &e);
    mux_sent(from, out.len);
    p->sent[from == p->far] += out.len;
    return true;
}

static void step(struct pair *p)
{
    mux_turn(p->near);
    mux_turn(p->far);
    (void)carry(p, p->near, p->far, SIZE_MAX);
    (void)carry(p, p->far, p->near, SIZE_MAX);
}

/* Until nothing moves any more. */
static void run(struct pair *p)
{
    bool moved = true;

    while (moved) {
        mux_turn(p->near);
        mux_turn(p->far);
        moved = carry(p, p->near, p->far, SIZE_MAX);
        moved |= carry(p, p->far, p->near, SIZE_MAX);
    }
}

/* A conversation: the near program's end. */
static int begin(struct pair *p)
{
    int fds[2];
    struct err e;

    (void)make_socket(fds);
    assert_ok(mux_open(p->near, fds[0], &e), &e);
    return fds[1];
}

static void say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

static void hear(int fd, const char *text)
{
    char got[256] = "";

    assert_int_equal(recv(fd, got, sizeof(got) - 1, 0), strlen(text));
    assert_string_equal(got, text);
}

static bool at_end(int fd)
{
    char c;

    return recv(fd, &c, 1, 0) == 0;
}

static bool is_silent(int fd)
{
    char c;

    return recv(fd, &c, 1, 0) < 0 && errno == EAGAIN;
}

/* As much as it takes. */
static size_t flood(int fd, size_t max)
{
    static char zeros[64 << 10];
    size_t done = 0;

    while (done < max) {
        size_t want = max - done < sizeof(zeros) ? max - done : sizeof(zeros);
        ssize_t n = send(fd, zeros, want, MSG_NOSIGNAL);

        if (n <= 0) {
            break;
        }
        done += (size_t)n;
    }
    return done;
}

static size_t swallow(int fd)
{
    static char bytes[64 << 10];
    size_t done = 0;

    for (;;) {
        ssize_t n = recv(fd, bytes, sizeof(bytes), 0);

        if (n <= 0) {
            return done;
        }
        done += (size_t)n;
    }
}

static bool wants_turn(const struct mux *m)
{
    struct pollfd p = {.fd = mux_fd(m), .events = POLLIN};

    return poll(&p, 1, 0) == 1;
}

static void carries_a_message_and_its_answer_in_one_turn_each(void **state)
{
    struct pair p;
    (void)state;
    pair_open(&p);
    int fd own_fd = begin(&p);

    say(fd, "question");
    assert_true(wants_turn(p.near));
    step(&p);
    assert_int_equal(p.n_accepted, 1);
    hear(p.accepted[0], "question");
    say(p.accepted[0], "answer");
    step(&p);
    hear(fd, "answer");
    run(&p);
    assert_false(wants_turn(p.near));
    assert_false(wants_turn(p.far));
    pair_close(&p);
}

static void works_byte_by_byte(void **state)
{
    struct pair p;
    (void)state;
    pair_open(&p);
    p.piece = 1;
    int fd own_fd = begin(&p);

    say(fd, "question");
    run(&p);
    hear(p.accepted[0], "question");
    pair_close(&p);
}

static void carries_the_end_of_one_direction(void **state)
{
    struct pair p;
    (void)state;
    pair_open(&p);
    int fd own_fd = begin(&p);

    say(fd, "last words");
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    run(&p);
    hear(p.accepted[0], "last words");
    assert_true(at_end(p.accepted[0]));
    say(p.accepted[0], "answer");
    run(&p);
    hear(fd, "answer");
    assert_true(is_silent(fd));
    assert_int_equal(shutdown(p.accepted[0], SHUT_WR), 0);
    run(&p);
    assert_true(at_end(fd));
    assert_int_equal(mux_count(p.near), 0);
    assert_int_equal(mux_count(p.far), 0);
    pair_close(&p);
}

static void carries_the_end_of_both(void **state)
{
    struct pair p;
    (void)state;
    pair_open(&p);
    int fd = begin(&p);

    run(&p);
    (void)close(fd);
    run(&p);
    assert_true(at_end(p.accepted[0]));
    /* Nobody would read what is said there. */
    assert_int_equal(send(p.accepted[0], "x", 1, MSG_NOSIGNAL), -1);
    run(&p);
    assert_int_equal(mux_count(p.near), 0);
    assert_int_equal(mux_count(p.far), 0);
    pair_close(&p);
}

static void delivers_what_was_said_before_the_end(void **state)
{
    struct pair p;
    size_t all = 0;
    size_t got = 0;
    (void)state;
    pair_open(&p);
    int fd own_fd = begin(&p);

    run(&p);
    all = flood(p.accepted[0], SIZE_MAX); /* what the socket holds, more than the first window */
    assert_true(all > MUX_FIRST);
    (void)close(p.accepted[0]);
    p.accepted[0] = -1;
    for (int i = 0; i < 200; i++) {
        run(&p);
        got += swallow(fd);
    }
    assert_int_equal(got, all);
    assert_true(at_end(fd));
    assert_int_equal(mux_count(p.near), 0);
    assert_int_equal(mux_count(p.far), 0);
    pair_close(&p);
}

static void tells_who_writes_that_nobody_reads(void **state)
{
    struct pair p;
    (void)state;
    pair_open(&p);
    int fd = begin(&p);

    run(&p);
    (void)flood(p.accepted[0], SIZE_MAX);
    (void)close(fd);
    run(&p);
    assert_int_equal(send(p.accepted[0], "x", 1, MSG_NOSIGNAL), -1);
    assert_int_equal(mux_count(p.near), 0);
    assert_int_equal(mux_count(p.far), 0);
    pair_close(&p);
}

static void leaves_who_takes_no_more(void **state)
{
    struct pair p;
    (void)state;
    pair_open(&p);
    int fd = begin(&p);

    run(&p);
    for (int i = 0; i < 100; i++) { /* nobody reads at the far end */
        (void)flood(fd, SIZE_MAX);
        run(&p);
    }
    (void)close(fd);
    run(&p);
    assert_int_equal(mux_count(p.near), 0);
    assert_int_equal(mux_count(p.far), 0);
    assert_true(swallow(p.accepted[0]) > 0); /* what its socket held */
    assert_true(at_end(p.accepted[0]));
    pair_close(&p);
}

static void hears_the_last_words_of_one_who_left(void **state)
{
    struct pair p;
    (void)state;
    pair_open(&p);
    int fd own_fd = begin(&p);

    run(&p);
    say(p.accepted[0], "I go, because");
    (void)close(p.accepted[0]);
    p.accepted[0] = -1;
    say(fd, "more"); /* comes to a closed socket before its last words were read */
    mux_turn(p.near);
    assert_true(carry(&p, p.near, p.far, SIZE_MAX));
    run(&p);
    hear(fd, "I go, because");
    assert_true(at_end(fd));
    assert_int_equal(mux_count(p.near), 0);
    assert_int_equal(mux_count(p.far), 0);
    pair_close(&p);
}

static void one_that_nobody_reads_is_bounded_and_stops_nobody(void **state)
{
    struct pair p;
    size_t in = 0;
    (void)state;
    pair_open(&p);
    int stuck = begin(&p);
    int other own_fd = begin(&p);

    run(&p);
    for (int i = 0; i < 1000; i++) {
        in += flood(p.accepted[0], SIZE_MAX);
        run(&p);
    }
    assert_true(in < MUX_WINDOW + (2u << 20)); /* the window, and three sockets' buffers */
    assert_true(p.most_held <= MUX_OUT + MUX_DATA + 4096);
    say(p.accepted[1], "small");
    step(&p);
    hear(other, "small");
    (void)close(stuck);
    pair_close(&p);
}

static void a_small_message_passes_a_flood(void **state)
{
    struct pair p;
    uint64_t before;
    int turns = 0;
    (void)state;
    pair_open(&p);
    int big own_fd = begin(&p);
    int small own_fd = begin(&p);
    char got[8];

    run(&p);
    for (int i = 0; i < 300; i++) { /* a window that has grown */
        (void)flood(p.accepted[0], SIZE_MAX);
        step(&p);
        (void)swallow(big);
    }
    say(p.accepted[1], "small");
    before = p.sent[1];
    while (recv(small, got, sizeof(got), 0) < 0) {
        (void)flood(p.accepted[0], SIZE_MAX);
        mux_turn(p.far);
        (void)carry(&p, p.far, p.near, 4096);
        (void)carry(&p, p.near, p.far, SIZE_MAX);
        (void)swallow(big);
        turns++;
    }
    assert_true(p.sent[1] - before <= MUX_OUT + 2 * MUX_DATA + 4096);
    assert_true(turns > 1); /* there was something to pass */
    pair_close(&p);
}

static void moves_much(void **state)
{
    const size_t all = 256u << 20;
    struct pair p;
    size_t in = 0;
    size_t got = 0;
    (void)state;
    pair_open(&p);
    int fd own_fd = begin(&p);

    run(&p);
    while (got < all) {
        in += flood(p.accepted[0], all - in);
        step(&p);
        got += swallow(fd);
    }
    assert_int_equal(got, all);
    pair_close(&p);
}

static void a_window_grows_while_it_is_read(void **state)
{
    struct pair p;
    size_t in = 0;
    (void)state;
    pair_open(&p);
    int fd own_fd = begin(&p);

    run(&p);
    for (int i = 0; i < 500; i++) {
        (void)flood(p.accepted[0], SIZE_MAX);
        run(&p);
        (void)swallow(fd);
    }
    run(&p);
    (void)swallow(fd);
    run(&p);
    /* Now nothing comes back: how much may be under way? */
    for (int i = 0; i < 500; i++) {
        (void)flood(p.accepted[0], SIZE_MAX);
        mux_turn(p.far);
        in += carry(&p, p.far, p.near, SIZE_MAX) ? 1 : 0;
    }
    assert_true(in * MUX_OUT >= MUX_WINDOW / 2);
    pair_close(&p);
}

/* How much of what `from` says arrives while nothing comes back. */
static size_t one_way(struct pair *p, struct mux *from, struct mux *to, int said, int heard)
{
    size_t got = 0;

    for (int i = 0; i < 500; i++) {
        (void)flood(said, SIZE_MAX);
        mux_turn(from);
        (void)carry(p, from, to, SIZE_MAX);
        mux_turn(to);
        got += swallow(heard);
    }
    return got;
}

static void a_window_is_granted_before_anything_came(void **state)
{
    struct pair p;
    (void)state;
    pair_open(&p);
    int fd own_fd = begin(&p);

    /* The one who begins is heard of and grants with the same bytes; the other one answers. */
    assert_true(carry(&p, p.near, p.far, SIZE_MAX));
    assert_int_equal(one_way(&p, p.far, p.near, p.accepted[0], fd), MUX_EARLY);
    assert_int_equal(one_way(&p, p.near, p.far, fd, p.accepted[0]), MUX_EARLY);
    pair_close(&p);
}

static uint32_t number_at(const char *p)
{
    const unsigned char *b = (const unsigned char *)p;

    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

/* Of conversations that say nothing: beginnings and credits are all there is. */
static void early_windows_leave_some_for_those_that_grow(void **state)
{
    enum { N = MUX_TOTAL / MUX_EARLY };
    struct pair p;
    int fds[N];
    uint64_t granted = 0;
    (void)state;
    pair_open(&p);
    for (size_t i = 0; i < N; i++) {
        fds[i] = begin(&p);
    }
    struct str out = mux_out(p.near);
    assert_true(out.len > 0 && out.len % 8 == 0);
    for (size_t at = 0; at < out.len; at += 8) {
        granted += out.p[at] == MUX_CREDIT ? number_at(out.p + at + 4) : 0;
    }
    assert_true(granted > MUX_TOTAL / 4 && granted <= MUX_TOTAL / 2);
    for (size_t i = 0; i < N; i++) {
        (void)close(fds[i]);
    }
    run(&p);
    assert_int_equal(mux_count(p.near), 0);
    pair_close(&p);
}

static void has_many_conversations(void **state)
{
    struct pair p;
    int fds[MANY];
    (void)state;
    pair_open(&p);
    for (int round = 0; round < 3; round++) {
        size_t first = p.n_accepted;

        for (int i = 0; i < MANY; i++) {
            char text[16];

            fds[i] = begin(&p);
            (void)snprintf(text, sizeof(text), "hello %d", i);
            say(fds[i], text);
        }
        run(&p);
        assert_int_equal(mux_count(p.near), MANY);
        assert_int_equal(p.n_accepted - first, MANY);
        for (int i = 0; i < MANY; i++) {
            char text[16];

            (void)snprintf(text, sizeof(text), "hello %d", i);
            hear(p.accepted[first + (size_t)i], text);
            (void)close(i % 2 ? fds[i] : p.accepted[first + (size_t)i]);
            p.accepted[first + (size_t)i] = i % 2 ? p.accepted[first + (size_t)i] : -1;
        }
        run(&p);
        assert_int_equal(mux_count(p.near), 0);
        assert_int_equal(mux_count(p.far), 0);
        for (int i = 0; i < MANY; i++) {
            if (i % 2) {
                (void)close(p.accepted[first + (size_t)i]);
            } else {
                assert_true(at_end(fds[i]));
                (void)close(fds[i]);
            }
        }
        p.n_accepted = 0;
    }
    pair_close(&p);
}

static void refuses_one_too_many(void **state)
{
    struct pair p;
    int fds[MUX_STREAMS];
    int more[2];
    struct err e;
    (void)state;
    pair_open(&p);
    for (int i = 0; i < MUX_STREAMS; i++) {
        fds[i] = begin(&p);
    }
    (void)make_socket(more);
    assert_fails(mux_open(p.near, more[0], &e), &e, ERR_LIMIT, "512");
    assert_true(at_end(more[1])); /* it was taken and closed */
    (void)close(more[1]);
    run(&p);
    assert_int_equal(mux_count(p.far), MUX_STREAMS);
    for (int i = 0; i < MUX_STREAMS; i++) {
        (void)close(fds[i]);
    }
    run(&p);
    assert_int_equal(mux_count(p.near), 0);
    pair_close(&p);
}

static void a_refused_one_ends_at_once(void **state)
{
    struct pair p;
    (void)state;
    pair_open(&p);
    p.refuse = true;
    int fd own_fd = begin(&p);

    say(fd, "hello?");
    run(&p);
    assert_true(at_end(fd));
    assert_int_equal(mux_count(p.near), 0);
    assert_int_equal(mux_count(p.far), 0);
    pair_close(&p);
}

static void ends_every_conversation_with_it(void **state)
{
    struct pair p;
    (void)state;
    pair_open(&p);
    int fd own_fd = begin(&p);

    run(&p);
    mux_free(p.near);
    p.near = NULL;
    assert_true(at_end(fd));
    pair_close(&p);
}

/* What a frame of each kind may not say. */
static void refuses(struct mux *m, const void *bytes, size_t len, const char *word)
{
    struct err e;

    assert_fails(mux_feed(m, (struct str){bytes, len}, &e), &e, ERR_PROTOCOL, word);
    assert_fails(mux_feed(m, S("x"), &e), &e, ERR_PROTOCOL, "broken");
    assert_int_equal(mux_out(m).len, 0);
}

static void does_not_believe_the_other_side(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
        const char *word;
    } lies[] = {
#define LIE(bytes, word) {bytes, sizeof(bytes) - 1, word}
        LIE("\x09\0\0\0\0\0\0\0", "over"),
        LIE("\x01\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0", "unknown"),
        LIE("\x01\x01\0\0\0\0\0\0", "no frame"),
        LIE("\x01\0\0\x02\0\0\0\0", "no frame"), /* conversation 512 */
        LIE("\x01\0\0\0\x01\0\0\0", "none"),
        LIE("\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0", "none"),
        LIE("\x02\0\0\0\x01\0\0\0", "over"),
        LIE("\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0", "cannot be"),
        LIE("\x01\0\0\0\0\0\0\0\x02\0\0\0\x01\x80\0\0", "cannot be"), /* MUX_DATA + 1 */
        LIE("\x01\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0\x02\0\0\0\x01\0\0\0", "cannot be"),
        LIE("\x01\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0", "cannot be"),
        LIE("\x01\0\0\0\0\0\0\0\x04\0\0\0\x01\0\0\0", "cannot be"),
        LIE("\x01\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0", "over"),
        LIE("\x01\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0", "credit"),
        LIE("\x01\0\0\0\0\0\0\0\x03\0\0\0\xff\xff\xff\xff", "credit"),
        LIE("\x01\0\0\0\0\0\0\0\x03\0\0\0\0\0\x3f\0", "credit"),
    };
    (void)state;
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        struct pair p;

        pair_open(&p);
        refuses(p.far, lies[i].bytes, lies[i].len, lies[i].word);
        pair_close(&p);
    }
}

static void the_one_who_begins_is_not_begun_with(void **state)
{
    struct pair p;
    (void)state;
    pair_open(&p);
    refuses(p.near, "\x01\0\0\0\0\0\0\0", 8, "none");
    pair_close(&p);
}

static void more_than_was_granted_is_refused(void **state)
{
    static char frame[8 + MUX_DATA] = "\x02\0\0\0\0\x80\0\0";
    struct pair p;
    struct err e;
    (void)state;
    pair_open(&p);
    assert_ok(mux_feed(p.far, (struct str){"\x01\0\0\0\0\0\0\0", 8}, &e), &e);
    for (size_t i = 0; i < MUX_FIRST / MUX_DATA; i++) {
        assert_ok(mux_feed(p.far, (struct str){frame, sizeof(frame)}, &e), &e);
    }
    refuses(p.far, frame, 8, "granted");
    pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(carries_a_message_and_its_answer_in_one_turn_each),
        cmocka_unit_test(works_byte_by_byte),
        cmocka_unit_test(carries_the_end_of_one_direction),
        cmocka_unit_test(carries_the_end_of_both),
        cmocka_unit_test(delivers_what_was_said_before_the_end),
        cmocka_unit_test(tells_who_writes_that_nobody_reads),
        cmocka_unit_test(leaves_who_takes_no_more),
        cmocka_unit_test(hears_the_last_words_of_one_who_left),
        cmocka_unit_test(one_that_nobody_reads_is_bounded_and_stops_nobody),
        cmocka_unit_test(a_small_message_passes_a_flood),
        cmocka_unit_test(moves_much),
        cmocka_unit_test(a_window_grows_while_it_is_read),
        cmocka_unit_test(a_window_is_granted_before_anything_came),
        cmocka_unit_test(early_windows_leave_some_for_those_that_grow),
        cmocka_unit_test(has_many_conversations),
        cmocka_unit_test(refuses_one_too_many),
        cmocka_unit_test(a_refused_one_ends_at_once),
        cmocka_unit_test(ends_every_conversation_with_it),
        cmocka_unit_test(does_not_believe_the_other_side),
        cmocka_unit_test(the_one_who_begins_is_not_begun_with),
        cmocka_unit_test(more_than_was_granted_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
