#include "provider_fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/thread.h"

struct fake {
    struct provider provider;
    struct fake_world *world;
};

struct fake_box {
    struct box box;
    char ref[40];
};

static struct fake_world *world_of(const struct provider *p)
{
    return ((const struct fake *)(const void *)p)->world;
}

void fake_init(struct fake_world *w)
{
    memset(w, 0, sizeof(*w));
    (void)pthread_mutex_init(&w->lock, NULL);
    w->output = "";
}

void fake_fini(struct fake_world *w)
{
    (void)pthread_mutex_destroy(&w->lock);
}

/* Counts the call and fails when it is the one that shall. */
static int step(struct fake_world *w, enum fake_op op, struct err *e)
{
    atomic_fetch_add(&w->calls[op], 1);
    if (atomic_load(&w->until_failure) > 0 && atomic_fetch_sub(&w->until_failure, 1) == 1) {
        return err_set(e, w->failure != ERR_NONE ? w->failure : ERR_UNREACHABLE,
                       "the script says so");
    }
    return 0;
}

/* With the lock held. -1: no such box. */
static int find(struct fake_world *w, struct str id)
{
    for (size_t i = 0; i < w->n; i++) {
        if (str_eq(str_from(w->boxes[i].id), id)) {
            return (int)i;
        }
    }
    return -1;
}

static struct box *new_handle(struct provider *p, struct str ref)
{
    struct fake_box *b = xcalloc(1, sizeof(*b));

    (void)snprintf(b->ref, sizeof(b->ref), "%.*s", STR_ARG(ref));
    b->box.provider = p;
    b->box.ref = str_from(b->ref);
    atomic_init(&b->box.refs, 1);
    atomic_fetch_add(&world_of(p)->handles, 1);
    return &b->box;
}

static void fake_release(struct box *b)
{
    atomic_fetch_sub(&world_of(b->provider)->handles, 1);
    free((struct fake_box *)(void *)b);
}

static void fake_close(struct provider *p)
{
    free((struct fake *)(void *)p);
}

static struct box *fake_create(struct provider *p, const struct ctx *ctx,
                               const struct box_spec *spec, struct err *e)
{
    struct fake_world *w = world_of(p);

    if (step(w, FAKE_CREATE, e) < 0) {
        return NULL;
    }
    if (w->create_ms > 0 && ctx_wait(ctx, NULL, 0, clock_mono_ms() + w->create_ms, e) < 0) {
        return NULL;
    }
    LOCKED(&w->lock);
    if (w->n == FAKE_BOXES) {
        (void)err_set(e, ERR_LIMIT, "the fake is full");
        return NULL;
    }
    (void)snprintf(w->boxes[w->n].id, sizeof(w->boxes[w->n].id), "%.*s", STR_ARG(spec->id));
    (void)snprintf(w->boxes[w->n].name, sizeof(w->boxes[w->n].name), "%.*s", STR_ARG(spec->name));
    w->boxes[w->n].lives = true;
    w->boxes[w->n].limits = spec->limits;
    w->n++;
    return new_handle(p, spec->id);
}

/* -1 with ERR_GONE and the reason when the box has ended. */
static int check_lives(struct fake_world *w, struct str ref, struct err *e)
{
    LOCKED(&w->lock);
    int i = find(w, ref);

    if (i < 0) {
        return err_set(e, ERR_GONE, "it is not there any more");
    }
    return w->boxes[i].lives ? 0 : err_set(e, ERR_GONE, "%s", w->boxes[i].why);
}

static struct box *fake_attach(struct provider *p, const struct ctx *ctx, struct str ref,
                               struct err *e)
{
    struct fake_world *w = world_of(p);

    (void)ctx;
    if (step(w, FAKE_ATTACH, e) < 0 || check_lives(w, ref, e) < 0) {
        return NULL;
    }
    return new_handle(p, ref);
}

static int fake_info(struct box *b, const struct ctx *ctx, struct box_info *out, struct err *e)
{
    struct fake_world *w = world_of(b->provider);

    if (step(w, FAKE_INFO, e) < 0) {
        return -1;
    }
    LOCKED(&w->lock);
    int i = find(w, b->ref);

    *out = (struct box_info){.ref = arena_str(ctx->arena, b->ref), .state = BOX_GONE};
    if (i < 0) {
        return 0;
    }
    out->name = arena_str(ctx->arena, str_from(w->boxes[i].name));
    out->ended = arena_str(ctx->arena, str_from(w->boxes[i].why));
    out->state = w->boxes[i].lives ? BOX_RUNNING : BOX_GONE;
    out->limits = w->boxes[i].limits;
    return 0;
}

