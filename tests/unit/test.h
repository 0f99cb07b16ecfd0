/* test.h - cmocka with the headers it forgets, and checks that most tests need. */
#ifndef TESTS_TEST_H
#define TESTS_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/str.h"

/* cmocka asks the environment how to print, each time; some tests clear the environment. */
__attribute__((constructor)) static void keep_output_format(void)
{
    const char *format = getenv("CMOCKA_MESSAGE_OUTPUT");

    if (format != NULL && strcmp(format, "TAP") == 0) {
        cmocka_set_message_output(CM_OUTPUT_TAP);
    }
}

#define assert_str(got, want)                                                                      \
    do {                                                                                           \
        struct str got_ = (got), want_ = (want);                                                   \
        if (!str_eq(got_, want_)) {                                                                \
            fail_msg("got \"%.*s\", want \"%.*s\"", STR_ARG(got_), STR_ARG(want_));                \
        }                                                                                          \
    } while (0)

/* The call succeeded; else the test shows the message. */
#define assert_ok(expr, e)                                                                         \
    do {                                                                                           \
        if ((expr) < 0) {                                                                          \
            fail_msg("%s: %s", #expr, (e)->msg);                                                   \
        }                                                                                          \
    } while (0)

/* The call failed with this kind and its message mentions `word`. */
#define assert_fails(expr, e, want_kind, word)                                                     \
    do {                                                                                           \
        assert_true((expr) < 0);                                                                   \
        assert_string_equal(err_kind_name((e)->kind), err_kind_name(want_kind));                   \
        if (strstr((e)->msg, (word)) == NULL) {                                                    \
            fail_msg("\"%s\" does not mention \"%s\"", (e)->msg, (word));                          \
        }                                                                                          \
    } while (0)

#endif
