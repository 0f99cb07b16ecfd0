/* agent.c - "boxinit serve": see agent.h. */
#include "boxinit/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "agent/proto.h"
#include "base/attr.h"
#include "base/fd.h"
#include "base/own.h"
#include "boxinit/command.h"
#include "boxinit/fds.h"
#include "boxinit/kill.h"
#include "boxinit/place.h"
#include "boxinit/process.h"
#include "boxinit/server.h"

#define ENV_BYTES (8u << 20) /* views of it, not its bytes */
#define CGROUP    "/sys/fs/cgroup/"

/* ---- the spec -------------------------------------------------------------- */

/* What belongs to the login that started us and not to the user. */
static bool is_of_login(struct str var)
{
    static const char *const names[] = {
        "SSH_CLIENT=", "SSH_CONNECTION=", "SSH_TTY=", "SSH_ORIGINAL_COMMAND=", "SHLVL=",
        "PWD=",        "OLDPWD=",         "_=",
    };

    for (size_t i = 0; i < COUNTOF(names); i++) {
        if (str_starts(var, str_from(names[i]))) {
            return true;
        }
    }
    return false;
}

static void take_env(struct spec *spec, struct arena *a)
{
    struct str *env;
    size_t n = 0;

    while (environ[n] != NULL) {
        n++;
    }
    env = arena_alloc(a, n + 1, sizeof(*env));
    for (size_t i = 0; i < n; i++) {
        struct str var = str_from(environ[i]);

        if (str_has(var, '=') && !is_of_login(var)) {
            env[spec->n_env++] = var;
        }
    }
    spec->env = env;
}

static struct spec plain_spec(struct arena *a, const struct agent_args *args)
{
    struct spec spec = {.uid_mode = UIDS_ONE, .is_plain = true};
    struct str home = command_var(environ, S("HOME"));
    struct rlimit files = {0};

    take_env(&spec, a);
    spec.home = home.len > 0 && home.p[0] == '/' ? arena_cstr(a, home) : "/";
    spec.home = args->home != NULL ? args->home : spec.home;
    spec.work_dir = args->work != NULL ? args->work : spec.home;
    spec.is_container = getpid() == 1;
    spec.lifetime_ms = (uint64_t)args->lifetime_s * 1000;
    spec.memory_limit = (uint64_t)args->memory;
    spec.pids_limit = (uint32_t)args->pids;
    spec.kept_dir = arena_printf(a, "%s/" KEPT_HOME, spec.home).p;
    spec.idle_ms = (uint64_t)args->idle_s * 1000;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < UINT32_MAX) {
        spec.open_files = (uint32_t)files.rlim_cur;
    }
    return spec;
}

/* The counters of a container's own limits, where it can see them: version 2, then 1. */
static int open_first(const char *one, const char *other)
{
    int fd = open(one, O_RDONLY | O_CLOEXEC);

    return fd >= 0 ? fd : open(other, O_RDONLY | O_CLOEXEC);
}

static void open_counters(struct box_fds *fds)
{
    fds->oom = open_first(CGROUP "memory.events", CGROUP "memory/memory.oom_control");
    fds->memory = open_first(CGROUP "memory.current", CGROUP "memory/memory.usage_in_bytes");
    fds->pids = open_first(CGROUP "pids.events", CGROUP "pids/pids.events");
}

/* ---- its life -------------------------------------------------------------- */

static void kill_all(struct server *s)
{
    struct list *pos;

    list_each (pos, &s->tasks) {
        struct task *t = list_entry(pos, struct task, link);

        if (!t->finished && !t->dead) {
            (void)kill_tree(t, SIGKILL, 0);
        }
    }
    for (size_t i = 0; i < COUNTOF(s->workers); i++) {
        if (s->workers[i] != 0) {
            (void)kill(s->workers[i], SIGKILL);
        }
    }
}

