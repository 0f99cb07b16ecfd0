#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/own.h"
#include "base/path.h"
#include "base/proc.h"
#include "provider/local/local.h"
#include "provider/talk.h"

#define PROC_MAX       (64u << 10)
#define GPU_MAX        (16u << 10)
#define GPU_WAIT_MS    2000
#define INSIDE_WAIT_MS 2000
#define KIB            1024

/* ---- parsers ---------------------------------------------------------------------------- */

void usage_parse_load(struct str loadavg, struct usage *out)
{
    double *to[] = {&out->load_1m, &out->load_5m, &out->load_15m};
    for (size_t i = 0; i < COUNTOF(to); i++) {
        struct err ignored;
        double value = 0;
        if (str_to_f64(str_cut(loadavg, ' ', &loadavg), &value, &ignored) == 0 && value >= 0) {
            *to[i] = value;
        }
    }
}

/* "MemTotal:       131980916 kB" */
static bool parse_kib(struct str line, struct str key, int64_t *out)
{
    if (!str_starts(line, key)) {
        return false;
    }
    struct str value = str_trim(str_skip(line, key.len));
    struct err ignored;
    int64_t kib = 0;
    if (str_to_i64(str_cut(value, ' ', &value), 0, INT64_MAX / KIB, &kib, &ignored) < 0) {
        return false;
    }
    *out = kib * KIB;
    return true;
}

void usage_parse_memory(struct str meminfo, struct usage *out)
{
    int64_t total = -1;
    int64_t available = -1;
    while (meminfo.len > 0) {
        struct str line = str_cut(meminfo, '\n', &meminfo);
        (void)parse_kib(line, S("MemTotal:"), &total);
        (void)parse_kib(line, S("MemAvailable:"), &available);
    }
    if (total > 0 && available >= 0 && available <= total) {
        out->memory_total = total;
        out->memory_used = total - available;
    }
}

/* "0, 37, 1024, 143771"; a row with "[N/A]" in it says nothing that we could use. */
static bool parse_gpu(struct str line, struct gpu_usage *out)
{
    int64_t n[4];
    for (size_t i = 0; i < COUNTOF(n); i++) {
        struct err ignored;
        if (str_to_i64(str_cut(line, ',', &line), 0, INT32_MAX, &n[i], &ignored) < 0) {
            return false;
        }
    }
    *out = (struct gpu_usage){.index = (int)n[0],
                              .busy_pct = (double)n[1],
                              .memory_used_mb = n[2],
                              .memory_total_mb = n[3]};
    return n[1] <= 100;
}

void usage_parse_gpus(struct str csv, struct usage *out)
{
    while (csv.len > 0 && out->n_gpus < USAGE_GPUS) {
        if (parse_gpu(str_cut(csv, '\n', &csv), &out->gpus[out->n_gpus])) {
            out->n_gpus++;
        }
    }
}

/* ---- this machine --------------------------------------------------------------------------- */

static struct str proc_text(struct arena *a, const char *path)
{
    struct str text = STR_EMPTY;
    struct err ignored;
    return fd_read_file(AT_FDCWD, path, PROC_MAX, a, &text, &ignored) < 0 ? STR_EMPTY : text;
}

int64_t usage_host_memory(struct arena *a)
{
    struct usage u = {0};
    usage_parse_memory(proc_text(a, "/proc/meminfo"), &u);
    return u.memory_total;
}

static const char *find_in_path(struct arena *a, const char *name)
{
    struct str path = str_from(getenv("PATH"));
    while (path.len > 0) {
        struct str dir = str_cut(path, ':', &path);
        const char *file = path_join(a, dir, str_from(name)).p;
        if (path_is_absolute(dir) && access(file, X_OK) == 0) {
            return file;
        }
    }
    return NULL;
}

