#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/path.h"
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
    assert_true(cgroup_is_ours(S("/sys/fs/cgroup/memory/anybox/0123456789abcdef0123456789abcdef")));
    assert_false(cgroup_is_ours(S("/sys/fs/cgroup/memory/0123456789abcdef0123456789abcdef")));
    assert_false(cgroup_is_ours(S("anybox/0123456789abcdef0123456789abcdef")));
    assert_false(cgroup_is_ours(S("/sys/fs/cgroup/anybox/other")));
    assert_false(cgroup_is_ours(S("/sys/fs/cgroup/anybox/")));
    assert_false(cgroup_is_ours(STR_EMPTY));
}

/* ---- making: plain folders stand in for the kernel's, with the files it would show ---- */

#define ID "0123456789abcdef0123456789abcdef"

struct tree {
    char root[64];
    struct arena arena;
    struct err e;
};

static int setup(void **state)
{
    struct tree *t = calloc(1, sizeof *t);
    (void)snprintf(t->root, sizeof t->root, "/tmp/anybox-test-XXXXXX");
    assert_non_null(mkdtemp(t->root));
    arena_init(&t->arena, 1u << 20);
    *state = t;
    return 0;
}

static int teardown(void **state)
{
    struct tree *t = *state;
    assert_ok(fd_remove_tree(AT_FDCWD, t->root, &t->e), &t->e);
    arena_fini(&t->arena);
    free(t);
    return 0;
}

static struct str at(struct tree *t, const char *below)
{
    return arena_printf(&t->arena, "%s%s", t->root, below);
}

static void put_file(struct tree *t, const char *path, const char *text)
{
    struct str dir = arena_str(&t->arena, path_dir(at(t, path)));
    assert_ok(fd_mkdirs(dir.p, 0755, &t->e), &t->e);
    assert_ok(fd_replace_file(AT_FDCWD, at(t, path).p, str_from(text), 0644, &t->e), &t->e);
}

static void assert_file(struct tree *t, const char *path, const char *want)
{
    struct str text;
    assert_ok(fd_read_file(AT_FDCWD, at(t, path).p, 4096, &t->arena, &text, &t->e), &t->e);
    assert_str(text, str_from(want));
}

static const struct limits want = {.memory_bytes = 64 << 20, .cpu_millis = 1500, .pids = 20};

static void test_limits_of_v1(void **state)
{
    struct tree *t = *state;
    put_file(t, "/memory/own/anybox/" ID "/memory.limit_in_bytes", "");
    put_file(t, "/memory/own/anybox/" ID "/memory.memsw.limit_in_bytes", "");
    put_file(t, "/cpu/anybox/" ID "/cpu.cfs_period_us", "");
    put_file(t, "/cpu/anybox/" ID "/cpu.cfs_quota_us", "");
    struct cgroup_host host = {0};
    host.v1[CONTROL_MEMORY] = (struct cgroup_at){at(t, "/memory"), at(t, "/memory/own")};
    host.v1[CONTROL_CPU] = (struct cgroup_at){at(t, "/cpu"), at(t, "/cpu")};
    host.v1[CONTROL_PIDS] = (struct cgroup_at){at(t, "/pids"), at(t, "/pids")}; /* not there */
    struct cgroup_set set;
    cgroup_plan(&t->arena, &host, S(ID), &want, &set);
    assert_int_equal(set.n_dirs, 2);
    cgroup_make(&t->arena, &want, &set);
    assert_int_equal(set.n_dirs, 2);
    assert_int_equal(set.version[CONTROL_MEMORY], 1);
    assert_int_equal(set.version[CONTROL_CPU], 1);
    assert_int_equal(set.version[CONTROL_PIDS], 0);
    assert_str(cgroup_text(&set), S("cgroup v1"));
    assert_file(t, "/memory/own/anybox/" ID "/memory.limit_in_bytes", "67108864");
    assert_file(t, "/memory/own/anybox/" ID "/memory.memsw.limit_in_bytes", "67108864");
    assert_file(t, "/cpu/anybox/" ID "/cpu.cfs_quota_us", "150000");
    assert_str(set.oom_file, at(t, "/memory/own/anybox/" ID "/memory.oom_control"));
}

