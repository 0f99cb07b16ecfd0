#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/proc.h"
#include "provider/local/local.h"
#include "test.h"

struct fixture {
    char path[64];
    int folder;
    struct arena arena;
    struct err e;
};

static int setup(void **state)
{
    struct fixture *fx = calloc(1, sizeof *fx);
    (void)snprintf(fx->path, sizeof fx->path, "/tmp/anybox-test-XXXXXX");
    assert_non_null(mkdtemp(fx->path));
    fx->folder = open(fx->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    arena_init(&fx->arena, 1u << 20);
    *state = fx;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fx = *state;
    (void)close(fx->folder);
    assert_ok(fd_remove_tree(AT_FDCWD, fx->path, &fx->e), &fx->e);
    arena_fini(&fx->arena);
    free(fx);
    return 0;
}

static void assert_limits(const struct limits *got, const struct limits *want)
{
    assert_int_equal(got->memory_bytes, want->memory_bytes);
    assert_int_equal(got->disk_bytes, want->disk_bytes);
    assert_int_equal(got->cpu_millis, want->cpu_millis);
    assert_int_equal(got->pids, want->pids);
    assert_int_equal(got->open_files, want->open_files);
    assert_int_equal(got->lifetime_s, want->lifetime_s);
    assert_int_equal(got->idle_s, want->idle_s);
}

static void test_round_trip(void **state)
{
    struct fixture *fx = *state;
    const struct meta m = {
        .name = S("a = b"),
        .boot = S("boot-1"),
        .tier = S("root, cgroup v1"),
        .pid = 4711,
        .start = 9000000000,
        .created_at = 1700000000,
        .expires_at = 1700000600,
        .limits = {.memory_bytes = 5ll << 30,
                   .disk_bytes = 1 << 30,
                   .cpu_millis = 1500,
                   .pids = 99,
                   .open_files = 1024,
                   .lifetime_s = 600,
                   .idle_s = 1800},
        .network = NETWORK_NONE,
        .uid_base = 0x7ffe0000,
        .cgroups = {S("/sys/fs/cgroup/memory/anybox/x"), S("/sys/fs/cgroup/pids/anybox/x")},
        .n_cgroups = 2,
    };
    struct meta got;
    assert_ok(meta_save(fx->folder, &m, &fx->e), &fx->e);
    assert_ok(meta_save(fx->folder, &m, &fx->e), &fx->e);
    assert_ok(meta_load(fx->folder, &fx->arena, &got, &fx->e), &fx->e);
    assert_str(got.name, m.name);
    assert_str(got.boot, m.boot);
    assert_str(got.tier, m.tier);
    assert_int_equal(got.pid, m.pid);
    assert_int_equal(got.start, m.start);
    assert_int_equal(got.created_at, m.created_at);
    assert_int_equal(got.expires_at, m.expires_at);
    assert_limits(&got.limits, &m.limits);
    assert_int_equal(got.uid_base, m.uid_base);
    assert_int_equal(got.n_cgroups, 2);
    assert_str(got.cgroups[1], m.cgroups[1]);
}

static void test_what_cannot_be_read(void **state)
{
    struct fixture *fx = *state;
    struct meta m;
    static const char *const bad[] = {"",
                                      "pid=1\n",
                                      "version=1\npid=-4\n",
                                      "version=1\npid=x\n",
                                      "version=1\nmemory=99999999999999999999\n",
                                      "version=1\nnetwork=moon\n",
                                      "version=1\ncgroup=a\ncgroup=b\ncgroup=c\ncgroup=d\n"};
    for (size_t i = 0; i < COUNTOF(bad); i++) {
        assert_fails(meta_parse(str_from(bad[i]), &m, &fx->e), &fx->e, ERR_PROTOCOL, "info file");
    }
    assert_fails(meta_parse(S("version=1\nname=a\0b\n"), &m, &fx->e), &fx->e, ERR_PROTOCOL, "info");
    assert_ok(meta_parse(S("version=2\nfuture=yes\npid=5\n"), &m, &fx->e), &fx->e);
    assert_int_equal(m.pid, 5);
}

static void test_alive(void **state)
{
    struct fixture *fx = *state;
    char *argv[] = {(char[]){"sleep"}, (char[]){"60"}, NULL};
    pid_t pid = 0;
    assert_int_equal(posix_spawn(&pid, "/bin/sleep", NULL, NULL, argv, NULL), 0);
    struct meta m = {.pid = pid, .start = proc_start_time(pid), .boot = proc_boot_id(&fx->arena)};
    assert_true(meta_alive(&m, &fx->arena));

    struct meta other_boot = m;
    other_boot.boot = S("another");
    assert_false(meta_alive(&other_boot, &fx->arena));
    /* Where it could not be read when the box was made. */
    struct meta no_boot = m;
    no_boot.boot = STR_EMPTY;
    assert_true(meta_alive(&no_boot, &fx->arena));
    struct meta other_start = m;
    other_start.start++;
    assert_false(meta_alive(&other_start, &fx->arena));

    /* A zombie is dead, although it has its number and its start time. */
    assert_int_equal(kill(pid, SIGKILL), 0);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    assert_false(meta_alive(&m, &fx->arena));
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_false(meta_alive(&m, &fx->arena));
}

static void write_end(struct fixture *fx, const char *text)
{
    assert_ok(fd_replace_file(fx->folder, "end", str_from(text), 0600, &fx->e), &fx->e);
}

static void assert_reason(struct fixture *fx, const struct meta *m, enum box_end kind,
                          const char *phrase)
{
    enum box_end got;
    assert_str(meta_reason(m, fx->folder, &fx->arena, &got), str_from(phrase));
    assert_int_equal(got, kind);
}

static void test_reasons(void **state)
{
    struct fixture *fx = *state;
    struct meta m = {.boot = proc_boot_id(&fx->arena),
                     .limits = {.lifetime_s = 90, .idle_s = 1800}};
    assert_reason(fx, &m, BOX_END_DELETED, "it was deleted"); /* there is nothing any more */
    assert_ok(meta_save(fx->folder, &m, &fx->e), &fx->e);
    assert_reason(fx, &m, BOX_END_OTHER, "its init process ended");
    write_end(fx, "shutdown");
    assert_reason(fx, &m, BOX_END_OTHER, "it was shut down");
    write_end(fx, "\x1b[2J");
    assert_reason(fx, &m, BOX_END_OTHER, "its init process ended");
    m.boot = S("before");
    assert_reason(fx, &m, BOX_END_OTHER, "the machine was restarted");
    meta_mark_deleted(fx->folder); /* it has ended before */
    assert_reason(fx, &m, BOX_END_OTHER, "the machine was restarted");
    write_end(fx, "");
    meta_mark_deleted(fx->folder);
    assert_reason(fx, &m, BOX_END_DELETED, "it was deleted");
    write_end(fx, "idle\ned");
    assert_reason(fx, &m, BOX_END_IDLE, "it was idle for 30 min");
    write_end(fx, "idle\n");
    assert_reason(fx, &m, BOX_END_IDLE, "it was idle for 30 min");
    write_end(fx, "lifetime");
    assert_reason(fx, &m, BOX_END_LIFETIME, "its lifetime of 90 s was over");
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_round_trip),
        T(test_what_cannot_be_read),
        T(test_alive),
        T(test_reasons),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
