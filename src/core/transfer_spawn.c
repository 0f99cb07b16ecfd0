/* transfer_spawn.c - starting the worker of a transfer (worker.h), and its log. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/own.h"
#include "base/path.h"
#include "base/plain.h"
#include "core/transfer_own.h"
#include "core/worker.h"

#define HEAD_MAX 65536

/* ---- the log ---------------------------------------------------------------------------- */

static void head_line(struct buf *to, const char *key, struct str value)
{
    struct buf plain own_buf = {0};

    buf_init(&plain, HEAD_MAX / 4);
    plain_text(value, &plain);
    for (size_t i = 0; i < plain.len; i++) {
        plain.p[i] = (char)(plain.p[i] == '\n' ? ' ' : plain.p[i]);
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

/* ---- starting it -------------------------------------------------------------------------- */

int transfer_spawn(const struct services *s, const struct ctx *ctx, const char *program,
                   const struct transfer_row *row, int log_fd, pid_t *pid, struct err *e)
{
    const struct str id = arena_printf(ctx->arena, "%lld", (long long)row->id);
    const char *const argv[] = {"anybox", "transfer-worker", "--task-id", id.p, "--config-fd", "3",
                                NULL};
    const struct worker_order order = {
        .program = program, .argv = argv, .out_fd = log_fd, .err_fd = log_fd};

    return worker_spawn(s, ctx, &order, pid, e);
}