static int fake_destroy(struct box *b, const struct ctx *ctx, struct err *e)
{
    struct fake_world *w = world_of(b->provider);

    (void)ctx;
    if (step(w, FAKE_DESTROY, e) < 0) {
        return -1;
    }
    fake_end(w, b->ref, "destroyed");
    return 0;
}

static int fake_extend(struct box *b, const struct ctx *ctx, int32_t lifetime_s, struct err *e)
{
    (void)ctx;
    (void)lifetime_s;
    return check_lives(world_of(b->provider), b->ref, e);
}

static int fake_sweep(struct provider *p, const struct ctx *ctx, struct err *e)
{
    (void)ctx;
    return step(world_of(p), FAKE_SWEEP, e);
}

static int fake_list(struct provider *p, const struct ctx *ctx, box_info_fn *each, void *arg,
                     struct err *e)
{
    struct fake_world *w = world_of(p);

    for (size_t i = 0;; i++) {
        struct box_info info = {0};

        lock(&w->lock);
        bool more = i < w->n;
        if (more) {
            info.ref = arena_str(ctx->arena, str_from(w->boxes[i].id));
            info.name = arena_str(ctx->arena, str_from(w->boxes[i].name));
            info.state = w->boxes[i].lives ? BOX_RUNNING : BOX_GONE;
        }
        unlock(&w->lock);
        if (!more) {
            return 0;
        }
        if (each(arg, &info, e) < 0) {
            return -1;
        }
    }
}

/* The output comes in pieces of three bytes. */
static int fake_exec(struct box *b, const struct ctx *ctx, const struct exec_req *req,
                     const struct sink *output, struct exec_result *out, struct err *e)
{
    struct fake_world *w = world_of(b->provider);
    struct str left = str_from(w->output);

    (void)req;
    if (step(w, FAKE_EXEC, e) < 0 || check_lives(w, b->ref, e) < 0) {
        return -1;
    }
    while (left.len > 0) {
        if (output->write(output->arg, STREAM_OUT, str_head(left, 3), e) < 0) {
            return -1;
        }
        left = str_skip(left, left.len < 3 ? left.len : 3);
    }
    while (w->hangs) {
        if (ctx_wait(ctx, NULL, 0, 0, e) < 0) {
            return -1;
        }
    }
    *out = (struct exec_result){
        .end = EXEC_EXITED,
        .code = w->code,
        .oom = KNOWN_NO,
        .out_bytes = strlen(w->output),
    };
    return 0;
}

static const struct factory_ops fake_factory = {
    .create = fake_create,
    .destroy = fake_destroy,
    .extend = fake_extend,
    .sweep = fake_sweep,
};

static const struct provider_ops fake_ops = {
    .type = "fake",
    .close = fake_close,
    .list = fake_list,
    .attach = fake_attach,
    .info = fake_info,
    .release = fake_release,
    .exec = fake_exec,
    .factory = &fake_factory,
};

struct provider *fake_provider(struct fake_world *w)
{
    struct fake *f = xcalloc(1, sizeof(*f));

    f->provider = (struct provider){.ops = &fake_ops, .name = S("local")};
    f->world = w;
    return &f->provider;
}

void fake_end(struct fake_world *w, struct str id, const char *why)
{
    LOCKED(&w->lock);
    int i = find(w, id);

    if (i >= 0 && w->boxes[i].lives) {
        w->boxes[i].lives = false;
        (void)snprintf(w->boxes[i].why, sizeof(w->boxes[i].why), "%s", why);
    }
}

size_t fake_living(struct fake_world *w)
{
    LOCKED(&w->lock);
    size_t n = 0;

    for (size_t i = 0; i < w->n; i++) {
        n += w->boxes[i].lives;
    }
    return n;
}

int fake_calls(struct fake_world *w)
{
    int n = 0;

    for (int i = 0; i < FAKE_OPS; i++) {
        n += atomic_load(&w->calls[i]);
    }
    return n;
}
