#include <fcntl.h>
#include <unistd.h>

#include "sync/guard.h"
#include "test.h"

static const struct guard guard = {.home = {"/home/ann", 9}, .state_dir = {"/data/anybox", 12}};

static void folders_of_people_and_systems_are_refused(void **state)
{
    const char *bad[] = {
        "/",
        "/home",
        "/home/ann",
        "/home/ann/.ssh",
        "/home/ann/.ssh/keys",
        "/root",
        "/etc",
        "/etc/ssh",
        "/usr",
        "/usr/local/bin",
        "/bin",
        "/var",
        "/tmp",
        "/proc/1",
        "/data/anybox",
        "/data",
        "/dev/shm",
        "/data/anybox/sub",
        "/run",
        "/home/ann/.gnupg",
        "/Users",
        "relative",
        "",
        "/opt",
        "/home/ann/.config",
        "/run/user2",
        "/home/ann/.aws",
    };
    struct err e;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (guard_check(&guard, str_from(bad[i]), &e) == 0) {
            fail_msg("%s was not refused", bad[i]);
        }
        assert_int_equal(e.kind, ERR_INVALID);
        assert_non_null(strstr(e.msg, "delete_extras"));
    }
}

static void folders_of_projects_are_not(void **state)
{
    const char *good[] = {
        "/home/ann/project",
        "/home/annex",
        "/home/ann/.sshx",
        "/workspace",
        "/tmp/x",
        "/opt/app",
        "/srv/site",
        "/etcetera",
        "/var/www/site",
        "/data/anybox2",
        "/home/bob/x",
        "/run/user/1000/x",
        "/mnt/disk",
        "/home/ann/.cache",
        "/usrlocal",
        "/home/ann/.config/nvim",
    };
    struct err e;

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        if (guard_check(&guard, str_from(good[i]), &e) < 0) {
            fail_msg("%s was refused: %s", good[i], e.msg);
        }
    }
}

static void nothing_known_of_a_home_still_guards_the_system(void **state)
{
    struct guard nobody = {0};
    struct err e;

    (void)state;
    assert_int_equal(guard_check(&nobody, S("/"), &e), -1);
    assert_ok(guard_check(&nobody, S("/work"), &e), &e);
}

static void the_root_of_a_file_system_is_refused(void **state)
{
    int root = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int below = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct err e;

    (void)state;
    assert_true(root >= 0 && below >= 0);
    /* Only the descriptor counts here: /proc itself is refused by its name already. */
    assert_int_equal(guard_check_here(&guard, S("/srv/p"), root, &e), -1);
    assert_non_null(strstr(e.msg, "root of a file system"));
    assert_ok(guard_check_here(&guard, S("/srv/p"), below, &e), &e);
    close(root);
    close(below);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folders_of_people_and_systems_are_refused),
        cmocka_unit_test(folders_of_projects_are_not),
        cmocka_unit_test(nothing_known_of_a_home_still_guards_the_system),
        cmocka_unit_test(the_root_of_a_file_system_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
