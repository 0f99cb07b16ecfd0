#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/own.h"
#include "base/proc.h"
#include "test.h"

/* Runs a shell command with the fds given and returns its status. */
static int run_sh(const char *command, const struct proc_fd *fds, size_t n_fds)
{
    const char *argv[] = {"sh", "-c", command, NULL};
    const char *envp[] = {"PATH=/usr/bin:/bin", NULL};
    struct proc_spec spec = {
        .file = "/bin/sh", .argv = argv, .envp = envp, .fds = fds, .n_fds = n_fds};
    struct ctx ctx = {0};
    struct err e;
    int status = -1;
    pid_t pid;

    assert_ok(proc_spawn(&spec, &pid, &e), &e);
    assert_ok(proc_wait(&ctx, pid, &status, &e), &e);
    return status;
}

/* What a shell command writes to its descriptor 1. */
static struct str output_of(struct arena *a, const char *command)
{
    struct proc_fd fds[1] = {{.to = 1}};
    char bytes[4096];
    struct err e;
    ssize_t n;
    int p[2];

    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    fds[0].from = p[1];
    assert_int_equal(run_sh(command, fds, 1), 0);
    (void)close(p[1]);
    n = fd_read(p[0], bytes, sizeof(bytes), &e);
    assert_true(n >= 0);
    (void)close(p[0]);
    return arena_str(a, (struct str){bytes, (size_t)n});
}

static void returns_the_status(void **state)
{
    int status = run_sh("exit 7", NULL, 0);

    (void)state;
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 7);
    status = run_sh("kill -9 $$", NULL, 0);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGKILL);
}

static void finds_programs_in_path(void **state)
{
    const char *argv[] = {"true", NULL};
    struct proc_spec spec = {.file = "true", .argv = argv};
    struct ctx ctx = {0};
    struct err e;
    int status = -1;
    pid_t pid;

    (void)state;
    assert_ok(proc_spawn(&spec, &pid, &e), &e);
    assert_ok(proc_wait(&ctx, pid, &status, &e), &e);
    assert_int_equal(status, 0);
    spec.file = "no-such-program-here";
    assert_fails(proc_spawn(&spec, &pid, &e), &e, ERR_NOT_FOUND, "start no-such-program-here");
    spec.file = "/etc/passwd";
    assert_fails(proc_spawn(&spec, &pid, &e), &e, ERR_DENIED, "start /etc/passwd");
}

static void gives_the_environment_and_nothing_else(void **state)
{
    struct arena a own_arena = {.limit = 1 << 16};

    (void)state;
    assert_int_equal(setenv("LEAK", "secret", 1), 0);
    assert_str(output_of(&a, "echo \"$PATH,$LEAK\""), S("/usr/bin:/bin,\n"));
}

static void unnamed_standard_descriptors_are_null(void **state)
{
    struct arena a own_arena = {.limit = 1 << 16};

    (void)state;
    assert_str(output_of(&a, "readlink /proc/self/fd/0 /proc/self/fd/2"),
               S("/dev/null\n/dev/null\n"));
}

static void closes_everything_else(void **state)
{
    struct arena a own_arena = {.limit = 1 << 16};
    struct proc_fd fds[2] = {{.to = 1}, {.to = 7}};
    int leak = open("/dev/null", O_RDONLY); /* not close-on-exec, as inherited ones are */
    int high = fcntl(leak, F_DUPFD, 90);
    char bytes[256];
    struct err e;
    ssize_t n;
    int p[2];

    (void)state;
    assert_true(leak >= 0 && leak < 7 && high >= 90);
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    fds[0].from = p[1];
    fds[1].from = p[1];
    assert_int_equal(run_sh("for n in 0 1 2 3 4 5 6 7 8 9 90; do "
                            "if [ -e /proc/$$/fd/$n ]; then printf '%s ' $n; fi; done",
                            fds, 2),
                     0);
    (void)close(p[1]);
    n = fd_read(p[0], bytes, sizeof(bytes), &e);
    assert_true(n > 0);
    assert_str(arena_str(&a, (struct str){bytes, (size_t)n}), S("0 1 2 7 "));
    (void)close(p[0]);
    (void)close(leak);
    (void)close(high);
}

/* Two descriptors change places: each is the other's source. */
static void swaps_descriptors(void **state)
{
    char bytes[32] = "";
    struct err e;
    int one[2];
    int two[2];

    (void)state;
    assert_int_equal(pipe2(one, O_CLOEXEC), 0);
    assert_int_equal(pipe2(two, O_CLOEXEC), 0);
    const struct proc_fd fds[] = {{one[1], two[1]}, {two[1], one[1]}, {one[1], 1}};
    char command[128];

    (void)snprintf(command, sizeof(command), "printf b >&%d; printf a >&%d; printf c", two[1],
                   one[1]);
    assert_true(one[1] < 10 && two[1] < 10); /* dash knows one digit only */
    assert_int_equal(run_sh(command, fds, COUNTOF(fds)), 0);
    assert_int_equal(fd_read(one[0], bytes, sizeof(bytes), &e), 2);
    assert_string_equal(bytes, "bc");
    assert_int_equal(fd_read(two[0], bytes, sizeof(bytes), &e), 1);
    assert_int_equal(bytes[0], 'a');
    for (int i = 0; i < 2; i++) {
        (void)close(one[i]);
        (void)close(two[i]);
    }
}

static void refuses_a_bad_descriptor(void **state)
{
    const char *argv[] = {"true", NULL};
    const struct proc_fd fds[] = {{.from = -1, .to = 1}};
    struct proc_spec spec = {.file = "/bin/true", .argv = argv, .fds = fds, .n_fds = 1};
    struct err e;
    pid_t pid;

    (void)state;
    assert_fails(proc_spawn(&spec, &pid, &e), &e, ERR_SYSTEM, "duplicate descriptor -1");
}

