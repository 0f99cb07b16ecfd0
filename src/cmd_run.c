/*
 * anybox run: one command in a fresh local box that is gone afterwards.
 *
 * The box belongs to the owner RUN_OWNER, so that no agent takes it for the user's
 * only box. It must not outlive us for long, even when we are killed with -9 while
 * the command runs (which would count as use for ever): it is made with a short
 * lifetime, and a thread of ours extends it as long as we live.
 */
#include <pthread.h>

#include "base/clock.h"
#include "base/thread.h"
#include "cli.h"

#define RUN_OWNER      "run"
#define LEASE_S        120
#define LEASE_RENEW_MS 30000
#define RENEW_LIMIT_MS 10000
#define RENEW_MEMORY   (1u << 20)

struct run_args {
    struct str image, network, cwd;
    int64_t memory, disk, cpu_millis, pids, open_files, timeout_ms;
    struct cli_env env;
};

/* ---- the lease ---------------------------------------------------------- */

struct lease {
    struct box *box;
    struct cancel done;
    pthread_t thread;
};

static void renew(struct lease *l)
{
    struct arena arena own_arena = {0};
    struct err ignored;

    arena_init(&arena, RENEW_MEMORY);
    const struct ctx ctx = {
        .arena = &arena, .cancel = &l->done, .deadline_ms = clock_mono_ms() + RENEW_LIMIT_MS};
    /* A failure is no news here: if the box is gone, the command's own call says so. */
    (void)(box_extend(l->box, &ctx, LEASE_S, &ignored) < 0);
}

static void *keep_lease(void *arg)
{
    struct lease *l = arg;
    const struct ctx ctx = {.cancel = &l->done};
    struct err e;

    while (ctx_wait(&ctx, NULL, 0, clock_mono_ms() + LEASE_RENEW_MS, &e) == 0) {
        renew(l);
    }
    return NULL;
}

static int lease_start(struct lease *l, struct box *box, struct err *e)
{
    l->box = box;
    if (cancel_init(&l->done, e) < 0) {
        return -1;
    }
    if (thread_start(&l->thread, "lease", keep_lease, l, e) < 0) {
        cancel_fini(&l->done);
        return -1;
    }
    return 0;
}

static void lease_end(struct lease *l)
{
    cancel_fire(&l->done);
    (void)pthread_join(l->thread, NULL);
    cancel_fini(&l->done);
}

/* ---- the command -------------------------------------------------------- */

static int read_network(struct str s, enum network *out, struct err *e)
{
    static const struct {
        struct str name;
        enum network value;
    } networks[] = {
        {{"none", 4}, NETWORK_NONE},
        {{"internet", 8}, NETWORK_INTERNET},
        {{"host", 4}, NETWORK_HOST},
    };

    for (size_t i = 0; i < COUNTOF(networks); i++) {
        if (s.len == 0 || str_eq(s, networks[i].name)) {
            *out = networks[i].value;
            return 0;
        }
    }
    return err_set(e, ERR_INVALID, "'%.*s' is not one of none, internet, host", STR_ARG(s));
}

static int run_in_box(const struct cli *cli, struct session *s, struct str id, struct exec_req *req)
{
    struct lease lease;
    struct err e;
    const struct box_want want = {.id = id};

    struct box *box CLEANUP(box_unref_p) =
        boxes_find(s->services.boxes, &s->ctx, &s->scope, &want, &id, &e);
    if (!box || lease_start(&lease, box, &e) < 0) {
        return cli_fail(cli, EXIT_OURS, "%s", e.msg);
    }
    int status = cli_exec(cli, s, box, req);
    lease_end(&lease);
    return status;
}

/* ---- what killed runs left ---------------------------------------------- */

static int note_overdue(void *arg, const struct box_row *row, struct err *e)
{
    bool *overdue = arg;

    (void)e;
    *overdue = *overdue || (row->expires_ms > 0 && row->expires_ms < clock_wall_ms());
    return 0;
}

