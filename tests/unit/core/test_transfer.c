/*
 * Transfers with real processes: the worker is this very program, which main() notices, and does
 * what the variable STUB says. That variable reaches it as all of the environment does: through the
 * pipe.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/own.h"
#include "base/proc.h"
#include "config/config.h"
#include "core/transfer_own.h"
#include "core/worker.h"
#include "test.h"

struct world {
    char dir[64], state[80];
    struct services services;
    struct arena arena;
    struct ctx ctx;
    struct scope scope;
};

static int set_up(void **state)
{
    struct world *w = calloc(1, sizeof(*w));
    struct err e;

    if (w == NULL) {
        return -1;
    }
    (void)snprintf(w->dir, sizeof(w->dir), "/tmp/test-transfer-XXXXXX");
    assert_non_null(mkdtemp(w->dir));
    (void)snprintf(w->state, sizeof(w->state), "%s/state", w->dir);
    clearenv();
    setenv("HOME", w->dir, 1);
    setenv("ANYBOX_HOME", w->state, 1);
    setenv("REMOTE_HOST", "gpu1.example", 1);
    setenv("REMOTE_PASSWORD", "hunter2", 1);
    setenv("PATH", "/usr/bin:/bin", 1);
    w->services.config = xcalloc(1, sizeof(*w->services.config));
    config_load(w->services.config, &(struct config_flags){.program = S("anybox")});
    w->services.store = store_new(w->services.config->state_dir);
    w->services.transfers = transfers_new(&e);
    assert_non_null(w->services.transfers);
    arena_init(&w->arena, 256u << 20);
    w->ctx = (struct ctx){.arena = &w->arena, .deadline_ms = clock_mono_ms() + 60000};
    scope_init(&w->scope, STR_EMPTY, S("/"));
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    struct world *w = *state;
    struct err e;

    scope_fini(&w->scope);
    services_fini(&w->services);
    arena_fini(&w->arena);
    assert_ok(fd_remove_tree(AT_FDCWD, w->dir, &e), &e);
    free(w);
    return 0;
}

static const struct str some_excludes[] = {{"*.o", 3}, {"a\nb:c,", 6}, {"", 0}};

static int start(struct world *w, const char *stub, struct transfer_started *out, struct err *e)
{
    const struct sync_job job = {
        .direction = SYNC_UP,
        .local = S("/home/me/project"),
        .remote = S("project/"),
        .delete_extras = true,
        .legacy_style = true,
        .excludes = some_excludes,
        .n_excludes = COUNTOF(some_excludes),
    };
    const struct sync_counts counts = {.files = 300, .links = 2, .bytes = 4096, .unchanged = 7};
    const struct transfer_order order = {S("ssh:gpu1"), S("gpu1"), &job, &counts};

    setenv("STUB", stub, 1);
    return transfer_start(&w->services, &w->ctx, &w->scope, &order, out, e);
}

static struct transfer_view get(struct world *w, int64_t id)
{
    struct transfer_view view = {0};
    struct err e;

    assert_ok(transfer_get(&w->services, &w->ctx, &w->scope, id, &view, &e), &e);
    return view;
}

static struct transfer_view wait_for(struct world *w, int64_t id,
                                     bool (*want)(struct transfer_view))
{
    struct err e;

    for (;;) {
        struct transfer_view view = get(w, id);

        if (want(view)) {
            return view;
        }
        assert_ok(ctx_wait(&w->ctx, NULL, 0, clock_mono_ms() + 5, &e), &e);
    }
}

static bool has_ended(struct transfer_view v)
{
    return v.row.state > TRANSFER_RUNNING;
}

static bool is_stale(struct transfer_view v)
{
    return v.stale;
}

static bool is_ready(struct transfer_view v)
{
    return str_eq(v.row.progress.note, S("ready"));
}

static struct transfer_started started(struct world *w, const char *stub)
{
    struct transfer_started out = {0};
    struct err e;

    assert_ok(start(w, stub, &out, &e), &e);
    assert_true(out.task_id > 0 && out.pid > 0);
    assert_str(out.status, S("queued"));
    return out;
}

/* ---- the stub ------------------------------------------------------------------------------ */

