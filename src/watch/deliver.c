#include "watch/deliver.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/own.h"
#include "base/proc.h"
#include "json/js.h"
#include "watch/event.h"
#include "watch/under_way.h"
#include "watch/webhook.h"

#define DUE_AT_ONCE   64
#define ENV_TEXT_MAX  (100u << 10) /* of one variable: execve takes 128 KiB */
#define FIRST_PAUSE_S 2
#define PAUSE_MAX_S   3600

struct deliverer {
    struct store *store;
    char *state_dir;
    void (*wake)(void *);
    void *arg;
    struct under_way jobs; /* struct job.link */
};

/* A webhook or a command under way. Owns its memory: the row's strings are in it. */
struct job {
    struct list link;
    struct deliverer *d;
    struct arena arena;
    struct delivery_row row;
};

struct deliverer *deliverer_new(struct store *store, struct str state_dir, void (*wake)(void *),
                                void *arg, struct err *e)
{
    struct deliverer *d = xcalloc(1, sizeof(*d));

    if (under_way_init(&d->jobs, "deliver", DELIVER_THREADS, e) < 0) {
        free(d);
        return NULL;
    }
    d->store = store;
    d->state_dir = xmemdup(state_dir.p, state_dir.len);
    d->wake = wake;
    d->arg = arg;
    return d;
}

void deliverer_free(struct deliverer *d)
{
    if (d == NULL) {
        return;
    }
    under_way_fini(&d->jobs);
    free(d->state_dir);
    free(d);
}

int64_t deliver_next_s(int64_t tries, int64_t now_s)
{
    int64_t pause_s = FIRST_PAUSE_S;

    if (tries >= DELIVER_TRIES) {
        return 0;
    }
    for (int64_t i = 1; i < tries && pause_s < PAUSE_MAX_S; i++) {
        pause_s *= 2;
    }
    return now_s + (pause_s < PAUSE_MAX_S ? pause_s : PAUSE_MAX_S);
}

static bool is_alarming(enum watch_event type)
{
    return type == EVENT_UNREACHABLE || type == EVENT_RESUME_FAILED || type == EVENT_EXHAUSTED ||
           type == EVENT_GONE;
}

void deliver_owes(const struct watch_order *order, enum watch_event type, struct new_event *out)
{
    out->owes[DELIVERY_FILE] = true;
    out->owes[DELIVERY_NOTIFY] = order->notify_local && is_alarming(type);
    out->owes[DELIVERY_WEBHOOK] = order->webhook_url.len > 0;
    out->owes[DELIVERY_COMMAND] = order->event_command.len > 0;
}

/* ---- files ----------------------------------------------------------------------- */

struct str deliver_file(struct arena *a, struct str state_dir, int64_t id)
{
    return arena_printf(a, "%.*s/events/event-%" PRId64 ".json", STR_ARG(state_dir), id);
}

static int write_file(const struct deliverer *d, struct arena *a, const struct watch_event_row *v,
                      struct err *e)
{
    json_t *record own_json = event_record(v);
    char *text own_mem = json_dumps(record, JSON_INDENT(2));
    struct str folder = arena_printf(a, "%s/events", d->state_dir);

    if (text == NULL) {
        return err_set(e, ERR_BUG, "event %" PRId64 " cannot be written as JSON", v->id);
    }
    if (fd_mkdirs(folder.p, 0700, e) < 0) {
        return -1;
    }
    return fd_replace_file(AT_FDCWD, deliver_file(a, str_from(d->state_dir), v->id).p,
                           str_from(text), 0600, e);
}

/* ---- programs -------------------------------------------------------------------- */

/* Runs it to its end, its output dropped, in a session of its own that ends with ctx. */
static int run_program(const struct ctx *ctx, const char *const *argv, const char *const *envp,
                       struct err *e)
{
    struct buf output own_buf = {0};
    int status = 0;

    buf_init(&output, 1u << 20);
    return proc_output(ctx, argv, envp, &output, &status, e);
}