static int ignore_view(void *arg, const struct box_view *view, struct box *box, struct err *e)
{
    (void)arg;
    (void)view;
    (void)box;
    (void)e;
    return 0;
}

/* Boxes of runs that were killed have ended by now, but nobody else lists this owner and
 * so clears away behind them. */
static void sweep_overdue(struct session *s)
{
    const struct ctx last = session_last_ctx(s);
    bool overdue = false;
    struct err ignored;

    if (store_each_box(s->services.store, &s->arena, S(RUN_OWNER), false, note_overdue, &overdue,
                       &ignored) == 0 &&
        overdue) {
        (void)(boxes_each_made(s->services.boxes, &last, &s->scope, ignore_view, NULL, &ignored) <
               0);
    }
}

/* ---- the whole of it ---------------------------------------------------- */

static int run_once(const struct cli *cli, struct session *s, const struct box_order *order,
                    struct exec_req *req)
{
    struct box_view view;
    bool reused = false;
    struct err e;

    if (boxes_create(s->services.boxes, &s->ctx, &s->scope, order, &view, &reused, &e) < 0) {
        int signo = atomic_load(&s->signals.signo);
        return signo != 0 ? EXIT_SIGNAL + signo : cli_fail(cli, EXIT_OURS, "%s", e.msg);
    }
    int status = run_in_box(cli, s, view.row.id, req);

    const struct box_want want = {.id = view.row.id};
    const struct ctx last = session_last_ctx(s);
    struct str id, name;
    if (boxes_delete(s->services.boxes, &last, &s->scope, &want, &id, &name, &e) < 0) {
        (void)cli_fail(cli, 0,
                       "the sandbox could not be deleted and ends by itself within %d s: %s",
                       LEASE_S, e.msg);
    }
    sweep_overdue(s);
    return status;
}

int cmd_run(struct cli *cli, int argc, char **argv)
{
    struct run_args args = {0};
    const struct opt opts[] = {
        {"--image", OPT_TEXT, &args.image},
        {"--network", OPT_TEXT, &args.network},
        {"--memory", OPT_SIZE, &args.memory},
        {"--cpus", OPT_CPUS, &args.cpu_millis},
        {"--pids", OPT_INTEGER, &args.pids},
        {"--disk", OPT_SIZE, &args.disk},
        {"--open-files", OPT_INTEGER, &args.open_files},
        {"--timeout", OPT_SECONDS, &args.timeout_ms},
        {"--env", OPT_ENV, &args.env},
        {"--cwd", OPT_TEXT, &args.cwd},
    };
    int status = EXIT_SUCCESS;
    struct err e;

    int at = cli_options(cli, opts, COUNTOF(opts), argc, argv, &status);
    if (at < 0) {
        return status;
    }
    if (at == argc) {
        return cli_misused(cli, "which command? For example: " PROGRAM " run echo hello");
    }
    struct box_order order = {
        .provider = S("local"),
        .spec = {.image = args.image,
                 .limits = {.memory_bytes = args.memory,
                            .disk_bytes = args.disk,
                            .cpu_millis = (int32_t)args.cpu_millis,
                            .pids = (int32_t)args.pids,
                            .open_files = (int32_t)args.open_files,
                            .lifetime_s = LEASE_S},
                 .env = args.env.items,
                 .n_env = args.env.n},
    };
    if (read_network(args.network, &order.spec.network, &e) < 0) {
        return cli_misused(cli, "--network: %s", e.msg);
    }
    struct session session own_session = {0};
    if (session_open(&session, cli, S(RUN_OWNER), &e) < 0) {
        return cli_fail(cli, EXIT_OURS, "%s", e.msg);
    }
    struct exec_req req = {.shell = SHELL_NONE, .cwd = args.cwd, .timeout_ms = args.timeout_ms};
    req.argv = cli_words(&session.arena, argc - at, argv + at);
    req.n_argv = (size_t)(argc - at);
    return run_once(cli, &session, &order, &req);
}
