#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "core/boxes.h"
#include "core/services.h"
#include "test.h"

struct place {
    char dir[64];
};

static int set_up(void **state)
{
    struct place *p = calloc(1, sizeof(*p));

    (void)snprintf(p->dir, sizeof(p->dir), "/tmp/test-services-XXXXXX");
    assert_non_null(mkdtemp(p->dir));
    clearenv();
    setenv("HOME", p->dir, 1);
    *state = p;
    return 0;
}

static int tear_down(void **state)
{
    struct place *p = *state;
    struct err e;

    assert_ok(fd_remove_tree(AT_FDCWD, p->dir, &e), &e);
    free(p);
    return 0;
}

static void the_start_touches_nothing(void **state)
{
    struct place *p = *state;
    struct config_flags flags = {.program = S("anybox")};
    struct services s;
    struct stat st;
    struct err e;

    assert_ok(services_init(&s, &flags, &e), &e);
    assert_non_null(s.config);
    assert_non_null(s.store);
    assert_non_null(s.boxes);
    assert_non_null(s.calls);
    assert_str(s.config->problem, S(""));
    assert_int_equal(stat(p->dir, &st), 0);
    assert_int_equal(st.st_nlink, 2); /* no folder was made in it */
    services_fini(&s);
    assert_null(s.config);
}

static void a_wrong_configuration_does_not_stop_the_start(void **state)
{
    struct config_flags flags = {.program = S("anybox"), .config_file = S("/nonexistent.toml")};
    struct services s;
    struct err e;

    (void)state;
    assert_ok(services_init(&s, &flags, &e), &e);
    assert_non_null(strstr(s.config->problem.p, "/nonexistent.toml"));
    services_fini(&s);
}

static void a_log_that_cannot_be_written_is_a_problem_only(void **state)
{
    struct config_flags flags = {.program = S("anybox")};
    struct services s;
    struct err e;

    (void)state;
    setenv("ANYBOX_LOG_FILE", "/nonexistent/folder/log", 1);
    assert_ok(services_init(&s, &flags, &e), &e);
    assert_non_null(strstr(s.config->problem.p, "log.file"));
    services_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_start_touches_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_wrong_configuration_does_not_stop_the_start, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_log_that_cannot_be_written_is_a_problem_only, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
