/*
 * The boxes, as a person at a terminal uses them: services, signals, and a command's
 * three streams.
 *
 * Signals are blocked in every thread but read by one of ours, so no handler and no
 * global is needed. A command in a box is told to stop by the session's cancel, which
 * box_exec() watches; the thread that got the second signal ends the program at once, but
 * for SIGHUP: a terminal that closes often sends it twice, and the box must still go.
 */
#include <errno.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/own.h"
#include "base/thread.h"
#include "cli.h"

#define ARENA_MAX     (256u << 20)
#define CLEAN_UP_MS   10000
#define KILL_GRACE_MS 1000

/* ---- signals ------------------------------------------------------------ */

static void stop_set(sigset_t *set)
{
    (void)sigemptyset(set);
    (void)sigaddset(set, SIGINT);
    (void)sigaddset(set, SIGTERM);
    (void)sigaddset(set, SIGHUP);
    (void)sigaddset(set, SIGQUIT);
}

static void *watch_signals(void *arg)
{
    struct cli_signals *s = arg;
    sigset_t set;
    struct err e;

    stop_set(&set);
    int fd own_fd = signalfd(-1, &set, SFD_CLOEXEC);
    const struct ctx ctx = {.cancel = &s->done};
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    while (ctx_wait(&ctx, &ready, 1, 0, &e) > 0) {
        struct signalfd_siginfo info;
        if (fd_read(fd, &info, sizeof(info), &e) != (ssize_t)sizeof(info)) {
            break;
        }
        int none = 0;
        if (!atomic_compare_exchange_strong(&s->signo, &none, (int)info.ssi_signo) &&
            info.ssi_signo != SIGHUP) {
            _exit(EXIT_SIGNAL + (int)info.ssi_signo);
        }
        cancel_fire(&s->cancel);
    }
    return NULL;
}

int cli_signals_init(struct cli_signals *s, struct err *e)
{
    sigset_t set;

    if (cancel_init(&s->cancel, e) < 0) {
        return -1;
    }
    if (cancel_init(&s->done, e) < 0) {
        cancel_fini(&s->cancel);
        return -1;
    }
    stop_set(&set);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    if (thread_start(&s->thread, "signals", watch_signals, s, e) < 0) {
        cancel_fini(&s->done);
        cancel_fini(&s->cancel);
        return -1;
    }
    s->started = true;
    return 0;
}

void cli_signals_fini(struct cli_signals *s)
{
    if (!s->started) {
        return;
    }
    cancel_fire(&s->done);
    (void)pthread_join(s->thread, NULL);
    cancel_fini(&s->done);
    cancel_fini(&s->cancel);
    s->started = false;
}

/* ---- the session -------------------------------------------------------- */

int session_open(struct session *s, const struct cli *cli, struct str owner, struct err *e)
{
    /* First, while there is no other thread that would have to block signals too. */
    if (cli_signals_init(&s->signals, e) < 0) {
        return -1;
    }
    struct config_flags flags = cli->flags;
    flags.once = true;
    if (services_init(&s->services, &flags, e) < 0) {
        return -1;
    }
    const struct config *config = s->services.config;
    if (config->problem.len > 0) {
        return err_set(e, ERR_INVALID, "%.*s", STR_ARG(config->problem));
    }
    arena_init(&s->arena, ARENA_MAX);
    scope_init(&s->scope, owner, config->folder);
    s->scoped = true;
    s->ctx = (struct ctx){.arena = &s->arena, .cancel = &s->signals.cancel};
    return 0;
}

void session_close(struct session *s)
{
    if (s->scoped) {
        scope_fini(&s->scope);
    }
    services_fini(&s->services);
    arena_fini(&s->arena);
    cli_signals_fini(&s->signals);
}

struct str cli_owner(struct str typed)
{
    return str_eq(typed, S("user")) ? STR_EMPTY : typed;
}

struct box_want cli_want(struct str typed)
{
    return (struct box_want){.name = typed};
}

