/*
 * observe.c - see observe.h.
 *
 * A look holds no lock and no peer: it copies who (owner and folder of the scope) wants which
 * address, finds the versions, and gives each back to listen.c, which compares it with what
 * each subscription has heard last.
 */
#include "mcp/observe.h"

#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "base/thread.h"
#include "mcp/exchange.h"
#include "mcp/listen.h"
#include "tools/resource.h"

#define LOOK_MEMORY ((size_t)64 << 20)
#define LOOK_MAX_MS 15000 /* for one address: a dead host must not hold up the others for long */
#define VERSION_MAX (1u << 20)

struct observer {
    struct mcp *mcp;
    struct cancel cancel;
    int wake_fd; /* eventfd */
    pthread_mutex_t lock;
    bool started; /* guarded by lock */
    pthread_t thread;
};

/* ---- one look ------------------------------------------------------------------------- */

/* The version as text to free(); NULL: not known. What fails (the box is gone) has the failure as
 * its version. */
static char *look(struct mcp *m, struct ctx *ctx, const struct scope *whose, struct str uri,
                  bool quick)
{
    struct str values[RESOURCE_VALUES] = {{0}};
    const struct resource *row = resource_find(uri, values);
    struct buf text own_buf = {0};
    struct scope scope;
    struct err e = {0};
    struct call call;
    int rc;

    if (row == NULL || row->version == NULL) {
        return NULL;
    }
    scope_init(&scope, whose->owner, whose->folder);
    call = (struct call){
        .ctx = ctx, .services = m->services, .scope = &scope, .toolsets = m->toolsets};
    buf_init(&text, VERSION_MAX);
    rc = row->version(&call, values, quick, &text, &e);
    scope_fini(&scope);
    if (rc < 0) {
        if (e.kind == ERR_CANCELLED || e.kind == ERR_TIMEOUT || e.kind == ERR_UNREACHABLE) {
            return NULL;
        }
        buf_clear(&text);
        buf_addf(&text, "! %s", err_kind_name(e.kind));
    }
    return text.len > 0 ? buf_take(&text) : NULL;
}

char *observe_now(struct mcp *m, const struct scope *scope, struct str uri)
{
    struct arena arena own_arena = {0};
    struct ctx ctx = {.arena = &arena};

    arena_init(&arena, LOOK_MEMORY);
    return look(m, &ctx, scope, uri, true);
}

struct wanted {
    struct scope scope; /* .owner and .folder only */
    struct str uri;
};

struct round {
    struct arena arena;
    struct wanted *items;
    size_t n, cap;
};

static void add_wanted(void *arg, const struct scope *scope, struct str uri)
{
    struct round *r = arg;

    for (size_t i = 0; i < r->n; i++) {
        if (str_eq(r->items[i].uri, uri) && str_eq(r->items[i].scope.owner, scope->owner)) {
            return;
        }
    }
    if (r->n == r->cap) {
        r->cap = r->cap > 0 ? r->cap * 2 : 16;
        r->items = xrealloc(r->items, r->cap, sizeof(*r->items));
    }
    r->items[r->n++] = (struct wanted){
        .scope = {.owner = arena_str(&r->arena, scope->owner),
                  .folder = arena_str(&r->arena, scope->folder)},
        .uri = arena_str(&r->arena, uri),
    };
}

/* False: nobody wants anything. */
static bool look_at_all(struct observer *o)
{
    struct round r = {0};
    bool any;

    arena_init(&r.arena, LOOK_MEMORY);
    listen_each_uri(o->mcp, add_wanted, &r);
    any = r.n > 0;
    for (size_t i = 0; i < r.n && !atomic_load(&o->cancel.fired); i++) {
        struct arena arena own_arena = {0};
        struct ctx ctx = {
            .arena = &arena, .cancel = &o->cancel, .deadline_ms = clock_mono_ms() + LOOK_MAX_MS};
        char *version;

        arena_init(&arena, LOOK_MEMORY);
        version = look(o->mcp, &ctx, &r.items[i].scope, r.items[i].uri, false);
        if (version != NULL) {
            listen_version(o->mcp, r.items[i].scope.owner, r.items[i].uri, version);
        }
        free(version);
    }
    free(r.items);
    arena_fini(&r.arena);
    return any;
}

/* ---- the thread ------------------------------------------------------------------------- */

static void *observe(void *arg)
{
    struct observer *o = arg;
    struct arena arena own_arena = {0};
    struct ctx ctx = {.arena = &arena, .cancel = &o->cancel};
    struct pollfd woken = {.fd = o->wake_fd, .events = POLLIN};
    struct err e;
    uint64_t n;

    arena_init(&arena, 4096);
    for (;;) {
        bool any = look_at_all(o);

        if (ctx_wait(&ctx, &woken, 1, any ? clock_mono_ms() + OBSERVE_MS : 0, &e) < 0) {
            return NULL;
        }
        (void)!read(o->wake_fd, &n, sizeof(n));
    }
}

struct observer *observer_new(struct mcp *m)
{
    struct observer *o = xcalloc(1, sizeof(*o));

    o->mcp = m;
    o->cancel.fd = -1;
    o->wake_fd = -1;
    (void)pthread_mutex_init(&o->lock, NULL);
    return o;
}

void observer_free(struct observer *o)
{
    if (o == NULL) {
        return;
    }
    if (o->started) {
        cancel_fire(&o->cancel);
        (void)pthread_join(o->thread, NULL);
    }
    cancel_fini(&o->cancel);
    own_close_(&o->wake_fd);
    (void)pthread_mutex_destroy(&o->lock);
    free(o);
}

static bool start(struct observer *o)
{
    struct err e;

    if (o->cancel.fd < 0 && cancel_init(&o->cancel, &e) < 0) {
        log_line(LOG_WARN, "mcp", "resources are not looked at: %s", e.msg);
        return false;
    }
    if (o->wake_fd < 0) {
        o->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    }
    if (o->wake_fd < 0 || thread_start(&o->thread, "observe", observe, o, &e) < 0) {
        log_line(LOG_WARN, "mcp", "resources are not looked at: no thread could be started");
        return false;
    }
    return true;
}

void observer_wake(struct observer *o)
{
    const uint64_t one = 1;

    LOCKED(&o->lock);
    if (!o->started) {
        o->started = start(o);
    } else {
        (void)!write(o->wake_fd, &one, sizeof(one));
    }
}
