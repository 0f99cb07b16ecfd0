/*
 * transfer_report.c - the thread of a worker that tells how far it is and that it lives.
 *
 * Whoever syncs only writes into a struct; the thread copies it into the row, at most twice a
 * second, and at least every few seconds even when nothing has changed: that renews the lease. A row
 * that is not ours any more (cancelled, resumed by others after our lease was over) fires the
 * worker's cancel. Now and then the thread asks the box for something, so that its idle time does
 * not run out under a transfer that takes long to find out what to send.
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/own.h"
#include "base/plain.h"
#include "base/thread.h"
#include "core/transfer_own.h"

#define TELL_EVERY_MS  500
#define RENEW_EVERY_MS 5000
#define TOUCH_EVERY_MS 20000 /* at least; more often for a box that may be idle for less */
#define TOUCH_WAIT_MS  10000
#define LOG_EVERY_MS   10000
#define NOTE_MAX       1024
#define ARENA_MAX      (16u << 20)

struct report {
    const struct services *services;
    struct transfer_proc self; /* .boot in boot */
    char boot[64];
    int64_t id;
    struct cancel *cancel; /* the worker's */
    struct cancel done;    /* ours */
    pthread_t thread;
    int64_t began_ms;

    pthread_mutex_t lock; /* guards what follows */
    struct transfer_progress now;
    char path[TREE_PATH_MAX + 1];
    char note[NOTE_MAX];
    bool changed;
    struct box *box;

    /* Of the thread. */
    int64_t told_ms, logged_ms;
    int64_t touch_ms;            /* when the box is touched next */
    int64_t rate_bytes, rate_ms; /* where the rate was last measured */
};

void transfer_say(const char *fmt, ...)
{
    struct buf text own_buf = {0};
    struct buf plain own_buf = {0};
    char line[4096];
    va_list args;
    struct err ignored;

    va_start(args, fmt);
    (void)vsnprintf(line, sizeof(line), fmt, args);
    va_end(args);
    buf_init(&plain, sizeof(line) * 4);
    plain_text(str_from(line), &plain);
    for (size_t i = 0; i < plain.len; i++) {
        plain.p[i] = (char)(plain.p[i] == '\n' ? ' ' : plain.p[i]);
    }
    buf_init(&text, sizeof(line) * 5);
    buf_addf(&text, "[transfer] ");
    buf_add(&text, buf_str(&plain));
    buf_addc(&text, '\n');
    (void)!fd_write_all(STDOUT_FILENO, buf_str(&text), &ignored);
}

/* ---- the thread ---------------------------------------------------------------------------- */

/* Bytes a second: half of it is what the last two seconds showed. */
static void measure(struct report *r, int64_t now_ms)
{
    int64_t took_ms = now_ms - r->rate_ms;

    if (took_ms < 2000) {
        return;
    }
    int64_t rate = (r->now.bytes - r->rate_bytes) * 1000 / took_ms;
    r->now.rate = r->now.rate > 0 ? (r->now.rate + rate) / 2 : rate;
    r->rate_bytes = r->now.bytes;
    r->rate_ms = now_ms;
}

/* What is to be told, with its strings in the arena; false when nothing is. */
static bool take_news(struct report *r, struct arena *a, int64_t now_ms,
                      struct transfer_progress *out)
{
    LOCKED(&r->lock);

    if (!r->changed && now_ms - r->told_ms < RENEW_EVERY_MS) {
        return false;
    }
    measure(r, now_ms);
    r->now.used_ms = now_ms - r->began_ms;
    r->changed = false;
    *out = r->now;
    out->path = arena_str(a, r->now.path);
    out->note = arena_str(a, r->now.note);
    return true;
}

static void log_progress(struct report *r, const struct transfer_progress *p, int64_t now_ms)
{
    if (now_ms - r->logged_ms < LOG_EVERY_MS) {
        return;
    }
    r->logged_ms = now_ms;
    transfer_say("%.*s: %lld of %lld files, %lld of %lld bytes, %lld bytes/s", STR_ARG(p->phase),
                 (long long)p->files, (long long)p->files_total, (long long)p->bytes,
                 (long long)p->bytes_total, (long long)p->rate);
}

static void tell(struct report *r)
{
    struct arena arena own_arena = {0};
    struct transfer_progress now;
    int64_t now_ms = clock_mono_ms();
    struct err e;
    int rc;

    arena_init(&arena, ARENA_MAX);
    if (!take_news(r, &arena, now_ms, &now)) {
        return;
    }
    r->told_ms = now_ms;
    rc = store_transfer_progress(r->services->store, r->id, &r->self, &now,
                                 now_ms + TRANSFER_LEASE_MS, &e);
    if (rc < 0) {
        transfer_say("progress could not be written: %s", e.msg);
    } else if (rc == 0) {
        cancel_fire(r->cancel);
    }
    log_progress(r, &now, now_ms);
}

static int ignore(void *arg, const struct task_state *state, struct err *e)
{
    (void)arg;
    (void)state;
    (void)e;
    return 0;
}

/* How often, for a box that ends when it is idle for so long. */
static int64_t touch_every_ms(int32_t idle_s)
{
    int64_t quarter_ms = (int64_t)idle_s * 1000 / 4;

    return quarter_ms < TOUCH_EVERY_MS ? quarter_ms : TOUCH_EVERY_MS;
}