static int notify(struct deliverer *d, struct arena *a, const struct watch_event_row *v,
                  struct err *e)
{
    const char *summary = arena_cstr(a, v->summary);
#ifdef __APPLE__
    const char *const argv[] = {"osascript",
                                "-e",
                                "on run argv",
                                "-e",
                                "display notification (item 1 of argv) with title \"anybox\"",
                                "-e",
                                "end run",
                                "--",
                                summary,
                                NULL};
#else
    const char *const argv[] = {"notify-send", "--app-name=anybox", "--", "anybox", summary, NULL};
#endif
    const struct ctx ctx = {a, &d->jobs.cancel, clock_mono_ms() + 5000};

    /* A machine without a desktop is no failure: there is nobody to notify. */
    if (run_program(&ctx, argv, (const char *const *)environ, e) < 0) {
        log_line(LOG_DEBUG, "watch", "no notification: %s", e->msg);
    }
    return 0;
}

static const char *variable(struct arena *a, const char *name, struct str value)
{
    return arena_printf(a, "%s=%.*s", name, STR_ARG(value)).p;
}

/* The record, or without its payload where that is too long for a variable: the file has it. */
static struct str record_text(struct arena *a, const struct watch_event_row *v)
{
    json_t *record own_json = event_record(v);
    struct buf text own_buf = {0};

    buf_init(&text, 8u << 20);
    js_dump(record, &text);
    if (text.len > ENV_TEXT_MAX) {
        (void)json_object_del(record, "payload");
        buf_clear(&text);
        js_dump(record, &text);
    }
    return arena_str(a, buf_str(&text));
}

static const char *const *command_env(const struct deliverer *d, struct arena *a,
                                      const struct watch_event_row *v)
{
    struct err ignored;
    json_t *payload own_json = js_parse(v->payload.p, v->payload.len, &ignored);
    const json_t *watch = js_get(payload, "watch");
    const char *const ours[] = {
        variable(a, "RSMCP_EVENT_FILE", deliver_file(a, str_from(d->state_dir), v->id)),
        variable(a, "RSMCP_EVENT_JSON", record_text(a, v)),
        variable(a, "RSMCP_EVENT_TYPE", v->type),
        variable(a, "RSMCP_WATCH_ID", arena_printf(a, "%" PRId64, v->watch_id)),
        variable(a, "RSMCP_SANDBOX_NAME", js_str(js_get(watch, "sandbox_name"))),
        variable(a, "RSMCP_TMUX_SESSION", js_str(js_get(watch, "tmux_session"))),
        variable(a, "RSMCP_LOG_FILE", js_str(js_get(watch, "log_file"))),
        variable(a, "RSMCP_SUGGESTED_PROMPT",
                 str_head(js_str(js_get(payload, "suggested_codex_prompt")), ENV_TEXT_MAX)),
    };
    size_t n = 0;

    while (environ[n] != NULL) {
        n++;
    }
    const char **all = arena_alloc(a, n + COUNTOF(ours) + 1, sizeof(*all));
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        if (strncmp(environ[i], "RSMCP_", 6) != 0) {
            all[k++] = environ[i];
        }
    }
    for (size_t i = 0; i < COUNTOF(ours); i++) {
        all[k++] = ours[i];
    }
    all[k] = NULL;
    return all;
}

/* How it ends is its own affair: a command that ran is not run again. */
static int run_command(const struct deliverer *d, const struct ctx *ctx,
                       const struct delivery_row *row, struct err *e)
{
    const char *const argv[] = {"/bin/sh", "-lc", arena_cstr(ctx->arena, row->command), NULL};
    const struct ctx limited = {ctx->arena, ctx->cancel, clock_mono_ms() + COMMAND_TIMEOUT_MS};

    if (run_program(&limited, argv, command_env(d, ctx->arena, &row->event), e) == 0 ||
        e->kind == ERR_LIMIT) {
        return 0;
    }
    if (e->kind == ERR_TIMEOUT) {
        log_line(LOG_WARN, "watch",
                 "the event_command of event %" PRId64 " took more than %d s and was ended",
                 row->event.id, COMMAND_TIMEOUT_MS / 1000);
        return 0;
    }
    return -1;
}

