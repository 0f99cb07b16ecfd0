#include "watch/round.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/ctx.h"
#include "base/id.h"
#include "base/log.h"
#include "base/own.h"
#include "base/plain.h"
#include "core/boxes.h"
#include "core/task.h"
#include "store/watches.h"
#include "watch/checkpoint.h"
#include "watch/deliver.h"
#include "watch/event.h"
#include "watch/legacy.h"
#include "watch/order.h"
#include "watch/under_way.h"

#define LOOKS_PER_IDLE 4 /* looks at a sandbox within the time that it lives without use */
#define GROUP_MS       120000
#define LINE_GUESS     200 /* bytes of a log's line, to know how much of it is asked for */
#define GROUP_MEMORY   (256u << 20)
#define ROWS_MEMORY    (64u << 20) /* of it, from where on no more watches are looked at at once */
#define LOOKS_AT_ONCE  64
#define TEXTS_AT_ONCE  (24u << 10) /* bytes of their names and checkpoints in one exchange */
#define SOON_S         2           /* a checkpoint that takes longer does not hold up the others */

struct rounds {
    const struct services *services;
    void (*wake)(void *);
    void *arg;
    struct under_way groups; /* struct group.link */
};

/* The watches of one sandbox that are looked at together. */
struct group {
    struct list link;
    struct rounds *r;
    struct arena arena; /* holds all of it */
    struct str owner, box_id;
    struct watch_row *rows;
    struct task_seen *seen; /* beside rows; .end.state TASK_UNKNOWN: nothing was said */
    size_t n, room;
    size_t *asked;          /* the rows of the exchange under way ... */
    size_t n_asked, n_told; /* ... and how many of them were told of */
    int64_t within_s;       /* the next look comes no later; 0: as each row says */
};

struct rounds *rounds_new(const struct services *services, void (*wake)(void *), void *arg,
                          struct err *e)
{
    struct rounds *r = xcalloc(1, sizeof(*r));

    if (under_way_init(&r->groups, "watch", ROUND_THREADS, e) < 0) {
        free(r);
        return NULL;
    }
    r->services = services;
    r->wake = wake;
    r->arg = arg;
    return r;
}

void rounds_free(struct rounds *r)
{
    if (r == NULL) {
        return;
    }
    under_way_fini(&r->groups);
    free(r);
}

/* ---- what was found ----------------------------------------------------------------- */

static bool is_fixed(struct str box_id)
{
    return memchr(box_id.p, ':', box_id.len) != NULL; /* "ssh:NAME": of the configuration */
}

/* The sandbox could not be asked. */
static enum watch_found found_instead(struct str box_id, const struct err *e)
{
    if (e->kind == ERR_GONE) {
        return FOUND_GONE;
    }
    if (e->kind == ERR_NOT_FOUND) {
        return is_fixed(box_id) ? FOUND_NO_CONFIG : FOUND_GONE;
    }
    return FOUND_UNREACHABLE;
}

static bool is_other_run(const struct watch_row *w, struct str run)
{
    return w->words.task_run.len > 0 && run.len > 0 && !str_eq(run, w->words.task_run);
}

static void judge(const struct watch_row *w, const struct task_seen *seen, struct watch_look *out)
{
    *out = (struct watch_look){.found = FOUND_INTERRUPTED};
    if (is_other_run(w, seen->run)) {
        out->is_new_run = str_eq(seen->run, w->words.next_run);
        if (!out->is_new_run) {
            out->found = FOUND_REPLACED;
            return;
        }
    }
    switch (seen->end.state) {
    case TASK_STARTING:
    case TASK_RUNNING:
    case TASK_ORPHAN: out->found = FOUND_RUNNING; break;
    case TASK_EXITED:
    case TASK_KILLED:
        out->found = FOUND_ENDED;
        out->has_exit_code = seen->end.code >= 0 || seen->end.signal > 0;
        out->exit_code = seen->end.signal > 0 ? 128 + seen->end.signal : seen->end.code;
        break;
    case TASK_CANCELLED: out->found = FOUND_STOPPED; break;
    case TASK_REPLACED: out->found = FOUND_REPLACED; break;
    case TASK_INTERRUPTED:
    case TASK_UNKNOWN:
    case TASK_STATES: break;
    }
}

/* ---- storing a step ----------------------------------------------------------------- */

