#include "base/path.h"
#include "provider/local/view.h"
#include "test.h"

/* What is shown must neither be one of these places nor contain one. */
static void assert_hidden(struct names shown, const char *top, const char *place)
{
    struct arena a own_arena = {0};

    arena_init(&a, 1u << 20);
    for (size_t i = 0; i < shown.n; i++) {
        struct str path = path_join(&a, str_from(top), shown.items[i]);

        if (path_inside(str_from(place), path)) {
            fail_msg("%s is shown, by %.*s", place, STR_ARG(path));
        }
    }
}

static void test_no_folder_with_sockets_or_homes_is_shown(void **state)
{
    /* A read-only mount keeps nobody from connecting to a socket in it. */
    static const char *const hidden[] = {"/nix/var/nix/daemon-socket",
                                         "/run/dbus",
                                         "/var/run",
                                         "/home/user",
                                         "/root",
                                         "/sys",
                                         "/etc"};
    struct arena a own_arena = {0};

    (void)state;
    arena_init(&a, 1u << 20);
    for (size_t i = 0; i < COUNTOF(hidden); i++) {
        assert_hidden(view_folders(&a), "/", hidden[i]);
    }
}

static void test_no_file_of_etc_with_secrets_is_shown(void **state)
{
    static const char *const hidden[] = {
        "/etc/ssl/private",          "/etc/pki/tls/private", "/etc/shadow",
        "/etc/environment",          "/etc/machine-id",      "/etc/apt/auth.conf",
        "/etc/ssh/ssh_host_rsa_key", "/etc/sudoers"};
    struct arena a own_arena = {0};

    (void)state;
    arena_init(&a, 1u << 20);
    for (size_t i = 0; i < COUNTOF(hidden); i++) {
        assert_hidden(view_etc(&a), "/etc", hidden[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_folder_with_sockets_or_homes_is_shown),
        cmocka_unit_test(test_no_file_of_etc_with_secrets_is_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