static void resets_signals(void **state)
{
    sigset_t blocked, old;
    int piped, ended;

    (void)state;
    assert_int_equal(sigemptyset(&blocked), 0);
    assert_int_equal(sigaddset(&blocked, SIGTERM), 0);
    assert_int_equal(sigprocmask(SIG_BLOCK, &blocked, &old), 0);
    assert_true(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
    piped = run_sh("kill -PIPE $$", NULL, 0);
    ended = run_sh("kill -TERM $$", NULL, 0);
    assert_true(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
    assert_int_equal(sigprocmask(SIG_SETMASK, &old, NULL), 0);
    assert_true(WIFSIGNALED(piped) && WTERMSIG(piped) == SIGPIPE);
    assert_true(WIFSIGNALED(ended) && WTERMSIG(ended) == SIGTERM);
}

static void can_start_a_session(void **state)
{
    const char *argv[] = {"sleep", "30", NULL};
    struct proc_spec spec = {.file = "sleep", .argv = argv, .new_session = true};
    struct ctx ctx = {0};
    struct err e;
    int status = -1;
    pid_t pid;

    (void)state;
    assert_ok(proc_spawn(&spec, &pid, &e), &e);
    assert_int_equal(getsid(pid), pid);
    assert_true(proc_start_time(pid) > 0);
    ctx.deadline_ms = clock_mono_ms() + 30;
    assert_fails(proc_wait(&ctx, pid, &status, &e), &e, ERR_TIMEOUT, "deadline");
    assert_int_equal(kill(pid, SIGTERM), 0);
    ctx.deadline_ms = 0;
    assert_ok(proc_wait(&ctx, pid, &status, &e), &e);
    assert_int_equal(WTERMSIG(status), SIGTERM);
    assert_fails(proc_wait(&ctx, pid, &status, &e), &e, ERR_SYSTEM, "wait for process");
    assert_int_equal(proc_start_time(pid), -1);
}

static void knows_itself(void **state)
{
    struct arena a own_arena = {.limit = 1 << 16};
    struct str dir = proc_self_dir(&a);

    (void)state;
    assert_true(str_starts(dir, S("/")));
    assert_int_equal(access(arena_printf(&a, "%s/test_base_proc", dir.p).p, X_OK), 0);
    assert_true(proc_start_time(getpid()) > 0);
    assert_true(proc_start_time(getpid()) >= proc_start_time(getppid()));
    assert_int_equal(proc_boot_id(&a).len, 36);
}

static void tells_who_is_gone(void **state)
{
    const char *const argv[] = {"true", NULL};
    struct proc_spec spec = {.file = "true", .argv = argv};
    struct ctx ctx = {0};
    long long start = proc_start_time(getpid());
    int status = 0;
    pid_t pid = 0;
    struct err e;

    (void)state;
    assert_false(proc_is_gone(getpid(), start));
    assert_false(proc_is_gone(getpid(), -1));
    assert_true(proc_is_gone(getpid(), start + 1)); /* the number was given to another one */
    assert_ok(proc_spawn(&spec, &pid, &e), &e);
    assert_ok(proc_wait(&ctx, pid, &status, &e), &e);
    assert_true(proc_is_gone(pid, -1));
}

static void a_process_that_ended_runs_no_more_before_it_is_waited_for(void **state)
{
    const char *const argv[] = {"sleep", "60", NULL};
    struct proc_spec spec = {.file = "sleep", .argv = argv};
    struct ctx ctx = {0};
    long long start;
    int status = 0;
    pid_t pid = 0;
    struct err e;

    (void)state;
    assert_ok(proc_spawn(&spec, &pid, &e), &e);
    start = proc_start_time(pid);
    int fd own_fd = proc_open(pid, start, &e);
    struct pollfd ended = {.fd = fd, .events = POLLIN};
    assert_ok(fd, &e);
    assert_fails(proc_open(pid, start + 1, &e), &e, ERR_NOT_FOUND, "has ended");
    assert_false(proc_has_ended(pid, start));
    assert_int_equal(syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0), 0);
    assert_int_equal(ctx_wait(&ctx, &ended, 1, 0, &e), 1);
    assert_false(proc_is_gone(pid, start)); /* a zombie */
    assert_true(proc_has_ended(pid, start));
    assert_fails(proc_open(pid, start, &e), &e, ERR_NOT_FOUND, "has ended");
    assert_ok(proc_wait(&ctx, pid, &status, &e), &e);
    assert_true(proc_is_gone(pid, start));
}

static void nobody_is_gone_for_want_of_a_descriptor(void **state)
{
    struct rlimit old;
    struct rlimit none;
    bool gone;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    none = (struct rlimit){.rlim_cur = 3, .rlim_max = old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    gone = proc_is_gone(getpid(), 1);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    assert_false(gone);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(returns_the_status),
        cmocka_unit_test(finds_programs_in_path),
        cmocka_unit_test(gives_the_environment_and_nothing_else),
        cmocka_unit_test(unnamed_standard_descriptors_are_null),
        cmocka_unit_test(closes_everything_else),
        cmocka_unit_test(swaps_descriptors),
        cmocka_unit_test(refuses_a_bad_descriptor),
        cmocka_unit_test(resets_signals),
        cmocka_unit_test(can_start_a_session),
        cmocka_unit_test(knows_itself),
        cmocka_unit_test(tells_who_is_gone),
        cmocka_unit_test(a_process_that_ended_runs_no_more_before_it_is_waited_for),
        cmocka_unit_test(nobody_is_gone_for_want_of_a_descriptor),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