/* ---- the queue ------------------------------------------------------------------- */

static void settle(struct deliverer *d, const struct delivery_row *row, int rc, bool forever,
                   const struct err *why)
{
    struct err e;
    int64_t next_s = forever ? 0 : deliver_next_s(row->tries + 1, clock_wall_ms() / 1000);

    if (rc < 0 && why->kind == ERR_CANCELLED) {
        return; /* we are leaving; it stays owed */
    }
    if (rc < 0) {
        log_line(LOG_WARN, "watch", "event %" PRId64 " was not delivered: %s", row->event.id,
                 why->msg);
    }
    if ((rc < 0 ? store_not_delivered(d->store, row->id, next_s, str_from(why->msg), &e)
                : store_delivered(d->store, row->id, &e)) < 0) {
        log_line(LOG_WARN, "watch", "event %" PRId64 ": %s", row->event.id, e.msg);
    }
}

static void job_free(struct job *job)
{
    arena_fini(&job->arena);
    free(job);
}

static void work(void *arg)
{
    struct job *job = arg;
    struct deliverer *d = job->d;
    const struct ctx ctx = {&job->arena, &d->jobs.cancel, 0};
    bool forever = false;
    struct str key;
    struct err e = {0};
    int rc;

    if (job->row.kind == DELIVERY_COMMAND) {
        rc = run_command(d, &ctx, &job->row, &e);
    } else {
        rc = webhook_key(str_from(d->state_dir), &job->arena, &key, &e);
        rc = rc < 0 ? rc : webhook_post(&ctx, key, job->row.url, &job->row.event, &forever, &e);
    }
    if (rc < 0 && ctx_check(&ctx, &e) < 0) {
        forever = false;
    }
    settle(d, &job->row, rc, forever, &e);
    under_way_done(&d->jobs, &job->link);
    job_free(job);
    d->wake(d->arg);
}

static struct delivery_row copy_row(struct arena *a, const struct delivery_row *row)
{
    struct delivery_row copy = *row;

    copy.event.type = arena_str(a, row->event.type);
    copy.event.summary = arena_str(a, row->event.summary);
    copy.event.payload = arena_str(a, row->event.payload);
    copy.url = arena_str(a, row->url);
    copy.command = arena_str(a, row->command);
    return copy;
}

/* One of a kind and a watch at a time. */
static bool is_same(struct list *link, const void *arg)
{
    const struct job *job = list_entry(link, struct job, link);
    const struct delivery_row *row = arg;

    return job->row.kind == row->kind && job->row.event.watch_id == row->event.watch_id;
}

static void start_job(struct deliverer *d, const struct delivery_row *row)
{
    struct job *job;

    if (under_way_has(&d->jobs, is_same, row)) {
        return;
    }
    job = xcalloc(1, sizeof(*job));
    arena_init(&job->arena, 64u << 20);
    job->d = d;
    job->row = copy_row(&job->arena, row);
    if (!under_way_start(&d->jobs, &job->link, work, job)) {
        job_free(job); /* the next turn */
    }
}

static int deliver(void *arg, const struct delivery_row *row, struct err *e)
{
    struct deliverer *d = arg;
    struct arena a own_arena = {0};
    struct err why = {0};

    (void)e;
    arena_init(&a, 64u << 20);
    switch (row->kind) {
    case DELIVERY_FILE: settle(d, row, write_file(d, &a, &row->event, &why), false, &why); break;
    case DELIVERY_NOTIFY: settle(d, row, notify(d, &a, &row->event, &why), false, &why); break;
    case DELIVERY_WEBHOOK:
    case DELIVERY_COMMAND: start_job(d, row); break;
    case DELIVERY_KINDS: break;
    }
    return 0;
}

int deliver_turn(struct deliverer *d, int64_t now_s, struct err *e)
{
    struct arena a own_arena = {0};

    arena_init(&a, 64u << 20);
    return store_due_deliveries(d->store, &a, now_s, DUE_AT_ONCE, deliver, d, e);
}