/* A question that costs next to nothing counts as use, whatever the answer is. */
static void touch(struct report *r)
{
    struct arena arena own_arena = {0};
    const struct ctx ctx = {&arena, &r->done, clock_mono_ms() + TOUCH_WAIT_MS};
    struct box_info info = {0};
    struct err ignored;

    lock(&r->lock);
    struct box *box CLEANUP(box_unref_p) = r->box != NULL ? box_ref(r->box) : NULL;
    unlock(&r->lock);
    if (box == NULL || clock_mono_ms() < r->touch_ms) {
        return;
    }
    arena_init(&arena, ARENA_MAX);
    (void)!box_info(box, &ctx, &info, &ignored);
    if (info.limits.idle_s > 0) {
        (void)!box_task_state(box, &ctx, STR_EMPTY, ignore, NULL, &ignored);
    }
    r->touch_ms = clock_mono_ms() +
                  (info.limits.idle_s > 0 ? touch_every_ms(info.limits.idle_s) : TOUCH_EVERY_MS);
}

static void *run(void *arg)
{
    struct report *r = arg;
    const struct ctx ctx = {.cancel = &r->done};
    struct err e;

    while (ctx_wait(&ctx, NULL, 0, clock_mono_ms() + TELL_EVERY_MS, &e) >= 0) {
        tell(r);
        touch(r);
    }
    return NULL;
}

struct report *report_start(const struct services *s, const struct transfer_proc *self, int64_t id,
                            struct cancel *cancel, struct err *e)
{
    struct report *r = xcalloc(1, sizeof(*r));
    int64_t now_ms = clock_mono_ms();

    r->services = s;
    (void)snprintf(r->boot, sizeof(r->boot), "%.*s", STR_ARG(self->boot));
    r->self = (struct transfer_proc){self->pid, self->start, str_from(r->boot)};
    r->id = id;
    r->cancel = cancel;
    r->began_ms = r->told_ms = r->logged_ms = r->rate_ms = now_ms;
    r->now.phase = S("starting");
    (void)pthread_mutex_init(&r->lock, NULL);
    if (cancel_init(&r->done, e) == 0) {
        if (thread_start(&r->thread, "report", run, r, e) == 0) {
            return r;
        }
        cancel_fini(&r->done);
    }
    (void)pthread_mutex_destroy(&r->lock);
    free(r);
    return NULL;
}

struct transfer_progress report_stop(struct report *r, struct arena *a)
{
    struct transfer_progress last;

    cancel_fire(&r->done);
    (void)pthread_join(r->thread, NULL);
    r->now.used_ms = clock_mono_ms() - r->began_ms;
    last = r->now;
    last.path = arena_str(a, r->now.path);
    last.note = arena_str(a, r->now.note);
    cancel_fini(&r->done);
    (void)pthread_mutex_destroy(&r->lock);
    box_unref(r->box);
    free(r);
    return last;
}

/* ---- what is reported ------------------------------------------------------------------------ */

void report_box(struct report *r, struct box *box)
{
    LOCKED(&r->lock);

    /* One that is not made to order does not end by being idle. */
    if (box->provider->ops->factory != NULL && r->box == NULL) {
        r->box = box_ref(box);
    }
}

void report_phase(struct report *r, const char *phase)
{
    LOCKED(&r->lock);

    r->now.phase = str_from(phase);
    r->changed = true;
}

void report_plan(struct report *r, const struct sync_counts *counts, bool is_file)
{
    LOCKED(&r->lock);

    r->now.is_file = is_file;
    r->now.files_total = (int64_t)(counts->files + counts->links);
    r->now.bytes_total = (int64_t)counts->bytes;
    r->now.unchanged = (int64_t)counts->unchanged;
    r->changed = true;
}

static int64_t more(int64_t before, uint64_t now)
{
    return (int64_t)now > before ? (int64_t)now : before;
}

void report_now(struct report *r, const struct sync_progress *now)
{
    LOCKED(&r->lock);
    struct str path = str_head(now->path, sizeof(r->path));

    if (path.len > 0) {
        memcpy(r->path, path.p, path.len);
    }
    r->now.path = (struct str){r->path, path.len};
    r->now.files = more(r->now.files, now->files);
    r->now.bytes = more(r->now.bytes, now->bytes);
    if (now->phase == SYNC_PHASE_DELETE) {
        r->now.phase = S("deleting");
    }
    r->changed = true;
}

void report_result(struct report *r, const struct sync_result *result)
{
    LOCKED(&r->lock);
    const struct sync_counts *done = &result->done;

    r->now.path = STR_EMPTY;
    r->now.dirs = (int64_t)done->dirs;
    r->now.files = (int64_t)(done->files + done->links);
    r->now.bytes = (int64_t)done->bytes;
    r->now.deleted_files = (int64_t)done->delete_files;
    r->now.deleted_dirs = (int64_t)done->delete_dirs;
    r->now.failed = (int64_t)result->failed;
    r->changed = true;
}

void report_note(struct report *r, struct str note)
{
    LOCKED(&r->lock);

    if (r->now.note.len == 0 && note.len > 0) {
        (void)snprintf(r->note, sizeof(r->note), "%.*s", STR_ARG(note));
        r->now.note = str_from(r->note);
        r->changed = true;
    }
}