/* What the child writes until it closes its end. */
static int read_pipe(const struct ctx *ctx, int fd, struct buf *out, struct err *e)
{
    for (;;) {
        struct pollfd readable = {.fd = fd, .events = POLLIN};
        char *room = buf_room(out, KIB);
        if (room == NULL) {
            return err_set(e, ERR_LIMIT, "it wrote too much");
        }
        if (ctx_wait(ctx, &readable, 1, 0, e) < 0) {
            return -1;
        }
        ssize_t n = fd_read(fd, room, KIB, e);
        if (n <= 0) {
            return (int)n;
        }
        out->len += (size_t)n;
    }
}

static int ask_nvidia(const struct ctx *ctx, const char *program, struct buf *out, struct err *e)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0) {
        return err_sys(e, errno, "cannot make a pipe");
    }
    int in own_fd = ends[0];
    int write_end own_fd = ends[1];
    const char *const argv[] = {"nvidia-smi",
                                "--query-gpu=index,utilization.gpu,memory.used,memory.total",
                                "--format=csv,noheader,nounits", NULL};
    struct proc_fd fds[] = {{write_end, STDOUT_FILENO}};
    struct proc_spec spec = {
        .file = program, .argv = argv, .fds = fds, .n_fds = COUNTOF(fds), .new_session = true};
    pid_t pid = 0;
    if (proc_spawn(&spec, &pid, e) < 0) {
        return -1;
    }
    (void)close(take_fd(&write_end));
    int rc = read_pipe(ctx, in, out, e);
    struct ctx quiet = {.arena = ctx->arena};
    struct err ignored;
    int status = 0;
    (void)kill(pid, SIGKILL);
    (void)!proc_wait(&quiet, pid, &status, &ignored);
    return rc;
}

/* A machine whose driver hangs has no figures, but an answer. */
static int add_gpus(const struct ctx *ctx, struct usage *out, struct err *e)
{
    const char *program = find_in_path(ctx->arena, "nvidia-smi");
    if (program == NULL) {
        return 0;
    }
    int64_t until_ms = clock_mono_ms() + GPU_WAIT_MS;
    struct ctx shorter = *ctx;
    if (ctx->deadline_ms == 0 || ctx->deadline_ms > until_ms) {
        shorter.deadline_ms = until_ms;
    }
    struct buf csv own_buf = {0};
    buf_init(&csv, GPU_MAX);
    struct err why = {0};
    if (ask_nvidia(&shorter, program, &csv, &why) < 0) {
        return ctx_check(ctx, e);
    }
    usage_parse_gpus(buf_str(&csv), out);
    return 0;
}

/* Lists ask one box after the other: one that does not answer must not hold them up. */
static int ask_inside(struct box *b, const struct ctx *ctx, struct agent_usage *out, struct err *e)
{
    struct ctx shorter = *ctx;
    int64_t until_ms = clock_mono_ms() + INSIDE_WAIT_MS;
    if (ctx->deadline_ms == 0 || ctx->deadline_ms > until_ms) {
        shorter.deadline_ms = until_ms;
    }
    int rc = agent_usage(b, &shorter, out, e);
    if (rc < 0 && e->kind == ERR_TIMEOUT && shorter.deadline_ms == until_ms) {
        return talk_silent(e, INSIDE_WAIT_MS);
    }
    return rc;
}

int local_usage(struct box *b, const struct ctx *ctx, struct usage *out, struct err *e)
{
    struct usage u = {.load_1m = -1,
                      .load_5m = -1,
                      .load_15m = -1,
                      .memory_used = -1,
                      .memory_total = -1,
                      .disk_used = -1,
                      .disk_total = -1,
                      .processes = -1};
    struct agent_usage inside;
    if (ask_inside(b, ctx, &inside, e) < 0) {
        return -1;
    }
    u.cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
    usage_parse_load(proc_text(ctx->arena, "/proc/loadavg"), &u);
    usage_parse_memory(proc_text(ctx->arena, "/proc/meminfo"), &u);
    if (inside.memory_limit > 0) {
        u.memory_used = inside.memory_used;
        u.memory_total = inside.memory_limit;
    }
    u.disk_used = inside.disk_used;
    u.disk_total = inside.disk_total;
    u.processes = inside.processes;
    if (add_gpus(ctx, &u, e) < 0) {
        return -1;
    }
    *out = u;
    return 0;
}