static void serve_until_done(struct server *s, int place)
{
    bool over = false;

    while (!over) {
        server_run(s);
        over = place_leave(place, s->listener.fd) || strcmp(s->end, "idle") != 0;
        if (!over) {
            s->end = NULL;
            s->used_ms = server_now();
        }
    }
    kill_all(s);
}

static int exit_code(const struct server *s)
{
    static const struct {
        const char *end;
        int code;
    } codes[] = {
        {"idle", AGENT_EXIT_IDLE},
        {"lifetime", AGENT_EXIT_LIFETIME},
        {"shutdown", AGENT_EXIT_SHUTDOWN},
        {"signal", AGENT_EXIT_SIGNAL},
    };

    for (size_t i = 0; s->spec->is_container && i < COUNTOF(codes); i++) {
        if (strcmp(s->end, codes[i].end) == 0) {
            return codes[i].code;
        }
    }
    return 0;
}

/* What the process that was started learns of the one that stays: nothing when all is well. */
NORETURN static void give_up(int say, const struct err *why)
{
    (void)!write(say, why->msg, strlen(why->msg));
    _exit(1);
}

NORETURN static void stay(const struct agent_args *args, int place, int lock, int say)
{
    struct box_fds fds = {-1, -1, -1, -1, -1, -1, -1, -1};
    int keep[] = {place, lock, say};
    struct arena a own_arena = {0};
    struct server server;
    struct spec spec;
    struct err e;

    arena_init(&a, ENV_BYTES);
    process_reset_signals();
    (void)signal(SIGPIPE, SIG_IGN);
    (void)setsid();
    /* Where it is refused, by an emulator for one, orphans are found by their session only. */
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    if (fds_close_others(keep, COUNTOF(keep), &e) < 0) {
        give_up(say, &e);
    }
    (void)!chdir("/"); /* no mount is kept busy by us */
    spec = plain_spec(&a, args);
    if (spec.is_container) {
        (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* commands have our uid */
        open_counters(&fds);
    }
    fds.listener = place_listen(place, &e);
    if (fds.listener < 0 || process_null_stdio(&e) < 0 ||
        server_prepare(&server, &spec, &fds, &e) < 0) {
        give_up(say, &e);
    }
    (void)close(say);
    place_sweep(args->dir);
    serve_until_done(&server, place);
    _exit(exit_code(&server));
}

/* The end of the pipe without a word: it serves. */
static int wait_for_daemon(int said, struct err *e)
{
    char text[sizeof(e->msg)];
    ssize_t n = fd_read(said, text, sizeof(text) - 1, e);

    if (n < 0) {
        return -1;
    }
    return n == 0 ? 0 : err_set(e, ERR_SYSTEM, "%.*s", (int)n, text);
}

static int become_daemon(const struct agent_args *args, int place, int lock, struct err *e)
{
    int ends[2];
    pid_t pid;
    int rc;

    if (pipe2(ends, O_CLOEXEC) < 0) {
        return err_sys(e, errno, "make a pipe");
    }
    pid = fork();
    if (pid == 0) {
        (void)close(ends[0]);
        stay(args, place, lock, ends[1]);
    }
    (void)close(ends[1]);
    rc = pid < 0 ? err_sys(e, errno, "fork") : wait_for_daemon(ends[0], e);
    (void)close(ends[0]);
    return rc;
}

int agent_serve(const struct agent_args *args)
{
    struct err e = {0};
    int place own_fd = place_open(args->dir, &e);
    int lock own_fd = place < 0 ? -1 : place_lock(place, &e);

    if (e.kind == ERR_EXISTS) {
        return 0; /* what was wanted is there, or will be in a moment */
    }
    if (lock >= 0 && getpid() == 1) {
        stay(args, place, lock, fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3));
    }
    if (lock < 0 || become_daemon(args, place, lock, &e) < 0) {
        (void)fprintf(stderr, "boxinit serve: %s\n", e.msg);
        return 1;
    }
    return 0;
}