static void stub_say(struct store *store, int64_t id, const struct transfer_proc *self,
                     const char *note)
{
    const struct transfer_progress p = {.phase = S("uploading"), .note = str_from(note)};
    struct err e;

    if (store_transfer_progress(store, id, self, &p, clock_mono_ms() + 60000, &e) < 0) {
        _exit(9);
    }
}

static bool file_has(const char *path, const char *word)
{
    struct arena arena own_arena = {0};
    struct str text;
    struct err e;

    arena_init(&arena, 1u << 20);
    if (fd_read_file(AT_FDCWD, path, 65536, &arena, &text, &e) < 0) {
        return true;
    }
    return memmem(text.p, text.len, word, strlen(word)) != NULL;
}

static int count_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;

    for (struct dirent *d = readdir(dir); d != NULL; d = readdir(dir)) {
        n += d->d_name[0] != '.';
    }
    (void)closedir(dir);
    return n - 1; /* without that of the folder */
}

static const char *what_is_wrong(const struct config *config, int n_fds)
{
    struct stat in, null;

    if (file_has("/proc/self/environ", "hunter2") || file_has("/proc/self/environ", "STUB")) {
        return "the environment holds secrets";
    }
    if (file_has("/proc/self/cmdline", "hunter2")) {
        return "the arguments hold secrets";
    }
    if (getsid(0) != getpid()) {
        return "it has no session of its own";
    }
    if (n_fds != 4) { /* 0 to 3 */
        return "it has other descriptors";
    }
    if (fstat(0, &in) < 0 || stat("/dev/null", &null) < 0 || in.st_rdev != null.st_rdev) {
        return "stdin is not null";
    }
    if (config->n_hosts != 1 || !str_eq(config->hosts[0].password, S("hunter2"))) {
        return "it does not know the password";
    }
    if (getenv("REMOTE_PASSWORD") == NULL || strcmp(getenv("REMOTE_PASSWORD"), "hunter2") != 0) {
        return "the environment did not come";
    }
    return "";
}

static int run_stub(const char *task_id)
{
    int n_fds = count_fds();
    struct config config;
    struct arena arena own_arena = {0};
    struct transfer_progress last = {.phase = S("complete")};
    struct err e;

    if (worker_receive(WORKER_CONFIG_FD, &config, &e) < 0) {
        return 1;
    }
    const char *stub = getenv("STUB");
    arena_init(&arena, 1u << 20);
    struct store *store = store_new(config.state_dir);
    const struct transfer_proc self = transfer_self(&arena);
    int64_t id = atoll(task_id);

    if (strcmp(stub, "die") == 0) {
        return 1;
    }
    if (strcmp(stub, "stubborn") == 0) {
        (void)signal(SIGTERM, SIG_IGN);
    }
    if (store_claim_transfer(store, id, &self, clock_mono_ms() + 60000, &e) != 1) {
        return 1;
    }
    if (strcmp(stub, "crash") == 0) {
        stub_say(store, id, &self, "half");
        (void)raise(SIGKILL);
    }
    if (strcmp(stub, "check") == 0) {
        last.note = str_from(what_is_wrong(&config, n_fds));
        (void)!write(STDOUT_FILENO, "one\ntwo\nthree\n", 14);
        return store_end_transfer(store, id, &self, TRANSFER_COMPLETED, &last, STR_EMPTY, &e) == 1
                   ? 0
                   : 1;
    }
    stub_say(store, id, &self, "ready");
    (void)sleep(60);
    return 1;
}

/* ---- tests ---------------------------------------------------------------------------------- */

