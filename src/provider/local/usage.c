#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/proc.h"
#include "provider/local/local.h"
#include "provider/talk.h"

#define PROC_MAX       (64u << 10)
#define GPU_MAX        (16u << 10)
#define GPU_WAIT_MS    2000
#define INSIDE_WAIT_MS 2000

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
    const char *const argv[] = {program,
                                "--query-gpu=index,utilization.gpu,memory.used,memory.total",
                                "--format=csv,noheader,nounits", NULL};
    int status = 0;
    if (proc_output(&shorter, argv, NULL, &csv, &status, &why) < 0) {
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
    struct usage u;
    struct agent_usage inside;
    usage_unknown(&u);
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
