/*
 * list.c - what there is, and what one of them is.
 *
 * Who lists all sandboxes asks for each by itself. So a second question within a moment is
 * answered from the whole list, fetched in pages of 200 and kept for as long (the shelf): a
 * thousand sandboxes cost five exchanges.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/own.h"
#include "base/thread.h"
#include "provider/opensandbox/own.h"

#define SHELF_MS    1000
#define SHELF_AFTER 3 /* questions within that time */
#define SHELF_BYTES (256u << 20)
#define FILLING_MS  10 /* between two looks whether another thread has filled it */
#define DOCTOR_MS   5000

struct shelf {
    struct arena arena;
    struct osb_sandbox *items;
    size_t n, cap;
    int64_t filled_ms; /* 0: never */
    int64_t asked_ms;  /* since when is counted */
    unsigned n_asked;
};

static int put_away(void *arg, const struct osb_sandbox *s, struct err *e)
{
    struct shelf *shelf = arg;
    struct osb_sandbox copy = *s;
    struct str *texts[] = {&copy.id,    &copy.state,  &copy.reason, &copy.message,
                           &copy.image, &copy.own_id, &copy.owner,  &copy.name};

    (void)e;
    for (size_t i = 0; i < COUNTOF(texts); i++) {
        *texts[i] = arena_str(&shelf->arena, *texts[i]);
    }
    if (shelf->n == shelf->cap) {
        shelf->cap = shelf->cap > 0 ? 2 * shelf->cap : 64;
        shelf->items = xrealloc(shelf->items, shelf->cap, sizeof(*shelf->items));
    }
    shelf->items[shelf->n++] = copy;
    return 0;
}

static void shelf_free(struct shelf *s)
{
    if (s != NULL) {
        arena_fini(&s->arena);
        free(s->items);
        free(s);
    }
}

void osb_shelf_free(struct osb_provider *p)
{
    shelf_free(take(p->shelf));
}

static struct shelf *shelf_new(void)
{
    struct shelf *s = xcalloc(1, sizeof(*s));

    arena_init(&s->arena, SHELF_BYTES);
    return s;
}

/* Whether so many questions come at once that the whole list is worth it: one of those who ask
 * fetches it, *is_ours, and the others wait for it. */
static bool is_due(struct osb_provider *p, bool *is_ours)
{
    int64_t now_ms = clock_mono_ms();

    LOCKED(&p->lock);
    if (p->shelf == NULL) {
        p->shelf = shelf_new();
    }
    if (now_ms - p->shelf->asked_ms > SHELF_MS) {
        p->shelf->asked_ms = now_ms;
        p->shelf->n_asked = 0;
    }
    if (++p->shelf->n_asked <= SHELF_AFTER || now_ms - p->shelf->filled_ms <= SHELF_MS) {
        return false;
    }
    *is_ours = !p->is_filling;
    p->is_filling = true;
    return true;
}

static bool is_filling(struct osb_provider *p)
{
    LOCKED(&p->lock);
    return p->is_filling;
}

static void refill(struct osb_provider *p, const struct ctx *ctx)
{
    struct shelf *fresh = shelf_new();
    struct shelf *old;
    struct err ignored;
    int rc = osb_know_secret(p, &ignored);

    if (rc == 0) {
        rc = osb_each(p, ctx, S(TAG_OWNER), str_from(p->owner), put_away, fresh, &ignored);
    }
    fresh->filled_ms = fresh->asked_ms = clock_mono_ms();
    fresh->n_asked = SHELF_AFTER;
    lock(&p->lock);
    p->is_filling = false;
    old = rc == 0 ? p->shelf : fresh;
    p->shelf = rc == 0 ? fresh : p->shelf;
    unlock(&p->lock);
    shelf_free(old);
}

static void fill_when_due(struct osb_provider *p, const struct ctx *ctx)
{
    bool is_ours = false;
    struct err ignored;

    if (!is_due(p, &is_ours)) {
        return;
    }
    if (is_ours) {
        refill(p, ctx);
        return;
    }
    while (is_filling(p) && ctx_wait(ctx, NULL, 0, clock_mono_ms() + FILLING_MS, &ignored) == 0) {
    }
}

/* By the platform's id, or where that is not known by our own. */
static bool find_on_shelf(struct osb_box *b, const struct ctx *ctx, struct osb_sandbox *out)
{
    struct osb_provider *p = osb_of(b->box.provider);
    struct str id, own_id;

    {
        LOCKED(&b->lock);
        id = arena_str(ctx->arena, str_from(b->id));
        own_id = arena_str(ctx->arena, str_from(b->own_id));
    }
    LOCKED(&p->lock);
    const struct shelf *s = p->shelf;
    if (s == NULL || s->filled_ms == 0 || clock_mono_ms() - s->filled_ms > SHELF_MS) {
        return false;
    }
    for (size_t i = 0; i < s->n; i++) {
        if (id.len > 0 ? str_eq(s->items[i].id, id) : str_eq(s->items[i].own_id, own_id)) {
            struct arena *a = ctx->arena;

            *out = s->items[i];
            out->id = arena_str(a, out->id);
            out->state = arena_str(a, out->state);
            out->reason = arena_str(a, out->reason);
            out->message = arena_str(a, out->message);
            out->image = arena_str(a, out->image);
            out->own_id = arena_str(a, out->own_id);
            out->owner = arena_str(a, out->owner);
            out->name = arena_str(a, out->name);
            return true;
        }
    }
    return false;
}

