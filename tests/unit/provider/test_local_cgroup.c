#include "provider/local/cgroup.h"
#include "test.h"

static void parse(struct arena *a, const char *self, const char *mounts, struct cgroup_host *out)
{
    arena_init(a, 1u << 20);
    cgroup_parse_host(a, str_from(self), str_from(mounts), out);
}

static void test_v1_with_own_cgroup_below_the_root(void **state)
{
    (void)state;
    struct arena a own_arena = {0};
    struct cgroup_host host;
    parse(&a,
          "9:name=systemd:/\n"
          "8:pids:/\n"
          "4:memory:/jobs/17\n"
          "1:cpu,cpuacct:/x\n"
          "0::/\n",
          "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
          "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
          "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:4 master:1 - cgroup cgroup "
          "rw,memory\n"
          "39 31 0:36 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids\n"
          "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n",
          &host);
    assert_str(host.v1[CONTROL_MEMORY].own, S("/sys/fs/cgroup/memory/jobs/17"));
    assert_str(host.v1[CONTROL_MEMORY].mount, S("/sys/fs/cgroup/memory"));
    assert_str(host.v1[CONTROL_CPU].own, S("/sys/fs/cgroup/cpu,cpuacct/x"));
    assert_str(host.v1[CONTROL_PIDS].own, S("/sys/fs/cgroup/pids"));
    assert_str(host.v2.own, S("/sys/fs/cgroup/unified"));
}

static void test_v2_only(void **state)
{
    (void)state;
    struct arena a own_arena = {0};
    struct cgroup_host host;
    parse(&a, "0::/user.slice/user-1000.slice/session-3.scope\n",
          "29 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n", &host);
    assert_str(host.v2.own, S("/sys/fs/cgroup/user.slice/user-1000.slice/session-3.scope"));
    assert_str(host.v2.mount, S("/sys/fs/cgroup"));
    assert_int_equal(host.v1[CONTROL_MEMORY].mount.len, 0);
}

/* A container without a cgroup namespace: the mount shows a part of the hierarchy. */
static void test_mount_of_a_part(void **state)
{
    (void)state;
    struct arena a own_arena = {0};
    struct cgroup_host host;
    parse(&a,
          "4:memory:/docker/abc/inner\n"
          "8:pids:/docker/abc\n"
          "1:cpu:/docker/abcdef\n",
          "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
          "36 31 0:33 /docker/abc /sys/fs/cgroup/pids ro - cgroup cgroup rw,pids\n"
          "37 31 0:34 /docker/abc /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n",
          &host);
    assert_str(host.v1[CONTROL_MEMORY].own, S("/sys/fs/cgroup/memory/inner"));
    assert_str(host.v1[CONTROL_PIDS].own, S("/sys/fs/cgroup/pids"));
    assert_int_equal(host.v1[CONTROL_CPU].mount.len, 0);
}

static void test_cgroup_outside_the_namespace(void **state)
{
    (void)state;
    struct arena a own_arena = {0};
    struct cgroup_host host;
    parse(&a, "0::/../other\n", "29 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", &host);
    assert_int_equal(host.v2.mount.len, 0);
}

static void test_mount_point_with_a_blank(void **state)
{
    (void)state;
    struct arena a own_arena = {0};
    struct cgroup_host host;
    parse(&a, "0::/a\n", "29 23 0:26 / /mnt/my\\040groups rw - cgroup2 cgroup2 rw\n", &host);
    assert_str(host.v2.own, S("/mnt/my groups/a"));
}

static void test_nonsense(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",     "\n\n", "1", "::", "0::", "a:b:c", "0::relative", "29 23 0:26 / ", "- - - - - - -",
        "x \\0"};
    for (size_t i = 0; i < COUNTOF(texts); i++) {
        for (size_t k = 0; k < COUNTOF(texts); k++) {
            struct arena a own_arena = {0};
            struct cgroup_host host;
            parse(&a, texts[i], texts[k], &host);
            assert_int_equal(host.v2.mount.len, 0);
        }
    }
}

static void test_only_our_folders_are_removed(void **state)
{
    (void)state;
    struct str id = S("0123456789abcdef0123456789abcdef");
    assert_true(
        cgroup_is_ours(S("/sys/fs/cgroup/memory/anybox/0123456789abcdef0123456789abcdef"), id));
    assert_false(cgroup_is_ours(S("/sys/fs/cgroup/memory/0123456789abcdef0123456789abcdef"), id));
    assert_false(cgroup_is_ours(S("anybox/0123456789abcdef0123456789abcdef"), id));
    assert_false(cgroup_is_ours(S("/sys/fs/cgroup/anybox/other"), id));
    assert_false(cgroup_is_ours(S("/sys/fs/cgroup/anybox/"), STR_EMPTY));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_v1_with_own_cgroup_below_the_root),
        cmocka_unit_test(test_v2_only),
        cmocka_unit_test(test_mount_of_a_part),
        cmocka_unit_test(test_cgroup_outside_the_namespace),
        cmocka_unit_test(test_mount_point_with_a_blank),
        cmocka_unit_test(test_nonsense),
        cmocka_unit_test(test_only_our_folders_are_removed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