/* A sandbox that would end while a task runs in it is looked at more often: a look is a use. */
static int64_t interval_of(const struct group *g, const struct watch_row *w)
{
    return g->within_s > 0 && g->within_s < w->order.interval_s ? g->within_s : w->order.interval_s;
}

static struct watch_rules rules_of(struct group *g, const struct watch_row *w)
{
    struct arena *a = &g->arena;

    return (struct watch_rules){
        .interval_s = interval_of(g, w),
        .alert_after_failures = w->order.alert_after_failures,
        .resume_delay_s = w->order.resume_delay_s,
        .max_resume_attempts = w->order.max_resume_attempts,
        .auto_resume = w->order.auto_resume,
        .has_resume_command = watch_resume_command(&w->order, a).len > 0,
    };
}

/* The row as it is then: 1; 0 when somebody else changed it meanwhile; -1. */
static int store_step(struct group *g, struct watch_row *w, const struct watch_step *step,
                      const struct event_extra *extra, struct err *e)
{
    struct new_event events[STEP_EVENTS] = {0};
    struct watch_row seen = *w;
    int rc;

    w->memory = step->memory;
    for (size_t i = 0; i < step->n_events; i++) {
        enum watch_event type = step->events[i];
        struct event_extra own = *extra;

        own.has_exit_code = type == EVENT_COMPLETED && step->memory.has_exit_code;
        own.exit_code = step->memory.exit_code;
        own.resume_attempt = type == EVENT_RESUME_STARTED || type == EVENT_RESUME_FAILED
                                 ? step->memory.resume_attempts
                                 : 0;
        events[i].type = str_from(watch_event_name(type));
        events[i].summary = event_summary(&g->arena, w, type, &own);
        events[i].payload = event_payload(&g->arena, w, type, events[i].summary, &own);
        deliver_owes(&w->order, type, &events[i]);
        w->words.summary = events[i].summary;
    }
    rc = store_step_watch(g->r->services->store, &seen, &w->memory, &w->words, events,
                          step->n_events, e);
    w->revision++;
    return rc;
}

static void complain(const struct watch_row *w, const struct err *e)
{
    log_line(LOG_WARN, "watch", "watch %" PRId64 ": %s", w->id, e->msg);
}

/* ---- resuming ------------------------------------------------------------------------ */

static enum watch_resume outcome_of(int rc, const struct err *e)
{
    if (rc == 0) {
        return RESUME_STARTED;
    }
    if (e->kind == ERR_EXISTS) {
        return RESUME_NOT_NEEDED;
    }
    return e->kind == ERR_UNREACHABLE || e->kind == ERR_TIMEOUT || e->kind == ERR_CANCELLED ||
                   e->kind == ERR_GONE
               ? RESUME_UNCERTAIN
               : RESUME_FAILED;
}

/* Who asks for the task by its name means this run from now on, as after tasks_start(). The
 * watch does not depend on it. */
static void note_run(struct group *g, const struct watch_row *w, struct str command)
{
    const struct task_row row = {
        .id = w->words.next_run,
        .owner = w->order.owner,
        .box_id = w->order.box_id,
        .name = w->order.session,
        .command = task_head(&g->arena, command),
        .state = S("starting"),
        .exit_code = -1,
        .created_ms = clock_wall_ms(),
    };
    struct err e;

    if (store_add_task(g->r->services->store, &row, &e) < 0) {
        complain(w, &e);
    }
}

static void forget_run(struct group *g, const struct watch_row *w, struct str run)
{
    struct err e;

    if (run.len > 0 && !str_eq(run, w->words.task_run) &&
        store_drop_task(g->r->services->store, run, &e) < 0) {
        complain(w, &e);
    }
}

static void note_outcome(struct group *g, const struct watch_row *w, enum watch_resume outcome,
                         const struct task_begun *begun)
{
    struct err e;

    if (outcome == RESUME_FAILED || outcome == RESUME_NOT_NEEDED) {
        forget_run(g, w, w->words.next_run);
    } else if (outcome == RESUME_STARTED &&
               store_task_begun(g->r->services->store, w->words.next_run, begun->log, begun->dir,
                                &e) < 0) {
        complain(w, &e);
    }
}