/* Our own cgroup has processes and cannot hand out; the one above it can. */
static void test_limits_of_v2_further_up(void **state)
{
    struct tree *t = *state;
    put_file(t, "/slice/cgroup.procs", "");
    put_file(t, "/slice/cgroup.subtree_control", "memory pids");
    put_file(t, "/slice/cgroup.controllers", "cpu memory pids");
    put_file(t, "/slice/own/cgroup.procs", "");
    put_file(t, "/slice/own/cgroup.controllers", "memory pids");
    put_file(t, "/slice/anybox/cgroup.subtree_control", "memory pids");
    put_file(t, "/slice/anybox/" ID "/memory.max", "");
    put_file(t, "/slice/anybox/" ID "/memory.swap.max", "");
    put_file(t, "/slice/anybox/" ID "/pids.max", "");
    const struct limits no_cpu = {.memory_bytes = 64 << 20, .pids = 20};
    struct cgroup_host host = {.v2 = {at(t, ""), at(t, "/slice/own")}};
    struct cgroup_set set;
    cgroup_plan(&t->arena, &host, S(ID), &no_cpu, &set);
    assert_int_equal(set.version[CONTROL_CPU], 2); /* without a limit, too, for its weight */
    cgroup_make(&t->arena, &no_cpu, &set);
    assert_int_equal(set.n_dirs, 1);
    assert_str(set.dirs[0], at(t, "/slice/anybox/" ID));
    assert_str(cgroup_text(&set), S("cgroup v2"));
    assert_file(t, "/slice/anybox/" ID "/memory.max", "67108864");
    assert_file(t, "/slice/anybox/" ID "/memory.swap.max", "0");
    assert_file(t, "/slice/anybox/" ID "/pids.max", "28");
    assert_str(set.oom_file, at(t, "/slice/anybox/" ID "/memory.events"));
}

static void test_memory_that_a_container_leaves(void **state)
{
    struct tree *t = *state;
    struct cgroup_host host = {.v2 = {at(t, ""), at(t, "/own")}};
    assert_int_equal(cgroup_memory_most(&t->arena, &host), INT64_MAX);
    put_file(t, "/memory.max", "max\n");
    put_file(t, "/own/memory.max", "1000\n");
    assert_int_equal(cgroup_memory_most(&t->arena, &host), INT64_MAX);
    put_file(t, "/memory.max", "5000000\n");
    assert_int_equal(cgroup_memory_most(&t->arena, &host), 5000000);
    put_file(t, "/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put_file(t, "/memory/a/memory.limit_in_bytes", "4000000\n");
    put_file(t, "/memory/a/b/memory.limit_in_bytes", "4500000\n");
    host.v1[CONTROL_MEMORY] = (struct cgroup_at){at(t, "/memory"), at(t, "/memory/a/b")};
    assert_int_equal(cgroup_memory_most(&t->arena, &host), 4000000);
}

static void test_nothing_to_be_had(void **state)
{
    struct tree *t = *state;
    put_file(t, "/memory/x", "");
    struct cgroup_host host = {.v2 = {at(t, ""), at(t, "/memory")}};
    host.v1[CONTROL_MEMORY] = (struct cgroup_at){at(t, "/memory"), at(t, "/memory")};
    struct cgroup_set set;
    cgroup_plan(&t->arena, &host, S(ID), &want, &set);
    assert_int_equal(set.n_dirs, 1);
    cgroup_make(&t->arena, &want, &set); /* a plain folder has no limit to set */
    assert_int_equal(set.n_dirs, 0);
    assert_int_equal(cgroup_text(&set).len, 0);
    assert_int_equal(access(at(t, "/memory/anybox").p, F_OK), -1);
}

static void test_sweep(void **state)
{
    struct tree *t = *state;
    const struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    const char *const dirs[] = {"/memory/anybox/" ID, "/memory/anybox/other", "/top/anybox/" ID,
                                "/top/own/anybox/fedcba9876543210fedcba9876543210"};
    for (size_t i = 0; i < COUNTOF(dirs); i++) {
        assert_ok(fd_mkdirs(at(t, dirs[i]).p, 0755, &t->e), &t->e);
        assert_int_equal(utimensat(AT_FDCWD, at(t, dirs[i]).p, old, 0), 0);
    }
    put_file(t, "/memory/anybox/00000000000000000000000000000000/busy", "");
    assert_ok(fd_mkdirs(at(t, "/memory/anybox/11111111111111111111111111111111").p, 0755, &t->e),
              &t->e);
    struct cgroup_host host = {.v2 = {at(t, "/top"), at(t, "/top/own")}};
    host.v1[CONTROL_MEMORY] = (struct cgroup_at){at(t, "/memory"), at(t, "/memory")};
    cgroup_sweep(&t->arena, &host, 60);
    assert_int_equal(access(at(t, "/memory/anybox/" ID).p, F_OK), -1);
    assert_int_equal(access(at(t, "/memory/anybox/other").p, F_OK), 0); /* not an id */
    assert_int_equal(access(at(t, "/memory/anybox/00000000000000000000000000000000").p, F_OK), 0);
    assert_int_equal(access(at(t, "/memory/anybox/11111111111111111111111111111111").p, F_OK), 0);
    assert_int_equal(access(at(t, "/top/anybox").p, F_OK), -1);
    assert_int_equal(access(at(t, "/top/own/anybox").p, F_OK), -1);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

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
        T(test_limits_of_v1),
        T(test_limits_of_v2_further_up),
        T(test_memory_that_a_container_leaves),
        T(test_nothing_to_be_had),
        T(test_sweep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
