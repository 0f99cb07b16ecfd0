#include "base/capture.h"
#include "base/own.h"
#include "test.h"

static unsigned next_random(unsigned *seed)
{
    *seed = *seed * 1103515245u + 12345u;
    return *seed >> 16;
}

/* Everything that can be read from offset `from` on, as one text; *start gets where it
 * begins. */
static size_t read_from(const struct capture *c, uint64_t from, char *to, uint64_t *start)
{
    size_t len = 0;

    *start = from;
    for (;;) {
        uint64_t at = from;
        struct str view = capture_at(c, &at);

        if (view.len == 0) {
            return len;
        }
        if (len == 0) {
            *start = at;
        }
        memcpy(to + len, view.p, view.len);
        len += view.len;
        from = at + view.len;
    }
}

/* What the header promises, on the whole stream. */
static void check_against(const struct capture *c, const char *stream, uint64_t from)
{
    size_t total = (size_t)c->total;
    size_t head = total < c->head_max ? total : c->head_max;
    size_t tail = total - head < c->tail_max ? total - head : c->tail_max;
    char want[4096];
    char got[4096];
    uint64_t start;
    uint64_t want_start = from;
    size_t n = 0;

    if (want_start >= head && want_start < total - tail) {
        want_start = total - tail;
    }
    for (size_t i = (size_t)from; i < total; i++) {
        if (i < head || i >= total - tail) {
            want[n++] = stream[i];
        }
    }
    assert_int_equal(capture_lost(c), total - head - tail);
    assert_int_equal(read_from(c, from, got, &start), n);
    assert_memory_equal(got, want, n);
    if (n > 0) {
        assert_int_equal(start, want_start);
    }
}

static void behaves_like_the_whole_stream(void **state)
{
    unsigned seed = 7;
    char stream[4096];

    (void)state;
    for (size_t i = 0; i < sizeof(stream); i++) {
        stream[i] = (char)next_random(&seed);
    }
    for (int round = 0; round < 2000; round++) {
        struct capture c own_capture;
        size_t at = 0;
        unsigned most = 1 + next_random(&seed) % 300;

        capture_init(&c, next_random(&seed) % 200, next_random(&seed) % 200);
        for (int add = 0; add < 12; add++) {
            size_t n = next_random(&seed) % most;

            capture_add(&c, (struct str){stream + at, n});
            at += n;
            check_against(&c, stream, next_random(&seed) % (at + 2));
            check_against(&c, stream, 0);
        }
    }
}

static void bounds_its_memory(void **state)
{
    struct capture c own_capture;
    char block[5000];

    (void)state;
    memset(block, 'y', sizeof(block));
    capture_init(&c, 3000, 7000);
    assert_null(c.head);
    for (int i = 0; i < 10000; i++) {
        capture_add(&c, (struct str){block, sizeof(block)});
    }
    assert_int_equal(c.head_cap, 3000);
    assert_int_equal(c.tail_cap, 7000);
    assert_int_equal(c.total, 50000000);
    assert_int_equal(capture_lost(&c), 50000000 - 10000);
}

static void keeps_nothing_when_zeroed(void **state)
{
    struct capture c own_capture = {0};
    uint64_t from = 0;

    (void)state;
    capture_add(&c, S("abc"));
    assert_int_equal(capture_at(&c, &from).len, 0);
    assert_int_equal(capture_lost(&c), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(behaves_like_the_whole_stream),
        cmocka_unit_test(bounds_its_memory),
        cmocka_unit_test(keeps_nothing_when_zeroed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
