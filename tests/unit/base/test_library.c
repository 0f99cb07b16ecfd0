/* Libraries that are opened when they are first needed. */
#include <string.h>

#include "base/library.h"
#include "test.h"

struct table {
    __typeof__(&strlen) length;
    __typeof__(&strchr) find;
};

static const struct library_function functions[] = {
    {"strlen", offsetof(struct table, length)},
    {"strchr", offsetof(struct table, find)},
};

static void fills_a_table_from_the_first_that_is_there(void **state)
{
    (void)state;
    const struct library libc = {.names = {"libanybox-none.so.1", "libc.so.6"}};
    struct table t = {0};
    struct err e = {0};

    assert_int_equal(library_open(&libc, functions, COUNTOF(functions), &t, &e), 0);
    assert_int_equal(t.length("four"), 4);
    assert_string_equal(t.find("a=b", '='), "=b");
}

static void says_what_to_install(void **state)
{
    (void)state;
    const struct library none = {
        .names = {"libanybox-none.so.1"}, .who = "Tests need", .package = "anybox-none"};
    struct table t = {0};
    struct err e = {0};

    assert_fails(library_open(&none, functions, COUNTOF(functions), &t, &e), &e, ERR_UNSUPPORTED,
                 "Tests need the library libanybox-none.so.1");
    assert_non_null(strstr(e.msg, "apt-get install anybox-none"));
}

static void says_which_function_is_missing(void **state)
{
    (void)state;
    const struct library old = {.names = {"libc.so.6"}, .package = "libc6", .version = "99.1"};
    const struct library_function missing[] = {{"anybox_none", 0}};
    struct table t = {0};
    struct err e = {0};

    assert_fails(library_open(&old, missing, COUNTOF(missing), &t, &e), &e, ERR_UNSUPPORTED,
                 "libc.so.6 has no anybox_none");
    assert_non_null(strstr(e.msg, "libc6 in version 99.1 or later"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fills_a_table_from_the_first_that_is_there),
        cmocka_unit_test(says_what_to_install),
        cmocka_unit_test(says_which_function_is_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
