#include "provider/local/snapshot.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
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