static void resume(struct group *g, struct box *b, const struct ctx *ctx, struct watch_row *w)
{
    const struct task_order order = {
        .name = w->order.session,
        .command = watch_resume_command(&w->order, &g->arena),
        .cwd = w->order.cwd,
        .log = w->order.log_file,
        .after = w->words.task_run.len > 0 ? w->words.task_run : S("-"),
    };
    const struct watch_rules rules = rules_of(g, w);
    struct event_extra extra = {0};
    struct watch_step step;
    struct task_begun begun;
    struct err e = {0}, why = {0};
    int rc;

    note_run(g, w, order.command);
    rc = task_start(b, ctx, &order, w->words.next_run, &begun, &why);
    note_outcome(g, w, outcome_of(rc, &why), &begun);
    watch_resumed(&rules, &w->memory, outcome_of(rc, &why), clock_wall_ms() / 1000, &step);
    if (rc == 0) {
        w->words.task_run = w->words.next_run;
        w->words.next_run = STR_EMPTY;
        w->words.error = STR_EMPTY;
    } else {
        w->words.error = arena_str(&g->arena, str_from(why.msg));
        extra.err = w->words.error;
    }
    if (store_step(g, w, &step, &extra, &e) < 0) {
        complain(w, &e);
    }
}

/* ---- one watch ----------------------------------------------------------------------- */

static struct str last_lines(struct str text, int64_t lines)
{
    size_t at = text.len;

    if (at > 0 && text.p[at - 1] == '\n') {
        at--;
    }
    while (at > 0) {
        if (text.p[at - 1] == '\n' && --lines == 0) {
            break;
        }
        at--;
    }
    return str_skip(text, at);
}

static void take_in(struct group *g, struct watch_row *w, const struct task_seen *seen,
                    const struct watch_look *look)
{
    struct buf tail own_buf = {0};

    if (look->is_new_run || w->words.task_run.len == 0) {
        w->words.task_run = seen->run;
        w->words.next_run = STR_EMPTY;
    }
    if (seen->log.len > 0) {
        w->order.log_file = seen->log;
    }
    buf_init(&tail, TASK_TEXT_MAX);
    plain_text(last_lines(seen->text, w->order.max_log_lines), &tail);
    w->words.log_tail = arena_str(&g->arena, buf_str(&tail));
    w->words.error = STR_EMPTY;
}

static void step_watch(struct group *g, struct box *b, const struct ctx *ctx, struct watch_row *w,
                       const struct watch_look *look)
{
    const struct watch_rules rules = rules_of(g, w);
    const struct event_extra none = {0};
    struct watch_step step;
    char run[TASK_RUN_SIZE];
    struct err e = {0};
    int rc;

    watch_step(&rules, &w->memory, look, clock_wall_ms() / 1000, &step);
    if (step.resume) {
        forget_run(g, w, w->words.next_run); /* an attempt that never came to anything */
        id_hex(run, (TASK_RUN_SIZE - 1) / 2);
        w->words.next_run = arena_str(&g->arena, str_from(run));
    }
    rc = store_step(g, w, &step, &none, &e);
    if (rc < 0) {
        complain(w, &e);
    }
    if (rc > 0 && step.resume) {
        resume(g, b, ctx, w);
    }
}

/* ---- one sandbox --------------------------------------------------------------------- */

static int keep_seen(void *arg, const struct task_seen *seen, struct err *e)
{
    struct group *g = arg;

    (void)e;
    if (g->n_told < g->n_asked) {
        g->seen[g->asked[g->n_told++]] = *seen;
    }
    return 0;
}

static struct task_want want_of(const struct watch_order *o)
{
    struct task_want want = {
        .name = o->session,
        .log = o->log_file,
        .from = -1,
        .max = o->max_log_lines * LINE_GUESS,
    };

    checkpoint_want(o, &want);
    return want;
}

static size_t text_of(const struct task_want *w)
{
    return w->name.len + w->log.len + w->check_cwd.len + w->check_file.len + w->check_command.len;
}

