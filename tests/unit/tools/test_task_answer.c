/* Which regular expressions are tried here. */
#include "test.h"
#include "tools/task_answer.h"

static void usual_expressions_are_small(void **state)
{
    static const char *const small[] = {
        "",
        "ready|listening on port [0-9]+",
        "^epoch +[0-9]+ .*loss=[0-9.]+$",
        "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}",
        "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
        "{",
        "a{,3}b{2,}",
    };

    (void)state;
    for (size_t i = 0; i < COUNTOF(small); i++) {
        if (!task_regex_is_small(str_from(small[i]))) {
            fail_msg("%s is small", small[i]);
        }
    }
}

/* Each of these takes hundreds of megabytes or more. */
static void what_unfolds_is_not(void **state)
{
    static const char *const large[] = {
        "((((a{100}){100}){100}){100})",
        "((a{1,200}){1,200}){1,200}",
        "((a{0,9999}){,9999})",
        "a{99999999999999999999}",
        "{((((((((((((((((((((((a+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+",
        "((((((((((((((((((((((a+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+",
    };

    (void)state;
    for (size_t i = 0; i < COUNTOF(large); i++) {
        if (task_regex_is_small(str_from(large[i]))) {
            fail_msg("%s is large", large[i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(usual_expressions_are_small),
        cmocka_unit_test(what_unfolds_is_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
