#include <fcntl.h>
#include <stdlib.h>

#include "base/fd.h"
#include "provider/local/cgroup.h"
#include "provider/local/scope.h"
#include "test.h"

#define ID "0123456789abcdef0123456789abcdef"

static void test_the_managers_cgroup(void **state)
{
    (void)state;
    assert_str(
        scope_parse_manager(S("0::/user.slice/user-1000.slice/user@1000.service/init.scope\n")),
        S("/user.slice/user-1000.slice/user@1000.service"));
    assert_str(scope_parse_manager(S("1:name=systemd:/init.scope\n0::/a/init.scope\n")), S("/a"));
}

static void test_what_is_no_manager(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        "\n",
                                        "0::/",
                                        "0::",
                                        "0::/a",
                                        "0::/init.scope\n",
                                        "0::/../x/init.scope",
                                        "1:name=systemd:/a/init.scope\n",
                                        "0::/a/xinit.scope",
                                        "0::/a/init.scope/b"};
    for (size_t i = 0; i < COUNTOF(texts); i++) {
        assert_int_equal(scope_parse_manager(str_from(texts[i])).len, 0);
    }
}

static void test_only_our_scopes(void **state)
{
    (void)state;
    struct arena a own_arena = {0};
    arena_init(&a, 1u << 16);
    const struct scope_manager manager = {S("/run/user/7"), S("/sys/fs/cgroup/user@7.service")};
    struct str dir = scope_dir(&a, &manager, S(ID));
    assert_str(dir, S("/sys/fs/cgroup/user@7.service/anybox.slice/anybox-" ID ".scope"));
    assert_true(scope_is_ours(dir));
    assert_true(cgroup_is_ours(dir));
    assert_false(scope_is_ours(S("/sys/fs/cgroup/anybox.slice/anybox-0123.scope")));
    assert_false(scope_is_ours(STR_EMPTY));
    assert_false(scope_is_ours(str_skip(dir, 1)));
    assert_false(scope_is_ours(S("/sys/fs/cgroup/app.slice/anybox-" ID ".scope")));
    assert_false(scope_is_ours(S("/sys/fs/cgroup/anybox.slice/anybox-" ID ".service")));
}

static bool has(const char *const *argv, const char *word)
{
    for (size_t i = 0; argv[i] != NULL; i++) {
        if (strcmp(argv[i], word) == 0) {
            return true;
        }
    }
    return false;
}

static void test_what_systemd_is_asked_for(void **state)
{
    (void)state;
    struct arena a own_arena = {0};
    arena_init(&a, 1u << 16);
    const struct limits all = {.memory_bytes = 64 << 20, .cpu_millis = 1255, .pids = 20};
    const char *const *argv = scope_argv(&a, S(ID), &all, "/x/boxinit", "box");
    assert_true(has(argv, "--unit=anybox-" ID ".scope"));
    assert_true(has(argv, "--property=MemoryMax=67108864"));
    assert_true(has(argv, "--property=MemorySwapMax=0"));
    assert_true(has(argv, "--property=CPUQuota=125.5%"));
    assert_true(has(argv, "--property=TasksMax=28"));
    assert_true(has(argv, "/x/boxinit") && has(argv, "box"));
    const struct limits none = {0};
    argv = scope_argv(&a, S(ID), &none, "/bin/true", NULL);
    for (size_t i = 0; argv[i] != NULL; i++) {
        assert_null(strstr(argv[i], "Max"));
        assert_null(strstr(argv[i], "Quota"));
    }
    const struct scope_manager manager = {S("/run/user/7"), S("/m")};
    assert_string_equal(scope_envp(&a, &manager)[0], "XDG_RUNTIME_DIR=/run/user/7");
}

/* Plain folders stand in for the kernel's. */
static void test_a_scope_is_planned_and_checked(void **state)
{
    (void)state;
    struct arena a own_arena = {0};
    struct err e = {0};
    char root[] = "/tmp/anybox-test-XXXXXX";
    arena_init(&a, 1u << 16);
    assert_non_null(mkdtemp(root));
    const char *given = arena_printf(&a, "%s/cgroup.controllers", root).p;
    assert_ok(fd_replace_file(AT_FDCWD, given, S("memory pids\n"), 0644, &e), &e);
    const struct limits want = {.memory_bytes = 64 << 20, .cpu_millis = 500, .pids = 20};
    const struct cgroup_host host = {.manager = {S("/run/user/7"), str_from(root)}};
    struct cgroup_set set;
    cgroup_plan(&a, &host, S(ID), &want, &set);
    cgroup_make(&a, &want, &set);
    assert_int_equal(set.n_dirs, 1);
    assert_str(set.dirs[0], scope_dir(&a, &host.manager, S(ID)));
    assert_int_equal(set.version[CONTROL_MEMORY], 2);
    assert_int_equal(set.version[CONTROL_PIDS], 2);
    assert_int_equal(set.version[CONTROL_CPU], 0); /* not given to this manager */
    assert_str(set.manager.runtime, S("/run/user/7"));
    assert_str(cgroup_text(&set), S("cgroup v2"));

    assert_false(cgroup_check_scope(&a, &set)); /* not there */
    const char *dir = arena_cstr(&a, set.dirs[0]);
    assert_ok(fd_mkdirs(dir, 0755, &e), &e);
    const char *memory = arena_printf(&a, "%s/memory.max", dir).p;
    const char *pids = arena_printf(&a, "%s/pids.max", dir).p;
    assert_ok(fd_replace_file(AT_FDCWD, memory, S("67108864\n"), 0644, &e), &e);
    assert_ok(fd_replace_file(AT_FDCWD, pids, S("max\n"), 0644, &e), &e);
    assert_false(cgroup_check_scope(&a, &set)); /* without its limit */
    assert_ok(fd_replace_file(AT_FDCWD, pids, S("28\n"), 0644, &e), &e);
    assert_true(cgroup_check_scope(&a, &set));
    assert_ok(fd_remove_tree(AT_FDCWD, root, &e), &e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_managers_cgroup),
        cmocka_unit_test(test_what_is_no_manager),
        cmocka_unit_test(test_only_our_scopes),
        cmocka_unit_test(test_what_systemd_is_asked_for),
        cmocka_unit_test(test_a_scope_is_planned_and_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