/* ---- as core sees it ------------------------------------------------------------------------------ */

static void fill(const struct osb_provider *p, const struct ctx *ctx, const struct osb_sandbox *s,
                 struct box_info *out)
{
    struct str host = str_from(p->base);
    struct str rest;

    (void)str_cut(host, '/', &rest);
    host = str_skip(rest, 1);
    host = str_cut(host, '/', &rest);
    *out = (struct box_info){
        .ref = s->id,
        .name = s->name,
        .state = osb_state(s->state),
        .tier = S("opensandbox"),
        .host = arena_str(ctx->arena, host),
        .image = s->image,
        .network = s->network,
        .created_at = s->created_s,
        .expires_at = s->expires_s,
        .limits = {.idle_s = s->end_s == 0 ? (int32_t)s->ttl_s : 0,
                   .memory_bytes = s->memory_mib << 20,
                   .cpu_millis = (int32_t)s->cpu_millis},
    };
    if (out->state == BOX_GONE) {
        struct str why = osb_why(s);

        out->ended = why.len > 0 ? why : S("the platform has ended it");
    }
}

struct telling {
    struct osb_provider *provider;
    const struct ctx *ctx;
    box_info_fn *each;
    void *arg;
};

static int tell(void *arg, const struct osb_sandbox *s, struct err *e)
{
    const struct telling *t = arg;
    struct box_info info;

    fill(t->provider, t->ctx, s, &info);
    return t->each(t->arg, &info, e);
}

int osb_list(struct provider *provider, const struct ctx *ctx, box_info_fn *each, void *arg,
             struct err *e)
{
    struct telling t = {.provider = osb_of(provider), .ctx = ctx, .each = each, .arg = arg};

    if (osb_know_secret(t.provider, e) < 0) {
        return -1;
    }
    return osb_each(t.provider, ctx, S(TAG_OWNER), str_from(t.provider->owner), tell, &t, e);
}

static void add_place(struct osb_box *b, const struct ctx *ctx, struct box_info *out)
{
    LOCKED(&b->lock);
    if (b->is_reached) {
        out->user = arena_str(ctx->arena, str_from(b->way.user));
        out->home = arena_str(ctx->arena, str_from(b->way.home));
        out->work_dir = arena_str(ctx->arena, str_from(b->way.work));
        out->via = b->way.is_proxy ? S("server proxy") : S("direct");
    }
}

int osb_info(struct box *b, const struct ctx *ctx, struct box_info *out, struct err *e)
{
    struct osb_provider *p = osb_of(b->provider);
    struct osb_box *own = osb_box_of(b);
    struct osb_sandbox s;
    struct str id;

    fill_when_due(p, ctx);
    if (!find_on_shelf(own, ctx, &s)) {
        if (osb_know(own, ctx, &id, e) < 0) {
            return -1;
        }
        if (osb_get(p, ctx, id, &s, e) < 0) {
            return e->kind == ERR_GONE
                       ? err_set(e, ERR_GONE,
                                 "it has ended: the platform no longer has it; its time to live "
                                 "was over, or somebody deleted it")
                       : -1;
        }
    }
    osb_note(own, &s);
    fill(p, ctx, &s, out);
    if (out->state == BOX_GONE) {
        osb_bury(p, &s);
    }
    add_place(own, ctx, out);
    return 0;
}

/* ---- doctor ----------------------------------------------------------------------------------------- */

static int count(void *arg, const struct osb_sandbox *s, struct err *e)
{
    (void)s;
    (void)e;
    ++*(size_t *)arg;
    return 0;
}

int osb_doctor(struct provider *provider, const struct ctx *ctx, check_fn *each, void *arg,
               struct err *e)
{
    struct osb_provider *p = osb_of(provider);
    struct ctx own = *ctx;
    struct err why = {0};
    size_t n = 0;
    struct check check = {.what = S("OpenSandbox server")};

    own.deadline_ms = clock_mono_ms() + DOCTOR_MS;
    if (osb_know_secret(p, &why) < 0 ||
        osb_each(p, &own, S(TAG_OWNER), str_from(p->owner), count, &n, &why) < 0) {
        check.state = CHECK_FAIL;
        check.found = arena_str(ctx->arena, str_from(why.msg));
        check.fix = why.kind == ERR_DENIED ? S("export OPEN_SANDBOX_API_KEY=<the server's key>")
                                           : S("export OPENSANDBOX_SERVER=http://<host>:8080");
        return each(arg, &check, e);
    }
    check.found = arena_printf(ctx->arena, "%s answers; %zu sandboxes of ours", p->base, n);
    if (each(arg, &check, e) < 0) {
        return -1;
    }
    bool is_near = strstr(p->base, "://localhost") != NULL || strstr(p->base, "://127.") != NULL;
    if (p->api_key[0] == '\0' && !is_near) {
        check =
            (struct check){.state = CHECK_WARN,
                           .what = S("OpenSandbox API key"),
                           .found = S("none, and the server is on another machine: whoever "
                                      "reaches it can use it"),
                           .fix = S("set [server].api_key there and OPEN_SANDBOX_API_KEY here")};
        return each(arg, &check, e);
    }
    if (p->image[0] == '\0') {
        check = (struct check){.state = CHECK_WARN,
                               .what = S("OpenSandbox image"),
                               .found = S("none is configured: create_sandbox needs image"),
                               .fix = S("export OPENSANDBOX_DEFAULT_IMAGE=python:3.12")};
        return each(arg, &check, e);
    }
    return 0;
}
