/* transfer.c - transfers as anybody may ask for them: which there are, and ending one. */
#include "core/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/own.h"
#include "base/proc.h"
#include "core/transfer_own.h"

#define LOG_TAIL_MAX   65536
#define SETTLE_WAIT_MS 2000 /* after a KILL */

const char *transfer_status(enum transfer_state state)
{
    switch (state) {
    case TRANSFER_QUEUED: return "queued";
    case TRANSFER_RUNNING: return "running";
    case TRANSFER_COMPLETED: return "completed";
    case TRANSFER_FAILED: return "failed";
    case TRANSFER_CANCELLED: return "cancelled";
    }
    return "unknown";
}

/* ---- who works on it ------------------------------------------------------------------- */

struct transfer_proc transfer_self(struct arena *a)
{
    return (struct transfer_proc){getpid(), proc_start_time(getpid()), proc_boot_id(a)};
}

bool transfer_is_dead(const struct transfer_proc *proc, struct str boot)
{
    return !str_eq(proc->boot, boot) || proc_has_ended((pid_t)proc->pid, proc->start);
}

bool transfer_is_stale(const struct transfer_row *row, struct arena *a)
{
    if (row->state != TRANSFER_QUEUED && row->state != TRANSFER_RUNNING) {
        return false;
    }
    return transfer_is_dead(&row->proc, proc_boot_id(a)) || row->lease_ms <= clock_mono_ms();
}

/* ---- looking ----------------------------------------------------------------------------- */

int transfer_get(const struct services *s, const struct ctx *ctx, struct scope *scope, int64_t id,
                 struct transfer_view *out, struct err *e)
{
    struct transfer_row row;

    if (store_get_transfer(s->store, ctx->arena, scope->owner, id, &row, e) < 0) {
        return -1;
    }
    *out = (struct transfer_view){row, transfer_is_stale(&row, ctx->arena)};
    /* It may have written its last word and ended between our two looks. */
    if (out->stale &&
        store_get_transfer(s->store, ctx->arena, scope->owner, id, &out->row, e) < 0) {
        return -1;
    }
    out->stale = out->stale && transfer_is_stale(&out->row, ctx->arena);
    return 0;
}

struct telling {
    const struct services *services;
    const struct ctx *ctx;
    struct scope *scope;
    transfer_view_fn *each;
    void *arg;
};

static int tell(void *arg, const struct transfer_row *row, struct err *e)
{
    const struct telling *t = arg;
    struct transfer_view view = {*row, transfer_is_stale(row, t->ctx->arena)};

    if (view.stale && transfer_get(t->services, t->ctx, t->scope, row->id, &view, e) < 0) {
        return -1;
    }
    return t->each(t->arg, &view, e);
}

int transfer_each(const struct services *s, const struct ctx *ctx, struct scope *scope, int max,
                  transfer_view_fn *each, void *arg, struct err *e)
{
    struct telling t = {s, ctx, scope, each, arg};

    return store_each_transfer(s->store, ctx->arena, scope->owner, max, tell, &t, e);
}

struct str transfer_log(const struct transfer_row *row, int64_t lines, struct arena *a)
{
    char *text = arena_alloc(a, 1, LOG_TAIL_MAX);
    int fd own_fd = open(arena_cstr(a, row->log_file), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    off_t size = fd >= 0 ? lseek(fd, 0, SEEK_END) : 0;
    off_t from = size > LOG_TAIL_MAX ? size - LOG_TAIL_MAX : 0;
    ssize_t n = fd >= 0 ? pread(fd, text, LOG_TAIL_MAX, from) : 0;
    size_t at = n > 0 ? (size_t)n : 0;

    for (size_t end = at; at > 0; at--) {
        if (text[at - 1] == '\n' && at < end && --lines <= 0) {
            break;
        }
    }
    return n > 0 ? (struct str){text + at, (size_t)n - at} : STR_EMPTY;
}

/* ---- ending ------------------------------------------------------------------------------ */

static int wait_end(const struct ctx *ctx, int process, int64_t wait_ms, bool *ended, struct err *e)
{
    struct pollfd ready = {.fd = process, .events = POLLIN};
    int n = ctx_wait(ctx, &ready, 1, clock_mono_ms() + wait_ms, e);

    *ended = n > 0;
    return n < 0 ? -1 : 0;
}

/* The worker of a row that is cancelled. It is signalled through a descriptor that means this
 * very process, so a number that was given to another one is nobody's danger. */
static int end_worker(const struct ctx *ctx, const struct transfer_row *row, int64_t kill_after_ms,
                      struct transfer_cancelled *out, struct err *e)
{
    bool ended = false;

    if (row->started_ms == 0 || !str_eq(row->proc.boot, proc_boot_id(ctx->arena))) {
        return 0; /* it was never claimed: who comes now sees that it is cancelled */
    }
    int process own_fd = proc_open((pid_t)row->proc.pid, row->proc.start, e);

    if (process < 0) {
        return e->kind == ERR_NOT_FOUND ? 0 : -1;
    }
    if (syscall(SYS_pidfd_send_signal, process, SIGTERM, NULL, 0) < 0 && errno != ESRCH) {
        return err_sys(e, errno, "end the worker of transfer %lld", (long long)row->id);
    }
    if (wait_end(ctx, process, kill_after_ms, &ended, e) < 0) {
        return -1;
    }
    if (!ended) {
        out->killed = syscall(SYS_pidfd_send_signal, process, SIGKILL, NULL, 0) == 0;
        if (wait_end(ctx, process, SETTLE_WAIT_MS, &ended, e) < 0) {
            return -1;
        }
    }
    out->terminated = ended;
    out->lives = !ended;
    return 0;
}

int transfer_cancel(const struct services *s, const struct ctx *ctx, struct scope *scope,
                    int64_t id, int64_t kill_after_ms, struct transfer_cancelled *out,
                    struct err *e)
{
    struct transfer_cancelled result = {0};
    struct transfer_row row;
    int cancelled = store_cancel_transfer(s->store, scope->owner, id, e);

    /* Looked at afterwards: now nobody claims it any more, so the process in it is the last. */
    if (cancelled < 0 || store_get_transfer(s->store, ctx->arena, scope->owner, id, &row, e) < 0) {
        return -1;
    }
    result.state = row.state;
    result.already = cancelled == 0;
    if (row.state == TRANSFER_CANCELLED && end_worker(ctx, &row, kill_after_ms, &result, e) < 0) {
        return -1;
    }
    *out = result;
    return 0;
}