/* Those rows, as many as go into one exchange. */
static int look_at_some(struct group *g, struct box *b, const struct ctx *ctx, size_t *which,
                        size_t n, int64_t check_s, struct err *e)
{
    const struct task_wait wait = {.check_s = check_s};
    struct task_want wants[LOOKS_AT_ONCE];
    size_t text = 0;

    g->asked = which;
    g->n_asked = g->n_told = 0;
    while (g->n_asked < n && g->n_asked < LOOKS_AT_ONCE) {
        struct task_want *w = &wants[g->n_asked];

        *w = want_of(&g->rows[which[g->n_asked]].order);
        text += text_of(w);
        if (g->n_asked > 0 && text > TEXTS_AT_ONCE) {
            break;
        }
        g->n_asked++;
    }
    if (task_look(b, ctx, wants, g->n_asked, &wait, keep_seen, g, e) < 0) {
        return -1;
    }
    if (g->n_told != g->n_asked) {
        return err_set(e, ERR_PROTOCOL, "the sandbox told of %zu tasks instead of %zu", g->n_told,
                       g->n_asked);
    }
    return 0;
}

/* Another watchdog, whose watch it was, still cares for it. Asked only where it matters. */
static bool is_others(const struct group *g, const struct watch_row *w,
                      const struct watch_look *look)
{
    return look->found == FOUND_INTERRUPTED && w->order.auto_resume && legacy_is_its(w) &&
           legacy_in_charge(g->r->services->config, clock_wall_ms() / 1000);
}

/* What came of a look at it: the sandbox answered, or `why` not. */
static void take_look(struct group *g, struct box *b, const struct ctx *ctx, size_t i,
                      const struct err *why)
{
    struct watch_row *w = &g->rows[i];
    struct watch_look look;

    if (why != NULL) {
        look = (struct watch_look){.found = found_instead(g->box_id, why)};
        w->words.error = arena_str(&g->arena, str_from(why->msg));
    } else {
        judge(w, &g->seen[i], &look);
        look.is_others = is_others(g, w, &look);
        take_in(g, w, &g->seen[i], &look);
        checkpoint_take(b, ctx, w, &g->seen[i]);
    }
    step_watch(g, b, ctx, w, &look);
}

/* Looks at `which` and takes what was found; those whose checkpoint is slow come to the front of
 * `which` instead, where *n_slow is given. */
static int look_at_all(struct group *g, struct box *b, const struct ctx *ctx, size_t *which,
                       size_t n, size_t *n_slow, struct err *e)
{
    size_t at = 0;

    while (at < n) {
        int64_t check_s = n_slow != NULL ? SOON_S : CHECKPOINT_MS / 1000;
        int rc = look_at_some(g, b, ctx, which + at, n - at, check_s, e);
        size_t end = rc < 0 ? n : at + g->n_asked;

        if (rc < 0 && e->kind == ERR_CANCELLED) {
            return -1;
        }
        for (; at < end; at++) {
            if (rc == 0 && n_slow != NULL && g->seen[which[at]].check_is == CHECK_SLOW) {
                which[(*n_slow)++] = which[at];
            } else {
                take_look(g, b, ctx, which[at], rc < 0 ? e : NULL);
            }
        }
    }
    return 0;
}

/* 0: at any time. Where the agent is, a task that runs is a use by itself. */
static int64_t within_of(struct box *b, const struct ctx *ctx)
{
    const struct provider_ops *ops = b->provider->ops;
    struct box_info info = {0};
    struct err ignored;

    if (ops->factory == NULL || ops->tasks != NULL || box_info(b, ctx, &info, &ignored) < 0 ||
        info.limits.idle_s <= 0) {
        return 0;
    }
    return info.limits.idle_s >= LOOKS_PER_IDLE ? info.limits.idle_s / LOOKS_PER_IDLE : 1;
}

static void look_at_group(struct group *g, const struct ctx *ctx)
{
    struct scope scope;
    struct str id;
    struct err e = {0};
    struct box *b CLEANUP(box_unref_p) = NULL;
    size_t *which = arena_alloc(&g->arena, g->n, sizeof(*which));
    size_t n_slow = 0;

    g->seen = arena_alloc(&g->arena, g->n, sizeof(*g->seen));
    for (size_t i = 0; i < g->n; i++) {
        which[i] = i;
    }
    scope_init(&scope, g->owner, STR_EMPTY);
    b = boxes_find(g->r->services->boxes, ctx, &scope, &(struct box_want){.id = g->box_id}, &id,
                   &e);
    g->within_s = b != NULL ? within_of(b, ctx) : 0;
    for (size_t i = 0; b == NULL && i < g->n && e.kind != ERR_CANCELLED; i++) {
        take_look(g, b, ctx, i, &e);
    }
    if (b != NULL && look_at_all(g, b, ctx, which, g->n, &n_slow, &e) == 0 && n_slow > 0) {
        (void)!look_at_all(g, b, ctx, which, n_slow, NULL, &e);
    }
    scope_fini(&scope);
}

