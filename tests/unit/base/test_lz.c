#include "base/lz.h"
#include "test.h"

static uint32_t seed = 1;

static uint32_t below(uint32_t n)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % n;
}

static struct lz z;
static char block[LZ_BLOCK], packed[LZ_BLOCK], again[LZ_BLOCK + 1];

/* Its packed size; 0: it was not packed. */
static size_t check(size_t len)
{
    size_t n = lz_pack(&z, (struct str){block, len}, packed, len);
    if (n > 0) {
        assert_true(n <= len);
        assert_int_equal(lz_unpack((struct str){packed, n}, again, len), len);
        assert_memory_equal(again, block, len);
        assert_int_equal(lz_unpack((struct str){packed, n}, again, len - 1), -1);
        for (size_t cut = 1; cut < n && cut < 40; cut++) {
            assert_true(lz_unpack((struct str){packed, n - cut}, again, len) != (ssize_t)len);
        }
    }
    return n;
}

static void what_goes_in_comes_out(void **state)
{
    (void)state;
    for (int round = 0; round < 400; round++) {
        size_t len = round % 4 == 0 ? LZ_BLOCK - below(3) : below(LZ_BLOCK);
        uint32_t letters = 1 + below(round % 2 ? 4 : 256);
        for (size_t i = 0; i < len;) {
            size_t back = i > 0 ? 1 + below((uint32_t)i) : 0;
            size_t run = below(2) ? 1 + below(300) : 1;
            for (; run > 0 && i < len; run--, i++) {
                block[i] = back > 0 && run > 1 ? block[i - back] : (char)below(letters);
            }
        }
        check(len);
    }
}

static void text_shrinks_and_noise_does_not(void **state)
{
    (void)state;
    size_t len = 0;
    while (len + 100 < LZ_BLOCK) {
        len += (size_t)snprintf(block + len, 100, "    if (value[%u] == other[%u]) {\n", below(100),
                                below(10));
    }
    assert_in_range(check(len), 1, len / 3);
    for (size_t i = 0; i < LZ_BLOCK; i++) {
        block[i] = (char)below(256);
    }
    assert_int_equal(check(LZ_BLOCK), 0);
    memset(block, 0, LZ_BLOCK);
    assert_in_range(check(LZ_BLOCK), 1, 300);
    for (size_t tiny = 0; tiny < 32; tiny++) {
        assert_int_equal(check(tiny), 0);
    }
}

static void bytes_that_mean_nothing_are_refused(void **state)
{
    (void)state;
    const struct str bad[] = {
        STR_EMPTY,
        S("\x01"), /* a match, and no distance */
        S("\x10"), /* a literal, and none there */
        S("\x10"
          "a\x00\x00"), /* distance 0 */
        S("\x10"
          "a\x02\x00"), /* before the beginning */
        S("\x1f"
          "a\x01\x00"),            /* a long match without its length */
        S("\xf0\xff\xff\xff\xff"), /* a length without an end */
        S("\x11"
          "a"), /* the last sequence has a match */
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(lz_unpack(bad[i], again, LZ_BLOCK), -1);
    }
    assert_int_equal(lz_unpack(S("\x10"
                                 "a\x01\x00\x10"
                                 "b"),
                               again, LZ_BLOCK),
                     6);
    assert_memory_equal(again, "aaaaab", 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_goes_in_comes_out),
        cmocka_unit_test(text_shrinks_and_noise_does_not),
        cmocka_unit_test(bytes_that_mean_nothing_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
