/* The local provider around a boxinit of the test's own: what is refused, and that
 * nothing stays behind. Real boxes are made by the end-to-end tests. */
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/proc.h"
#include "provider/local/local.h"
#include "test.h"

#define ID "0123456789abcdef0123456789abcdef"

struct fixture {
    char root[64];
    struct arena arena;
    struct ctx ctx;
    struct provider *provider;
    struct box_info seen[4];
    size_t n_seen;
    struct err e;
};

static int setup(void **state)
{
    struct fixture *fx = calloc(1, sizeof *fx);
    (void)snprintf(fx->root, sizeof fx->root, "/tmp/anybox-test-XXXXXX");
    assert_non_null(mkdtemp(fx->root));
    arena_init(&fx->arena, 16u << 20);
    fx->ctx = (struct ctx){.arena = &fx->arena, .deadline_ms = clock_mono_ms() + 20000};
    const struct provider_conf conf = {.name = S("here"),
                                       .state_dir = str_from(fx->root),
                                       .program_dir = str_from(fx->root),
                                       .defaults = {.memory_bytes = 64 << 20, .pids = 50}};
    fx->provider = provider_type(S("local"))->open(&conf, &fx->e);
    assert_non_null(fx->provider);
    *state = fx;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fx = *state;
    fx->provider->ops->close(fx->provider);
    assert_ok(fd_remove_tree(AT_FDCWD, fx->root, &fx->e), &fx->e);
    arena_fini(&fx->arena);
    free(fx);
    return 0;
}

static const char *in_root(struct fixture *fx, const char *below)
{
    return arena_printf(&fx->arena, "%s/%s", fx->root, below).p;
}

/* A boxinit that is a shell script. */
static void put_boxinit(struct fixture *fx, const char *script)
{
    struct str text = arena_printf(&fx->arena, "#!/bin/sh\n%s\n", script);
    assert_ok(fd_replace_file(AT_FDCWD, in_root(fx, "boxinit"), text, 0755, &fx->e), &fx->e);
}

static void assert_nothing_left(struct fixture *fx)
{
    assert_int_equal(access(in_root(fx, "boxes/" ID), F_OK), -1);
}

static struct box *create(struct fixture *fx, struct box_spec spec)
{
    spec.id = S(ID);
    return provider_create(fx->provider, &fx->ctx, &spec, &fx->e);
}

static void assert_refused(struct fixture *fx, struct box_spec spec, enum err_kind kind,
                           const char *word)
{
    assert_null(create(fx, spec));
    assert_fails(-1, &fx->e, kind, word);
    assert_nothing_left(fx);
}

static void test_what_is_refused(void **state)
{
    struct fixture *fx = *state;
    put_boxinit(fx, "exit 9");
    const struct str bad_env[] = {S("NOVALUE")};
    assert_refused(fx, (struct box_spec){.image = S("python:3.12")}, ERR_UNSUPPORTED,
                   "python:3.12");
    assert_refused(fx, (struct box_spec){.network = NETWORK_HOST}, ERR_DENIED,
                   "allow_host_network");
    assert_refused(fx, (struct box_spec){.limits = {.memory_bytes = 1000}}, ERR_INVALID,
                   "at least 16 MiB");
    assert_refused(fx, (struct box_spec){.name = S("a\nb")}, ERR_INVALID, "control character");
    assert_refused(fx, (struct box_spec){.env = bad_env, .n_env = 1}, ERR_INVALID, "NAME=value");
}

static void test_missing_boxinit(void **state)
{
    struct fixture *fx = *state;
    assert_refused(fx, (struct box_spec){0}, ERR_NOT_FOUND, "libexec/anybox/boxinit");
}

static void test_boxinit_that_fails(void **state)
{
    struct fixture *fx = *state;
    put_boxinit(fx, "exit 3");
    assert_refused(fx, (struct box_spec){0}, ERR_SYSTEM, "status 3");
    put_boxinit(fx, "kill -9 $$");
    assert_refused(fx, (struct box_spec){0}, ERR_SYSTEM, "signal 9");
    put_boxinit(fx, "printf 'nonsense that is no frame' >&4");
    assert_refused(fx, (struct box_spec){0}, ERR_PROTOCOL, "");
    put_boxinit(fx, "printf '\\001\\000\\000\\000e' >&4"); /* READY without a pid */
    assert_refused(fx, (struct box_spec){0}, ERR_PROTOCOL, "understood");
    /* FAIL: kind 4 (denied), errno 1, "no" */
    put_boxinit(
        fx, "printf '\\014\\000\\000\\000I\\004\\001\\000\\000\\000\\002\\000\\000\\000no' >&4");
    assert_refused(fx, (struct box_spec){0}, ERR_DENIED, "could not be set up: no");
}

static void test_boxinit_that_hangs(void **state)
{
    struct fixture *fx = *state;
    put_boxinit(fx, "exec sleep 100");
    fx->ctx.deadline_ms = clock_mono_ms() + 150;
    assert_refused(fx, (struct box_spec){0}, ERR_TIMEOUT, "did not start");
}

