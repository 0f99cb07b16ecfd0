#include "provider/local/snapshot.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/proc.h"
#include "base/thread.h"

#define FRESH_MS  1000
#define ARENA_MAX (8u << 20)

void snapshot_unref(struct snapshot *s)
{
    if (s != NULL && atomic_fetch_sub(&s->refs, 1) == 1) {
        arena_fini(&s->arena);
        free(s);
    }
}

static int64_t kernel_number(struct arena *a, const char *path)
{
    struct str text = STR_EMPTY;
    int64_t value = 0;
    struct err ignored;
    if (fd_read_file(AT_FDCWD, path, 64, a, &text, &ignored) < 0 ||
        str_to_i64(str_trim(text), 1, INT64_MAX, &value, &ignored) < 0) {
        return INT64_MAX;
    }
    return value;
}

void kernel_numbers_read(struct arena *a, struct kernel_numbers *out)
{
    int64_t pids = kernel_number(a, "/proc/sys/kernel/pid_max");
    int64_t threads = kernel_number(a, "/proc/sys/kernel/threads-max");
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    *out = (struct kernel_numbers){
        .pids = pids < threads ? pids : threads,
        .files = kernel_number(a, "/proc/sys/fs/file-max"),
        .cpus = cpus > 0 ? cpus : INT64_MAX,
    };
}

static struct snapshot *take_one(struct err *e)
{
    struct snapshot *s = xcalloc(1, sizeof *s);
    atomic_init(&s->refs, 1);
    arena_init(&s->arena, ARENA_MAX);
    if (uids_mode(&s->arena, &s->uids, e) < 0) {
        snapshot_unref(s);
        return NULL;
    }
    cgroup_host_read(&s->arena, &s->cgroups);
    s->etc = view_etc(&s->arena);
    s->boot = proc_boot_id(&s->arena);
    kernel_numbers_read(&s->arena, &s->numbers);
    s->taken_ms = clock_mono_ms();
    return s;
}

struct snapshot *snapshot_get(struct snapshots *from, struct err *e)
{
    LOCKED(&from->lock);
    if (from->last == NULL || clock_mono_ms() - from->last->taken_ms >= FRESH_MS) {
        struct snapshot *fresh = take_one(e);
        if (fresh == NULL) {
            return NULL;
        }
        snapshot_unref(from->last);
        from->last = fresh;
    }
    atomic_fetch_add(&from->last->refs, 1);
    return from->last;
}

void snapshots_fini(struct snapshots *s)
{
    snapshot_unref(s->last);
    s->last = NULL;
}
