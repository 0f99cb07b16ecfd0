/*
 * transfer_spawn.c - starting a worker: its log, its descriptors, and what it is told.
 *
 * The worker gets no argument but its number, an environment with nothing in it that the
 * dynamic loader does not need, and none of our descriptors: both would be seen by others, or
 * keep our client waiting for us. Environment and configuration, in which the secrets are, go
 * through a pipe that the worker reads to its end before it does anything. A worker that
 * reads half of them, because we died, gives up.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/own.h"
#include "base/pack.h"
#include "base/path.h"
#include "base/plain.h"
#include "base/proc.h"
#include "core/transfer_own.h"

#define TOLD_MAX     (16u << 20)
#define TELL_WAIT_MS 10000
#define HEAD_MAX     65536

/* ---- the log ---------------------------------------------------------------------------- */

static void head_line(struct buf *to, const char *key, struct str value)
{
    struct buf plain own_buf = {0};

    buf_init(&plain, HEAD_MAX / 4);
    plain_text(value, &plain);
    for (size_t i = 0; i < plain.len; i++) {
        plain.p[i] = plain.p[i] == '\n' ? ' ' : plain.p[i];
    }
    buf_addf(to, "%s: ", key);
    buf_add(to, buf_str(&plain));
    buf_addc(to, '\n');
}

static int write_head(int fd, const struct transfer_row *row, bool again, struct err *e)
{
    char time[CLOCK_RFC3339_SIZE];
    struct buf text own_buf = {0};

    buf_init(&text, HEAD_MAX);
    if (again) {
        buf_addf(&text, "== transfer task %lld resumed at %s\n", (long long)row->id,
                 clock_rfc3339(clock_wall_ms(), time));
        return fd_write_all(fd, buf_str(&text), e);
    }
    buf_addf(&text, "== transfer task %lld (%s)\n", (long long)row->id,
             row->down ? "remote_to_local" : "local_to_remote");
    head_line(&text, "created_at", str_from(clock_rfc3339(clock_wall_ms(), time)));
    head_line(&text, "sandbox", row->box_name.len > 0 ? row->box_name : row->box_id);
    head_line(&text, "local_path", row->local);
    head_line(&text, "remote_path", row->remote);
    return fd_write_all(fd, buf_str(&text), e);
}

/* The folder may be one of remote-sandbox-mcp's, which others can read. */
static int open_folder(struct str path, struct err *e)
{
    struct arena scratch own_arena = {0};
    struct stat st;

    arena_init(&scratch, 1u << 20);
    const char *dir = arena_cstr(&scratch, path);
    if (fd_mkdirs(dir, 0700, e) < 0) {
        return -1;
    }
    int fd own_fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0 || fstat(fd, &st) < 0) {
        return err_sys(e, errno, "open the folder of logs %s", dir);
    }
    if (st.st_uid != geteuid() || ((st.st_mode & 077) != 0 && fchmod(fd, 0700) < 0)) {
        return err_set(e, ERR_DENIED, "the folder of logs %s belongs to somebody else: remove it",
                       dir);
    }
    return take_fd(&fd);
}

int transfer_open_log(const struct config *config, const struct transfer_row *row, bool again,
                      struct err *e)
{
    const int flags = O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC;
    struct arena scratch own_arena = {0};

    arena_init(&scratch, 1u << 20);
    int dir own_fd = open_folder(path_join(&scratch, config->state_dir, S("transfers")), e);
    const char *name = arena_cstr(&scratch, path_base(row->log_file));

    if (dir < 0) {
        return -1;
    }
    if (!again) {
        (void)unlinkat(dir, name, 0); /* of a database that is no more */
    }
    int fd own_fd = openat(dir, name, again ? flags : flags | O_EXCL, 0600);

    if (fd < 0) {
        return err_sys(e, errno, "make the log %.*s", STR_ARG(row->log_file));
    }
    return write_head(fd, row, again, e) < 0 ? -1 : take_fd(&fd);
}

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

int transfer_spawn(const struct services *s, const struct ctx *ctx, const char *program,
                   const struct transfer_row *row, int log_fd, pid_t *pid, struct err *e)
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
    const struct str id = arena_printf(ctx->arena, "%lld", (long long)row->id);
    const char *const argv[] = {"anybox", "transfer-worker", "--task-id", id.p, "--config-fd", "3",
                                NULL};
    const struct proc_fd fds[] = {
        {log_fd, STDOUT_FILENO}, {log_fd, STDERR_FILENO}, {theirs, TRANSFER_CONFIG_FD}};
    const struct proc_spec spec = {
        .file = program,
        .argv = argv,
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

int transfer_receive(int fd, struct config *out, struct err *e)
{
    struct buf text CLEANUP(wipe) = {0};
    struct str rest, version;

    *out = (struct config){0};
    buf_init(&text, 2u * TOLD_MAX);
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
