#include "provider/local/scope.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/own.h"
#include "base/path.h"
#include "base/proc.h"
#include "provider/local/local.h"

#define SLICE      "anybox.slice"
#define OF_MANAGER "/init.scope" /* where systemd puts itself */
#define ARGS_MAX   24
#define TRY_MS     5000
#define TEXT_MAX   4096
#define ID_LEN     (BOX_ID_SIZE - 1)

/* ---- who is asked ------------------------------------------------------------------------ */

struct str scope_parse_manager(struct str proc_cgroup)
{
    while (proc_cgroup.len > 0) {
        struct str line = str_cut(proc_cgroup, '\n', &proc_cgroup);
        struct str path = str_skip(line, sizeof("0::") - 1);
        size_t tail = sizeof(OF_MANAGER) - 1;
        if (str_starts(line, S("0::/")) && !str_starts(path, S("/..")) && path.len > tail &&
            str_eq(str_skip(path, path.len - tail), S(OF_MANAGER))) {
            return str_head(path, path.len - tail);
        }
    }
    return STR_EMPTY;
}

/* The process that listens on the manager's socket, if it is one of this user's; else 0. */
static pid_t listener(struct str runtime)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    struct ucred peer;
    socklen_t size = sizeof peer;
    int fd own_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    (void)snprintf(at.sun_path, sizeof at.sun_path, "%.*s/systemd/private", STR_ARG(runtime));
    if (fd < 0 || connect(fd, (const struct sockaddr *)&at, sizeof at) < 0 ||
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || peer.uid != geteuid()) {
        return 0;
    }
    return peer.pid;
}

void scope_find(struct arena *a, struct str v2_mount, struct scope_manager *out)
{
    *out = (struct scope_manager){0};
    /* Clients of MCP pass no XDG_RUNTIME_DIR on; this is what it is with systemd. */
    struct str runtime = arena_printf(a, "/run/user/%u", geteuid());
    struct stat is;
    if (geteuid() == 0 || v2_mount.len == 0 || access(SYSTEMD_RUN, X_OK) < 0 ||
        stat(runtime.p, &is) < 0 || is.st_uid != geteuid()) {
        return;
    }
    pid_t pid = listener(runtime);
    struct str text = STR_EMPTY;
    struct err ignored;
    if (pid <= 0 || fd_read_file(AT_FDCWD, arena_printf(a, "/proc/%d/cgroup", (int)pid).p, TEXT_MAX,
                                 a, &text, &ignored) < 0) {
        return;
    }
    struct str path = scope_parse_manager(text);
    if (path.len > 0) {
        out->dir = arena_printf(a, "%.*s%.*s", STR_ARG(v2_mount), STR_ARG(path));
        out->runtime = runtime;
    }
}

/* ---- names ------------------------------------------------------------------------------- */

static struct str unit_name(struct arena *a, struct str id)
{
    return arena_printf(a, "anybox-%.*s.scope", STR_ARG(id));
}

struct str scope_dir(struct arena *a, const struct scope_manager *m, struct str id)
{
    return arena_printf(a, "%.*s/" SLICE "/%.*s", STR_ARG(m->dir), STR_ARG(unit_name(a, id)));
}

bool scope_is_ours(struct str dir)
{
    struct str name = path_base(dir);
    size_t before = sizeof("anybox-") - 1;
    return path_is_absolute(dir) && str_eq(path_base(path_dir(dir)), S(SLICE)) &&
           str_starts(name, S("anybox-")) &&
           local_id_ok(str_head(str_skip(name, before), ID_LEN)) &&
           str_eq(str_skip(name, before + ID_LEN), S(".scope"));
}

/* ---- asking ------------------------------------------------------------------------------ */

const char *const *scope_argv(struct arena *a, struct str id, const struct limits *want,
                              const char *program, const char *arg)
{
    const char **argv = arena_alloc(a, ARGS_MAX, sizeof *argv);
    size_t n = 0;
    argv[n++] = "systemd-run";
    argv[n++] = "--user";
    argv[n++] = "--scope";
    argv[n++] = "--quiet";
    argv[n++] = "--collect";
    argv[n++] = "--slice=" SLICE;
    argv[n++] = arena_printf(a, "--unit=%.*s", STR_ARG(unit_name(a, id))).p;
    argv[n++] = "--description=anybox sandbox";
    /* So that one process that runs out of memory does not end the whole scope. */
    argv[n++] = "--property=Delegate=yes";
    if (want->memory_bytes > 0) {
        argv[n++] = arena_printf(a, "--property=MemoryMax=%lld", (long long)want->memory_bytes).p;
        argv[n++] = "--property=MemorySwapMax=0";
    }
    if (want->cpu_millis > 0) {
        argv[n++] = arena_printf(a, "--property=CPUQuota=%d.%d%%", want->cpu_millis / 10,
                                 want->cpu_millis % 10)
                        .p;
    }
    if (want->pids > 0) {
        argv[n++] =
            arena_printf(a, "--property=TasksMax=%lld", (long long)want->pids + CGROUP_PIDS_OWN).p;
    }
    argv[n++] = "--";
    argv[n++] = program;
    argv[n++] = arg;
    argv[n] = NULL;
    return argv;
}

const char *const *scope_envp(struct arena *a, const struct scope_manager *m)
{
    const char **envp = arena_alloc(a, 2, sizeof *envp);
    envp[0] = arena_printf(a, "XDG_RUNTIME_DIR=%.*s", STR_ARG(m->runtime)).p;
    envp[1] = NULL;
    return envp;
}

bool scope_works(const struct ctx *ctx, const struct scope_manager *m, struct str id,
                 const struct limits *want)
{
    struct ctx shorter = {.arena = ctx->arena, .deadline_ms = clock_mono_ms() + TRY_MS};
    const struct proc_spec try = {
        .file = SYSTEMD_RUN,
        .argv = scope_argv(ctx->arena, id, want, "/bin/true", NULL),
        .envp = scope_envp(ctx->arena, m),
    };
    pid_t pid = 0;
    int status = -1;
    struct err ignored;
    if (proc_spawn(&try, &pid, &ignored) < 0) {
        return false;
    }
    if (proc_wait(&shorter, pid, &status, &ignored) < 0) {
        struct ctx quiet = {.arena = ctx->arena};
        (void)kill(pid, SIGKILL);
        (void)!proc_wait(&quiet, pid, &status, &ignored);
        return false;
    }
    return status == 0;
}
