/* test_base64.c - the vectors of RFC 4648, every byte value, and what is not base64. */
#include "test.h"
#include "tools/base64.h"

static void vectors_go_both_ways(void **state)
{
    static const char *const cases[][2] = {
        {"", ""},
        {"f", "Zg=="},
        {"fo", "Zm8="},
        {"foo", "Zm9v"},
        {"foob", "Zm9vYg=="},
        {"fooba", "Zm9vYmE="},
        {"foobar", "Zm9vYmFy"},
    };
    struct arena a own_arena = {0};

    (void)state;
    arena_init(&a, 1 << 20);
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        struct err e = {0};
        struct str out = STR_EMPTY;

        assert_str(base64_encode(&a, str_from(cases[i][0])), str_from(cases[i][1]));
        assert_ok(base64_decode(&a, str_from(cases[i][1]), &out, &e), &e);
        assert_str(out, str_from(cases[i][0]));
    }
}

static void every_byte_survives_at_every_length(void **state)
{
    struct arena a own_arena = {0};
    char bytes[256];

    (void)state;
    arena_init(&a, 16 << 20);
    for (int i = 0; i < 256; i++) {
        bytes[i] = (char)(255 - i);
    }
    for (size_t len = 0; len <= sizeof(bytes); len++) {
        struct err e = {0};
        struct str in = {bytes, len};
        struct str out = STR_EMPTY;

        assert_ok(base64_decode(&a, base64_encode(&a, in), &out, &e), &e);
        assert_str(out, in);
    }
}

static void careless_writers_are_understood(void **state)
{
    static const char *const cases[] = {"Zm9v\nYmE=\n", " Zm9v YmE ", "Zm9vYmE"};
    struct arena a own_arena = {0};
    struct err e = {0};
    struct str out = STR_EMPTY;

    (void)state;
    arena_init(&a, 1 << 20);
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        assert_ok(base64_decode(&a, str_from(cases[i]), &out, &e), &e);
        assert_str(out, S("fooba"));
    }
    assert_ok(base64_decode(&a, S("_-8="), &out, &e), &e);
    assert_str(out, S("\xff\xef"));
}

static void what_is_not_base64_is_refused(void **state)
{
    static const char *const cases[] = {
        "not base64!", "Z", "Zm9vY", "Zg=", "Zg===", "Zg==Zg", "Zm9v\x01", "Z\xc3\xa9=="};
    struct arena a own_arena = {0};
    struct str out = S("untouched");

    (void)state;
    arena_init(&a, 1 << 20);
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        struct err e = {0};

        assert_fails(base64_decode(&a, str_from(cases[i]), &out, &e), &e, ERR_INVALID,
                     "not base64");
    }
    assert_str(out, S("untouched"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_go_both_ways),
        cmocka_unit_test(every_byte_survives_at_every_length),
        cmocka_unit_test(careless_writers_are_understood),
        cmocka_unit_test(what_is_not_base64_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
