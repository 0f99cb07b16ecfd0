/*
 * worker.c - starting a process that goes on without us, and what it is told.
 *
 * The worker gets an environment with nothing in it that the dynamic loader does not need, and none
 * of our descriptors: both would be seen by others, or keep our client waiting for us.
 * Environment and configuration, in which the secrets are, go through a pipe that the worker
 * reads to its end before it does anything. A worker that reads half of them, because we died,
 * gives up.
 */
#include "core/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/own.h"
#include "base/pack.h"
#include "base/proc.h"

#define TOLD_MAX     (16u << 20)
#define TELL_WAIT_MS 10000

/* ---- what it is told --------------------------------------------------------------------- */

static int pack_all(const struct config *config, struct buf *text, struct err *e)
{
    int64_t n = 0;

    while (environ[n] != NULL) {
        n++;
    }
    pack_add(text, S(ANYBOX_VERSION));
    pack_add_i64(text, n);
    for (int64_t i = 0; i < n; i++) {
        pack_add(text, str_from(environ[i]));
    }
    config_pack(config, text);
    if (text->cut) {
        return err_set(e, ERR_LIMIT, "environment and configuration are longer than %u bytes",
                       TOLD_MAX);
    }
    return 0;
}

static int tell(const struct ctx *ctx, int fd, struct str text, struct err *e)
{
    const struct ctx shorter = {ctx->arena, ctx->cancel, clock_mono_ms() + TELL_WAIT_MS};

    if (fd_set_nonblock(fd, true, e) < 0) {
        return -1;
    }
    while (text.len > 0) {
        struct pollfd room = {.fd = fd, .events = POLLOUT};
        ssize_t n = write(fd, text.p, text.len);

        if (n < 0 && errno != EAGAIN && errno != EINTR) {
            return err_sys(e, errno, "tell the worker its configuration");
        }
        text = str_skip(text, n > 0 ? (size_t)n : 0);
        if (text.len > 0 && ctx_wait(&shorter, &room, 1, 0, e) < 0) {
            return err_wrap(e, "tell the worker its configuration");
        }
    }
    return 0;
}

static void wipe(struct buf *b)
{
    if (b->p != NULL) {
        explicit_bzero(b->p, b->cap);
    }
    buf_fini(b);
}

/* ---- starting it -------------------------------------------------------------------------- */

/* What is needed before main(); the rest comes through the pipe. */
static const char *const *first_env(struct arena *a)
{
    static const char *const names[] = {"LD_LIBRARY_PATH", "TZ"};
    const char **env = arena_alloc(a, COUNTOF(names) + 1, sizeof(*env));
    size_t n = 0;

    for (size_t i = 0; i < COUNTOF(names); i++) {
        const char *value = getenv(names[i]);

        if (value != NULL) {
            env[n++] = arena_printf(a, "%s=%s", names[i], value).p;
        }
    }
    return env;
}

int worker_spawn(const struct services *s, const struct ctx *ctx, const struct worker_order *order,
                 pid_t *pid, struct err *e)
{
    struct buf text CLEANUP(wipe) = {0};
    int ends[2];

    buf_init(&text, TOLD_MAX);
    if (pack_all(s->config, &text, e) < 0) {
        return -1;
    }
    if (pipe2(ends, O_CLOEXEC) < 0) {
        return err_sys(e, errno, "make a pipe");
    }
    int ours own_fd = ends[1];
    int theirs own_fd = ends[0];
    const struct proc_fd fds[] = {
        {order->out_fd, STDOUT_FILENO}, {order->err_fd, STDERR_FILENO}, {theirs, WORKER_CONFIG_FD}};
    const struct proc_spec spec = {
        .file = order->program,
        .argv = order->argv,
        .envp = first_env(ctx->arena),
        .fds = fds,
        .n_fds = COUNTOF(fds),
        .new_session = true,
    };

    if (proc_spawn(&spec, pid, e) < 0) {
        return -1;
    }
    (void)close(take_fd(&theirs)); /* so that writing fails when the worker is dead */
    return tell(ctx, ours, buf_str(&text), e);
}

/* ---- in the worker ------------------------------------------------------------------------ */

static int read_all(int fd, struct buf *text, struct err *e)
{
    for (;;) {
        char *room = buf_room(text, 65536);
        ssize_t n;

        if (room == NULL) {
            return err_set(e, ERR_LIMIT, "more than %u bytes of configuration", TOLD_MAX);
        }
        n = fd_read(fd, room, 65536, e);
        if (n <= 0) {
            return (int)n;
        }
        text->len += (size_t)n;
    }
}

static int take_environment(struct str *rest, struct err *e)
{
    int64_t n = 0;

    if (pack_take_i64(rest, &n, e) < 0) {
        return -1;
    }
    (void)clearenv();
    for (int64_t i = 0; i < n; i++) {
        struct arena scratch own_arena = {0};
        struct str entry, value;

        arena_init(&scratch, TOLD_MAX + 4096u);
        if (pack_take(rest, &entry, e) < 0) {
            return -1;
        }
        struct str name = str_cut(entry, '=', &value);
        if (name.len > 0 &&
            setenv(arena_cstr(&scratch, name), arena_cstr(&scratch, value), 1) < 0) {
            return err_sys(e, errno, "set the environment");
        }
    }
    return 0;
}

int worker_receive(int fd, struct config *out, struct err *e)
{
    struct buf text CLEANUP(wipe) = {0};
    struct str rest, version;

    *out = (struct config){0};
    buf_init(&text, (size_t)2 * TOLD_MAX);
    if (read_all(fd, &text, e) < 0) {
        return -1;
    }
    rest = buf_str(&text);
    if (pack_take(&rest, &version, e) < 0) {
        return -1;
    }
    if (!str_eq(version, S(ANYBOX_VERSION))) {
        return err_set(e, ERR_PROTOCOL, "the server is version %.*s, this is " ANYBOX_VERSION,
                       STR_ARG(str_head(version, 40)));
    }
    if (take_environment(&rest, e) < 0) {
        return -1;
    }
    return config_unpack(out, &rest, e);
}