static void group_free(struct group *g)
{
    struct arena arena = g->arena; /* it holds g itself */

    arena_fini(&arena);
}

static void work(void *arg)
{
    struct group *g = arg;
    struct rounds *r = g->r;
    const struct ctx ctx = {&g->arena, &r->groups.cancel, clock_mono_ms() + GROUP_MS};

    look_at_group(g, &ctx);
    under_way_done(&r->groups, &g->link);
    group_free(g);
    r->wake(r->arg);
}

/* ---- the turn ------------------------------------------------------------------------ */

struct turn {
    struct rounds *r;
    struct group *groups[ROUND_MAX];
    size_t n_groups;
    int taken;
};

static bool is_of(const struct group *g, const struct watch_order *o)
{
    return str_eq(g->box_id, o->box_id) && str_eq(g->owner, o->owner);
}

static bool is_same(struct list *link, const void *order)
{
    return is_of(list_entry(link, struct group, link), order);
}

static struct group *group_of(struct turn *t, const struct watch_order *o)
{
    struct arena arena;
    struct group *g;

    for (size_t i = 0; i < t->n_groups; i++) {
        if (is_of(t->groups[i], o)) {
            return t->groups[i];
        }
    }
    if (t->n_groups == COUNTOF(t->groups) || under_way_has(&t->r->groups, is_same, o)) {
        return NULL;
    }
    arena_init(&arena, GROUP_MEMORY);
    g = arena_new(&arena, struct group);
    *g = (struct group){.r = t->r, .arena = arena};
    g->owner = arena_str(&g->arena, o->owner);
    g->box_id = arena_str(&g->arena, o->box_id);
    t->groups[t->n_groups++] = g;
    return g;
}

static struct watch_row copy_row(struct arena *a, const struct watch_row *row)
{
    struct watch_row copy = *row;
    struct str *const texts[] = {
        &copy.order.owner,
        &copy.order.box_id,
        &copy.order.box_name,
        &copy.order.run_id,
        &copy.order.name,
        &copy.order.session,
        &copy.order.log_file,
        &copy.order.cwd,
        &copy.order.launch_command,
        &copy.order.resume_command,
        &copy.order.resume_plan,
        &copy.order.metadata,
        &copy.order.checkpoint_path,
        &copy.order.checkpoint_format,
        &copy.order.checkpoint_command,
        &copy.order.webhook_url,
        &copy.order.event_command,
        &copy.words.task_run,
        &copy.words.next_run,
        &copy.words.summary,
        &copy.words.error,
        &copy.words.log_tail,
        &copy.words.checkpoint_text,
    };

    for (size_t i = 0; i < COUNTOF(texts); i++) {
        *texts[i] = arena_str(a, *texts[i]);
    }
    return copy;
}

static int take_row(void *arg, const struct watch_row *row, struct err *e)
{
    struct turn *t = arg;
    struct group *g = group_of(t, &row->order);

    (void)e;
    if (g == NULL || g->arena.used > ROWS_MEMORY) { /* a later turn */
        return 0;
    }
    if (g->n == g->room) {
        size_t room = g->room == 0 ? 8 : 2 * g->room;
        struct watch_row *rows = arena_alloc(&g->arena, room, sizeof(*rows));

        if (g->n > 0) {
            memcpy(rows, g->rows, g->n * sizeof(*rows));
        }
        g->rows = rows;
        g->room = room;
    }
    g->rows[g->n++] = copy_row(&g->arena, row);
    t->taken++;
    return 0;
}

static void start_group(struct rounds *r, struct group *g, int *taken)
{
    int n = (int)g->n;

    if (!under_way_start(&r->groups, &g->link, work, g)) {
        group_free(g); /* a later turn */
        *taken -= n;
    }
}

int rounds_turn(struct rounds *r, int64_t now_s, int *n, struct err *e)
{
    struct turn *t own_mem = xcalloc(1, sizeof(*t));
    int rc;

    t->r = r;
    rc = store_due_watches(r->services->store, now_s, ROUND_MAX, take_row, t, e);
    for (size_t i = 0; i < t->n_groups; i++) {
        start_group(r, t->groups[i], &t->taken);
    }
    *n = t->taken;
    return rc;
}
