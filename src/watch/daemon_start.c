/* daemon_start.c - is there a watchdog, and starting one; see daemon.h. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "base/proc.h"
#include "store/watches.h"
#include "watch/daemon_own.h"

#define START_MS 10000
#define LOOK_MS  50

static bool is_held(int fd)
{
    if (flock(fd, LOCK_SH | LOCK_NB) < 0) {
        return true;
    }
    (void)flock(fd, LOCK_UN);
    return false;
}

int watchdog_look(const struct services *s, struct arena *a, struct watchdog_state *out,
                  struct err *e)
{
    int fd own_fd = daemon_lock_file(s->config->state_dir, e);

    *out = (struct watchdog_state){0};
    if (fd < 0) {
        return -1;
    }
    out->running = is_held(fd);
    out->pid = out->running ? daemon_lock_pid(fd) : 0;
    if (store_get_watchdog(s->store, a, S("heartbeat"), &out->heartbeat, &out->heartbeat_s, e) <
        0) {
        return -1;
    }
    out->stale =
        out->heartbeat_s == 0 || clock_wall_ms() / 1000 - out->heartbeat_s > WATCHDOG_STALE_S;
    return 0;
}

/* What names hosts and their secrets stays with us. */
static bool is_ours_alone(const char *variable)
{
    return strncmp(variable, "REMOTE_", 7) == 0 &&
           strncmp(variable, "REMOTE_SANDBOX_MCP_HOME=", 24) != 0;
}

static const char *const *daemon_env(const struct services *s, struct arena *a)
{
    size_t n = 0, k = 0;

    while (environ[n] != NULL) {
        n++;
    }
    const char **all = arena_alloc(a, n + 2, sizeof(*all));
    for (size_t i = 0; i < n; i++) {
        if (!is_ours_alone(environ[i]) && strncmp(environ[i], "ANYBOX_HOME=", 12) != 0) {
            all[k++] = environ[i];
        }
    }
    all[k++] = arena_printf(a, "ANYBOX_HOME=%.*s", STR_ARG(s->config->state_dir)).p;
    all[k] = NULL;
    return all;
}

static int spawn(const struct services *s, const struct ctx *ctx, const char *word, pid_t *pid,
                 struct err *e)
{
    /* The files that we read ourselves; one that --config named is the only one then. */
    const char *file = arena_cstr(ctx->arena, s->config->named_file);
    const char *plain[] = {"anybox", "watchdog", word, NULL, NULL};
    const char *named[] = {"anybox", "--config", file, "watchdog", word, NULL, NULL};
    const char **argv = s->config->named_file.len > 0 ? named : plain;
    size_t n = s->config->named_file.len > 0 ? 5 : 3;

    if (strcmp(word, "run") == 0) {
        argv[n] = "--exit-when-idle";
    }
    const struct proc_spec spec = {
        .file = "/proc/self/exe",
        .argv = argv,
        .envp = daemon_env(s, ctx->arena),
        .new_session = true,
    };
    return proc_spawn(&spec, pid, e);
}

int watchdog_spawn(const struct services *s, const struct ctx *ctx, bool *started, struct err *e)
{
    int64_t last_ms = clock_mono_ms() + START_MS;
    struct watchdog_state state;
    int status = 0;
    pid_t pid;

    *started = false;
    if (watchdog_look(s, ctx->arena, &state, e) < 0) {
        return -1;
    }
    if (state.running) {
        return 0;
    }
    if (spawn(s, ctx, "run", &pid, e) < 0) {
        return -1;
    }
    *started = true;
    while (clock_mono_ms() < last_ms) {
        if (waitpid(pid, &status, WNOHANG) == pid) {
            break; /* perhaps because another one came first */
        }
        if (watchdog_look(s, ctx->arena, &state, e) < 0) {
            return -1;
        }
        if (state.running) {
            return 0;
        }
        if (ctx_wait(ctx, NULL, 0, clock_mono_ms() + LOOK_MS, e) < 0) {
            return -1;
        }
    }
    if (watchdog_look(s, ctx->arena, &state, e) == 0 && state.running) {
        return 0;
    }
    return err_set(e, ERR_SYSTEM,
                   "the watchdog did not start; `anybox watchdog run` in a terminal shows why");
}

int watchdog_ensure(const struct services *s, const struct ctx *ctx, bool *started, struct err *e)
{
    struct watchdog_state state;
    int status = 0;
    pid_t pid;

    *started = false;
    if (watchdog_look(s, ctx->arena, &state, e) < 0) {
        return -1;
    }
    if (state.running) {
        return 0;
    }
    /* By a process in between: the watchdog must not be our child, for nobody would wait for it. */
    if (spawn(s, ctx, "start", &pid, e) < 0 || proc_wait(ctx, pid, &status, e) < 0) {
        return -1;
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        return err_set(e, ERR_SYSTEM,
                       "the watchdog did not start; `anybox watchdog run` in a terminal shows why");
    }
    *started = true;
    return 0;
}
