#include "base/base64url.h"
#include "test.h"

static void writes_the_url_alphabet_without_padding(void **state)
{
    static const struct {
        const char *bytes, *text;
    } known[] = {
        {"", ""},
        {"f", "Zg"},
        {"fo", "Zm8"},
        {"foo", "Zm9v"},
        {"foob", "Zm9vYg"},
        {"foobar", "Zm9vYmFy"},
        {"\xff\xef", "_-8"},
        {"\xfb\xff", "-_8"},
    };
    struct err e;

    (void)state;
    for (size_t i = 0; i < COUNTOF(known); i++) {
        struct buf out own_buf = {0}, back own_buf = {0};

        buf_init(&out, 100);
        buf_init(&back, 100);
        base64url_add(&out, str_from(known[i].bytes));
        assert_str(buf_str(&out), str_from(known[i].text));
        assert_ok(base64url_read(str_from(known[i].text), &back, &e), &e);
        assert_str(buf_str(&back), str_from(known[i].bytes));
    }
}

static void any_bytes_come_back(void **state)
{
    char bytes[256];
    struct err e;

    (void)state;
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (char)(255 - i);
    }
    for (size_t n = 0; n <= sizeof(bytes); n++) {
        struct buf out own_buf = {0}, back own_buf = {0};

        buf_init(&out, 1000);
        buf_init(&back, 1000);
        base64url_add(&out, (struct str){bytes, n});
        assert_ok(base64url_read(buf_str(&out), &back, &e), &e);
        assert_str(buf_str(&back), ((struct str){bytes, n}));
    }
}

static void refuses_what_has_a_second_spelling(void **state)
{
    static const char *const wrong[] = {"Z",     "Zg==",   "Zh",  "Zm9",  "Zm9vY",
                                        "Zm 9v", "Zm9v\n", "+/8", "Zm8=", "="};

    (void)state;
    for (size_t i = 0; i < COUNTOF(wrong); i++) {
        struct buf out own_buf = {0};
        struct err e;

        buf_init(&out, 100);
        assert_fails(base64url_read(str_from(wrong[i]), &out, &e), &e, ERR_INVALID, "base64");
    }
}

static void reads_the_standard_form_with_its_padding_only(void **state)
{
    static const char *const wrong[] = {
        "Zg", "Zg=", "Z===", "====", "Zh==", "Zm9=", "-_8=", "Zg==Zg==", "Zm9v====", "Zg= ="};
    struct buf out own_buf = {0};
    struct err e;

    (void)state;
    buf_init(&out, 100);
    assert_ok(base64_read_strict(S("Zg=="), &out, &e), &e);
    assert_ok(base64_read_strict(S("Zm8="), &out, &e), &e);
    assert_ok(base64_read_strict(S("+/8="), &out, &e), &e);
    assert_ok(base64_read_strict(S(""), &out, &e), &e);
    assert_str(buf_str(&out), S("ffo\xfb\xff"));
    for (size_t i = 0; i < COUNTOF(wrong); i++) {
        assert_fails(base64_read_strict(str_from(wrong[i]), &out, &e), &e, ERR_INVALID, "base64");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_the_url_alphabet_without_padding),
        cmocka_unit_test(any_bytes_come_back),
        cmocka_unit_test(refuses_what_has_a_second_spelling),
        cmocka_unit_test(reads_the_standard_form_with_its_padding_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