static void test_boxinit_sees_only_what_it_should(void **state)
{
    struct fixture *fx = *state;
    assert_int_equal(setenv("ANYBOX_TEST_SECRET", "x", 1), 0);
    int leak = open("/dev/null", O_RDONLY); /* without close-on-exec */
    put_boxinit(fx, "{ env; ls /proc/self/fd; } > \"${0%/*}/saw\"; exit 1");
    assert_refused(fx, (struct box_spec){0}, ERR_SYSTEM, "status 1");
    (void)close(leak);
    assert_int_equal(unsetenv("ANYBOX_TEST_SECRET"), 0);
    struct str saw;
    assert_ok(fd_read_file(AT_FDCWD, in_root(fx, "saw"), 4096, &fx->arena, &saw, &fx->e), &fx->e);
    assert_null(strstr(saw.p, "ANYBOX_TEST_SECRET"));
    assert_null(strstr(saw.p, "HOME="));
    assert_non_null(strstr(saw.p, "5\n"));
    assert_null(strstr(saw.p, "8\n"));
}

/* ---- boxes that others left ------------------------------------------------------------- */

static int make_folder(struct fixture *fx, const struct meta *m)
{
    assert_ok(fd_mkdirs(in_root(fx, "boxes/" ID), 0700, &fx->e), &fx->e);
    int folder = open(in_root(fx, "boxes/" ID), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (m != NULL) {
        assert_ok(meta_save(folder, m, &fx->e), &fx->e);
    }
    return folder;
}

static int see(void *arg, const struct box_info *info, struct err *e)
{
    (void)e;
    struct fixture *fx = arg;
    fx->seen[fx->n_seen++] = *info;
    return 0;
}

static void test_dead_box(void **state)
{
    struct fixture *fx = *state;
    const struct meta m = {.name = S("old"), .pid = 1, .start = 1, .boot = S("another boot")};
    int folder = make_folder(fx, &m);
    assert_ok(provider_list(fx->provider, &fx->ctx, see, fx, &fx->e), &fx->e);
    assert_int_equal(fx->n_seen, 1);
    assert_str(fx->seen[0].ref, S(ID));
    assert_str(fx->seen[0].name, S("old"));
    assert_int_equal(fx->seen[0].state, BOX_GONE);
    assert_str(fx->seen[0].ended, S("the machine was restarted"));
    assert_null(provider_attach(fx->provider, &fx->ctx, S(ID), &fx->e));
    assert_fails(-1, &fx->e, ERR_GONE, "the machine was restarted");

    assert_int_equal(flock(folder, LOCK_EX), 0); /* as if it were being made */
    assert_ok(provider_sweep(fx->provider, &fx->ctx, &fx->e), &fx->e);
    assert_int_equal(access(in_root(fx, "boxes/" ID), F_OK), 0);
    (void)close(folder);
    assert_ok(provider_sweep(fx->provider, &fx->ctx, &fx->e), &fx->e);
    assert_nothing_left(fx);
}

static void test_box_that_was_never_finished(void **state)
{
    struct fixture *fx = *state;
    (void)close(make_folder(fx, NULL));
    assert_null(provider_attach(fx->provider, &fx->ctx, S(ID), &fx->e));
    assert_fails(-1, &fx->e, ERR_UNREACHABLE, "being made");
    assert_ok(provider_sweep(fx->provider, &fx->ctx, &fx->e), &fx->e);
    assert_nothing_left(fx);
}

static void test_live_box_is_not_swept(void **state)
{
    struct fixture *fx = *state;
    const struct meta m = {
        .pid = getpid(), .start = proc_start_time(getpid()), .boot = proc_boot_id(&fx->arena)};
    (void)close(make_folder(fx, &m));
    assert_ok(provider_sweep(fx->provider, &fx->ctx, &fx->e), &fx->e);
    assert_int_equal(access(in_root(fx, "boxes/" ID), F_OK), 0);
    struct box *b = provider_attach(fx->provider, &fx->ctx, S(ID), &fx->e);
    assert_non_null(b);
    struct box_info info;
    assert_ok(box_info(b, &fx->ctx, &info, &fx->e), &fx->e);
    assert_int_equal(info.state, BOX_RUNNING);
    /* Nobody listens, although the process lives. */
    const struct exec_req req = {.command = S("true")};
    struct exec_result result;
    assert_fails(box_exec(b, &fx->ctx, &req, NULL, &result, &fx->e), &fx->e, ERR_UNREACHABLE,
                 "sandbox 0123456789ab: its agent does not answer");
    box_unref(b);
}

static void test_unknown_refs(void **state)
{
    struct fixture *fx = *state;
    static const char *const refs[] = {"",     "..",    "/etc/passwd",
                                       "0123", ID "00", "0123456789ABCDEF0123456789ABCDEF"};
    for (size_t i = 0; i < COUNTOF(refs); i++) {
        assert_null(provider_attach(fx->provider, &fx->ctx, str_from(refs[i]), &fx->e));
        assert_int_equal(fx->e.kind, ERR_NOT_FOUND);
    }
    assert_null(provider_attach(fx->provider, &fx->ctx, S(ID), &fx->e));
    assert_int_equal(fx->e.kind, ERR_GONE);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_what_is_refused),
        T(test_missing_boxinit),
        T(test_boxinit_that_fails),
        T(test_boxinit_that_hangs),
        T(test_boxinit_sees_only_what_it_should),
        T(test_dead_box),
        T(test_box_that_was_never_finished),
        T(test_live_box_is_not_swept),
        T(test_unknown_refs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
