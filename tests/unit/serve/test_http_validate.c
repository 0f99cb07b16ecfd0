/* test_http_validate.c - ETag, Last-Modified, and the conditions on them. */
#include "serve/http/validate.h"
#include "test.h"

static void dates_have_the_one_form(void **state)
{
    char text[VALIDATE_DATE_SIZE];

    (void)state;
    assert_str(validate_date(784111777, text), S("Sun, 06 Nov 1994 08:49:37 GMT"));
    assert_str(validate_date(0, text), S("Thu, 01 Jan 1970 00:00:00 GMT"));
    assert_str(validate_date(INT64_MAX, text), S("Thu, 01 Jan 1970 00:00:00 GMT"));
    assert_str(validate_date(INT64_MIN, text), S("Thu, 01 Jan 1970 00:00:00 GMT"));
}

static void a_tag_is_weak_while_the_second_lasts(void **state)
{
    char text[VALIDATE_ETAG_SIZE];

    (void)state;
    assert_str(validate_etag(10, 255, 300, text), S("\"ff-a\""));
    assert_str(validate_etag(10, 255, 257, text), S("W/\"ff-a\""));
    assert_str(validate_etag(10, 255, 0, text), S("W/\"ff-a\""));
    assert_str(validate_etag(1, INT64_MAX, 300, text), S("W/\"7fffffffffffffff-1\""));
    assert_str(validate_etag(INT64_MAX, INT64_MIN, 0, text),
               S("\"8000000000000000-7fffffffffffffff\""));
}

static void a_known_tag_is_found(void **state)
{
    struct str tag = S("\"1-2\"");

    (void)state;
    assert_true(validate_etag_in(S("\"1-2\""), tag));
    assert_true(validate_etag_in(S("W/\"1-2\""), tag));
    assert_true(validate_etag_in(S("\"1-2\""), S("W/\"1-2\"")));
    assert_true(validate_etag_in(S("\"x\", \"1-2\""), tag));
    assert_true(validate_etag_in(S(" * "), tag));
    assert_false(validate_etag_in(S(""), tag));
    assert_false(validate_etag_in(S("1-2"), tag));
    assert_false(validate_etag_in(S("\"1-2"), tag));
    assert_false(validate_etag_in(S("\"1-3\",,"), tag));
}

static void dates_are_compared(void **state)
{
    (void)state;
    assert_true(validate_not_since(S("Sun, 06 Nov 1994 08:49:37 GMT"), 784111777));
    assert_true(validate_not_since(S("Sun, 06 Nov 1994 08:49:37 GMT"), 1));
    assert_false(validate_not_since(S("Sun, 06 Nov 1994 08:49:37 GMT"), 784111778));
    assert_false(validate_not_since(S("Sunday, 06-Nov-94 08:49:37 GMT"), 1));
    assert_false(validate_not_since(S("Mon, 06 Nov 1994 08:49:37 GMT"), 1));
    assert_false(validate_not_since(S("Sun, 06 Nov 1994 08:49:37"), 1));
    assert_false(validate_not_since(S("now"), 1));
    assert_false(validate_not_since(STR_EMPTY, 1));
}

static void parts_are_joined_by_strong_tags_only(void **state)
{
    struct str date = S("Sun, 06 Nov 1994 08:49:37 GMT");

    (void)state;
    assert_true(validate_if_range(S("\"1-2\""), S("\"1-2\""), date));
    assert_true(validate_if_range(date, S("\"1-2\""), date));
    assert_false(validate_if_range(S("W/\"1-2\""), S("W/\"1-2\""), date));
    assert_false(validate_if_range(date, S("W/\"1-2\""), date));
    assert_false(validate_if_range(S("\"1-3\""), S("\"1-2\""), date));
    assert_false(validate_if_range(S("Sun, 06 Nov 1994 08:49:38 GMT"), S("\"1-2\""), date));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dates_have_the_one_form),
        cmocka_unit_test(a_tag_is_weak_while_the_second_lasts),
        cmocka_unit_test(a_known_tag_is_found),
        cmocka_unit_test(dates_are_compared),
        cmocka_unit_test(parts_are_joined_by_strong_tags_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