static void a_worker_gets_its_secrets_by_a_pipe_only(void **state)
{
    struct world *w = *state;
    struct transfer_started s = started(w, "check");
    struct transfer_view v = wait_for(w, s.task_id, has_ended);
    struct stat st;

    assert_string_equal(transfer_status(v.row.state), "completed");
    assert_str(v.row.progress.note, STR_EMPTY);
    assert_false(v.stale);
    assert_int_equal(stat(arena_cstr(&w->arena, s.log_file), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(stat(arena_printf(&w->arena, "%s/transfers", w->state).p, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
}

static void the_log_has_a_head_and_the_workers_output(void **state)
{
    struct world *w = *state;
    struct transfer_started s = started(w, "check");
    struct transfer_view v = wait_for(w, s.task_id, has_ended);
    struct str log = transfer_log(&v.row, 100, &w->arena);
    struct str first = str_cut(log, '\n', &log);

    assert_str(first, S("== transfer task 1 (local_to_remote)"));
    assert_true(str_starts(str_cut(log, '\n', &log), S("created_at: 20")));
    assert_str(str_cut(log, '\n', &log), S("sandbox: gpu1"));
    assert_str(str_cut(log, '\n', &log), S("local_path: /home/me/project"));
    assert_str(str_cut(log, '\n', &log), S("remote_path: project/"));
    assert_str(log, S("one\ntwo\nthree\n"));
    assert_str(transfer_log(&v.row, 2, &w->arena), S("two\nthree\n"));
    assert_str(transfer_log(&v.row, 1, &w->arena), S("three\n"));
}

static void what_is_wanted_comes_back(void **state)
{
    struct world *w = *state;
    struct transfer_started s = started(w, "check");
    struct transfer_view v = wait_for(w, s.task_id, has_ended);
    struct sync_job job;
    struct err e;

    assert_ok(transfer_unpack_job(&v.row, &w->arena, &job, &e), &e);
    assert_int_equal(job.direction, SYNC_UP);
    assert_str(job.local, S("/home/me/project"));
    assert_str(job.remote, S("project/"));
    assert_true(job.delete_extras && job.legacy_style && !job.checksum && !job.gitignore);
    assert_int_equal(job.n_excludes, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_str(job.excludes[i], some_excludes[i]);
    }
    v.row.options = S("9:dc");
    assert_fails(transfer_unpack_job(&v.row, &w->arena, &job, &e), &e, ERR_PROTOCOL, "options");
}

static void one_that_dies_before_its_first_word_is_stale(void **state)
{
    struct world *w = *state;
    struct transfer_started s = started(w, "die");
    struct transfer_view v = wait_for(w, s.task_id, is_stale);

    assert_int_equal(v.row.state, TRANSFER_QUEUED);
    assert_int_equal(v.row.progress.files_total, 302);
}

static void one_that_was_killed_is_stale_and_can_be_resumed(void **state)
{
    struct world *w = *state;
    struct transfer_started s = started(w, "crash");
    struct transfer_view v = wait_for(w, s.task_id, is_stale);
    struct transfer_started again;
    struct err e;

    assert_int_equal(v.row.state, TRANSFER_RUNNING);
    assert_str(v.row.progress.note, S("half"));
    setenv("STUB", "run", 1);
    assert_ok(transfer_resume(&w->services, &w->ctx, &w->scope, s.task_id, &again, &e), &e);
    assert_int_equal(again.task_id, s.task_id);
    assert_true(again.pid != s.pid);
    (void)wait_for(w, s.task_id, is_ready);
    assert_fails(transfer_resume(&w->services, &w->ctx, &w->scope, s.task_id, &again, &e), &e,
                 ERR_EXISTS, "under way");
    v = get(w, s.task_id);
    struct str log = transfer_log(&v.row, 99, &w->arena);
    assert_non_null(memmem(log.p, log.len, "resumed at", 10));
    struct transfer_cancelled c;
    assert_ok(transfer_cancel(&w->services, &w->ctx, &w->scope, s.task_id, 5000, &c, &e), &e);
}

static void a_lease_that_is_over_makes_it_stale(void **state)
{
    struct world *w = *state;
    struct transfer_started s = started(w, "run");
    struct transfer_view v = wait_for(w, s.task_id, is_ready);

    assert_false(transfer_is_stale(&v.row, &w->arena));
    v.row.lease_ms = clock_mono_ms() - 1;
    assert_true(transfer_is_stale(&v.row, &w->arena));
    v.row.lease_ms = INT64_MAX;
    assert_false(transfer_is_stale(&v.row, &w->arena));
    v.row.proc.start++;
    assert_true(transfer_is_stale(&v.row, &w->arena)); /* another process has the number */
    v.row.proc.start--;
    v.row.proc.boot = S("another boot");
    assert_true(transfer_is_stale(&v.row, &w->arena));
    struct transfer_cancelled c;
    struct err e;
    assert_ok(transfer_cancel(&w->services, &w->ctx, &w->scope, s.task_id, 5000, &c, &e), &e);
}

static void cancel_ends_the_worker_at_once(void **state)
{
    struct world *w = *state;
    struct transfer_started s = started(w, "run");
    struct transfer_cancelled c;
    struct err e;
    int64_t began = clock_mono_ms();

    (void)wait_for(w, s.task_id, is_ready);
    assert_ok(transfer_cancel(&w->services, &w->ctx, &w->scope, s.task_id, 30000, &c, &e), &e);
    assert_true(clock_mono_ms() - began < 20000);
    assert_int_equal(c.state, TRANSFER_CANCELLED);
    assert_true(c.terminated && !c.killed && !c.already && !c.lives);
    assert_true(proc_has_ended((pid_t)s.pid, -1));
    assert_int_equal(get(w, s.task_id).row.state, TRANSFER_CANCELLED);
    assert_false(get(w, s.task_id).stale);
    assert_ok(transfer_cancel(&w->services, &w->ctx, &w->scope, s.task_id, 30000, &c, &e), &e);
    assert_true(c.already && !c.terminated);
}

static void a_stubborn_worker_is_killed(void **state)
{
    struct world *w = *state;
    struct transfer_started s = started(w, "stubborn");
    struct transfer_cancelled c;
    struct err e;

    (void)wait_for(w, s.task_id, is_ready);
    assert_ok(transfer_cancel(&w->services, &w->ctx, &w->scope, s.task_id, 100, &c, &e), &e);
    assert_true(c.terminated && c.killed);
    assert_true(proc_has_ended((pid_t)s.pid, -1));
}

static void a_process_that_has_got_the_number_is_left_alone(void **state)
{
    struct world *w = *state;
    struct transfer_started s = started(w, "crash");
    struct transfer_view v = wait_for(w, s.task_id, is_stale);
    const char *const argv[] = {"sleep", "60", NULL};
    const struct proc_spec spec = {.file = "sleep", .argv = argv};
    struct transfer_cancelled c;
    struct transfer_proc victim = v.row.proc;
    int status;
    pid_t pid = 0;
    struct err e;

    /* The row names a process that lives, with the start time of one that does not. */
    assert_ok(proc_spawn(&spec, &pid, &e), &e);
    victim.pid = pid;
    victim.start = proc_start_time(pid) - 1;
    assert_int_equal(store_requeue_transfer(w->services.store, &v.row, &victim, INT64_MAX, &e), 1);
    assert_int_equal(store_claim_transfer(w->services.store, s.task_id, &victim, INT64_MAX, &e), 1);
    assert_ok(transfer_cancel(&w->services, &w->ctx, &w->scope, s.task_id, 0, &c, &e), &e);
    assert_int_equal(c.state, TRANSFER_CANCELLED);
    assert_false(c.terminated || c.killed);
    assert_false(proc_has_ended(pid, -1));
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_ok(proc_wait(&w->ctx, pid, &status, &e), &e);
}

static void a_queued_one_is_cancelled_without_a_signal(void **state)
{
    struct world *w = *state;
    const struct transfer_row row = {.proc = transfer_self(&w->arena), .lease_ms = INT64_MAX};
    struct transfer_cancelled c;
    int64_t id = 0;
    struct err e;

    assert_ok(store_add_transfer(w->services.store, &row, S("/x"), &id, &e), &e);
    assert_false(get(w, id).stale);
    assert_ok(transfer_cancel(&w->services, &w->ctx, &w->scope, id, 0, &c, &e), &e);
    assert_int_equal(c.state, TRANSFER_CANCELLED); /* and this process, which holds it, lives */
}

static void others_cannot_touch_it(void **state)
{
    struct world *w = *state;
    struct transfer_started s = started(w, "check");
    struct transfer_started again;
    struct transfer_cancelled c;
    struct transfer_view v;
    struct scope other;
    struct err e;

    (void)wait_for(w, s.task_id, has_ended);
    scope_init(&other, S("key:b"), S("/"));
    assert_fails(transfer_get(&w->services, &w->ctx, &other, s.task_id, &v, &e), &e, ERR_NOT_FOUND,
                 "no transfer");
    assert_fails(transfer_cancel(&w->services, &w->ctx, &other, s.task_id, 0, &c, &e), &e,
                 ERR_NOT_FOUND, "no transfer");
    assert_fails(transfer_resume(&w->services, &w->ctx, &other, s.task_id, &again, &e), &e,
                 ERR_NOT_FOUND, "no transfer");
    assert_fails(transfer_resume(&w->services, &w->ctx, &w->scope, s.task_id, &again, &e), &e,
                 ERR_INVALID, "complete");
    scope_fini(&other);
}

static void there_are_not_too_many_at_once(void **state)
{
    struct world *w = *state;
    const struct transfer_row row = {.proc = transfer_self(&w->arena), .lease_ms = INT64_MAX};
    struct transfer_started s;
    int64_t id;
    struct err e;

    for (int i = 0; i < TRANSFERS_AT_ONCE; i++) {
        assert_ok(store_add_transfer(w->services.store, &row, S("/x"), &id, &e), &e);
    }
    assert_fails(start(w, "check", &s, &e), &e, ERR_LIMIT, "cancel_file_transfer_task");
}

static void a_worker_that_is_told_half_gives_up(void **state)
{
    struct world *w = *state;
    struct config got;
    struct err e;
    int ends[2];

    (void)w;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "5:0.1.0,1:9,5:A=123,", 20), 20);
    (void)close(ends[1]);
    assert_int_equal(worker_receive(ends[0], &got, &e), -1);
    assert_int_equal(e.kind, ERR_PROTOCOL);
    (void)close(ends[0]);
    config_fini(&got);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(a_worker_gets_its_secrets_by_a_pipe_only),
        TEST(the_log_has_a_head_and_the_workers_output),
        TEST(what_is_wanted_comes_back),
        TEST(one_that_dies_before_its_first_word_is_stale),
        TEST(one_that_was_killed_is_stale_and_can_be_resumed),
        TEST(a_lease_that_is_over_makes_it_stale),
        TEST(cancel_ends_the_worker_at_once),
        TEST(a_stubborn_worker_is_killed),
        TEST(a_process_that_has_got_the_number_is_left_alone),
        TEST(a_queued_one_is_cancelled_without_a_signal),
        TEST(others_cannot_touch_it),
        TEST(there_are_not_too_many_at_once),
        TEST(a_worker_that_is_told_half_gives_up),
    };

    if (argc > 3 && strcmp(argv[1], "transfer-worker") == 0) {
        _exit(run_stub(argv[3])); /* without the sanitizers' last words in the log */
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