struct box *cli_find(struct session *s, struct str typed, struct err *e)
{
    const struct box_want want = cli_want(typed);
    struct str id;

    return boxes_find(s->services.boxes, &s->ctx, &s->scope, &want, &id, e);
}

struct ctx session_last_ctx(struct session *s)
{
    return (struct ctx){.arena = &s->arena, .deadline_ms = clock_mono_ms() + CLEAN_UP_MS};
}

/* ---- a command with our streams ----------------------------------------- */

struct streams {
    bool closed; /* stdout or stderr: nobody reads it any more */
    uint64_t lost;
};

static int pass_on(void *arg, enum stream from, struct str bytes, struct err *e)
{
    struct streams *s = arg;

    if (fd_write_all(from == STREAM_OUT ? STDOUT_FILENO : STDERR_FILENO, bytes, e) == 0) {
        return 0;
    }
    s->closed = e->sys == EPIPE;
    return err_wrap(e, "write to %s", from == STREAM_OUT ? "stdout" : "stderr");
}

static void count_lost(void *arg, enum stream from, uint64_t n)
{
    struct streams *s = arg;

    (void)from;
    s->lost += n;
}

static ssize_t read_stdin(void *arg, char *to, size_t cap, struct err *e)
{
    (void)arg;
    return fd_read(STDIN_FILENO, to, cap, e);
}

static int failed_status(const struct cli *cli, const struct session *s,
                         const struct streams *streams, const struct err *e)
{
    int signo = atomic_load(&s->signals.signo);

    if (streams->closed) {
        return EXIT_SIGNAL + SIGPIPE;
    }
    if (signo != 0) {
        return EXIT_SIGNAL + signo;
    }
    if (e->kind == ERR_NOT_FOUND) {
        return cli_fail(cli, EXIT_NO_COMMAND, "%s", e->msg);
    }
    if (e->kind == ERR_DENIED) {
        return cli_fail(cli, EXIT_CANNOT_RUN, "%s", e->msg);
    }
    return cli_fail(cli, EXIT_OURS, "%s", e->msg);
}

/* A command that was refused something says so in its own words, or ends without any. */
static void tell_limits(const struct cli *cli, unsigned hit)
{
    if (hit & LIMIT_MEMORY) {
        (void)cli_fail(cli, 0, "the sandbox reached its memory limit");
    }
    if (hit & LIMIT_PIDS) {
        (void)cli_fail(cli, 0, "the sandbox reached its limit of processes and threads");
    }
    if (hit & LIMIT_DISK) {
        (void)cli_fail(cli, 0, "the sandbox has no space left for files");
    }
}

int cli_exec(const struct cli *cli, struct session *s, struct box *box, struct exec_req *req)
{
    struct streams streams = {0};
    const struct sink sink = {pass_on, count_lost, &streams};
    const struct source input = {.read = read_stdin, .fd = STDIN_FILENO};
    struct exec_result result;
    struct err e;
    char id[17];

    id_hex(id, 8);
    req->id = str_from(id);
    req->input = &input;
    if (box_exec(box, &s->ctx, req, &sink, &result, &e) < 0) {
        const struct ctx last = session_last_ctx(s);
        struct err ignored;
        (void)(box_task_kill(box, &last, req->id, KILL_GRACE_MS, &ignored) < 0);
        return failed_status(cli, s, &streams, &e);
    }
    if (streams.lost > 0) {
        (void)cli_fail(cli, 0, "%llu bytes of output were lost: stdout was read too slowly",
                       (unsigned long long)streams.lost);
    }
    tell_limits(cli, result.limits_hit | (result.oom == KNOWN_YES ? LIMIT_MEMORY : 0u));
    if (result.timed_out) {
        return cli_fail(cli, EXIT_TIMED_OUT, "the command was killed after %.3g s",
                        (double)req->timeout_ms / 1000);
    }
    return result.end == EXEC_SIGNALED ? EXIT_SIGNAL + result.code : result.code;
}
