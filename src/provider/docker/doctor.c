/* doctor.c - what works with containers here, and the fix for what does not. */
#include <string.h>

#include "base/clock.h"
#include "provider/docker/docker.h"

struct exam {
    struct docker *d;
    const struct ctx *ctx;
    check_fn *each;
    void *arg;
    struct engine_facts facts;
};

static int tell(const struct exam *x, enum check_state state, const char *what, struct str found,
                struct str fix, struct err *e)
{
    const struct check c = {state, str_from(what), found, fix};

    return x->each(x->arg, &c, e);
}

static int exam_safety(const struct exam *x, struct err *e)
{
    const struct engine_facts *f = &x->facts;

    if (!f->has_seccomp) {
        return tell(x, CHECK_WARN, "seccomp", S("the engine filters no system calls"),
                    S("remove seccomp-profile=unconfined from the engine's options"), e);
    }
    return tell(x, CHECK_OK, "seccomp", S("the engine's filter applies"), STR_EMPTY, e);
}

static int exam_limits(const struct exam *x, struct err *e)
{
    const struct engine_facts *f = &x->facts;
    struct arena *a = x->ctx->arena;
    struct str lacks =
        arena_printf(a, "%s%s%s%s", f->memory_limit ? "" : " memory", f->swap_limit ? "" : " swap",
                     f->cpu_limit ? "" : " processors", f->pids_limit ? "" : " processes");

    if (lacks.len == 0) {
        return tell(x, CHECK_OK, "limits", S("memory, swap, processors, processes"), STR_EMPTY, e);
    }
    return tell(x, CHECK_WARN, "limits", arena_printf(a, "not limited here:%.*s", STR_ARG(lacks)),
                S("turn on these cgroup controllers on the engine's machine (docker info has the "
                  "warnings)"),
                e);
}

static int exam_image(const struct exam *x, struct err *e)
{
    struct image image;
    struct err why = {0};
    struct str ref = x->d->conf.image;

    if (image_find(x->d, x->ctx, ref, false, &image, &why) == 0) {
        return tell(x, CHECK_OK, "default image", ref, STR_EMPTY, e);
    }
    if (why.kind != ERR_NOT_FOUND) {
        return tell(x, CHECK_FAIL, "default image", arena_str(x->ctx->arena, str_from(why.msg)),
                    S("set docker.default_image"), e);
    }
    return tell(x, CHECK_WARN, "default image",
                arena_printf(x->ctx->arena, "%.*s is not there", STR_ARG(ref)),
                arena_printf(x->ctx->arena, "anybox image make --docker, or anybox image pull %.*s",
                             STR_ARG(ref)),
                e);
}

static int exam_engine(const struct exam *x, const struct where *where, struct err *e)
{
    const struct engine_facts *f = &x->facts;

    return tell(x, CHECK_OK, "engine",
                arena_printf(x->ctx->arena, "%.*s at %.*s, %.*s, %lld processors",
                             STR_ARG(f->version), STR_ARG(where->shown), STR_ARG(f->driver),
                             (long long)f->cpus),
                STR_EMPTY, e);
}

/* "what is wrong: the fix" */
static int tell_failed(const struct exam *x, const struct err *why, struct err *e)
{
    struct str text = arena_str(x->ctx->arena, str_from(why->msg));
    const char *fix = strstr(text.p, ": install");

    fix = fix != NULL ? fix : strstr(text.p, "; start");
    fix = fix != NULL ? fix : strstr(text.p, ": become");
    if (fix == NULL) {
        return tell(x, CHECK_FAIL, "engine", text, STR_EMPTY, e);
    }
    return tell(x, CHECK_FAIL, "engine", (struct str){text.p, (size_t)(fix - text.p)},
                str_from(fix + 2), e);
}

int docker_doctor(struct provider *p, const struct ctx *ctx, check_fn *each, void *arg,
                  struct err *e)
{
    struct exam x = {.d = docker_of(p), .ctx = ctx, .each = each, .arg = arg};
    struct where where;
    struct err why = {0};

    /* Who does not use containers need not have an engine. */
    if (!engine_is_likely(x.d)) {
        return tell(&x, CHECK_OK, "engine", S("none here; only docker sandboxes need one"),
                    STR_EMPTY, e);
    }
    if (engine_where(x.d, ctx->arena, &where, &why) < 0 ||
        engine_facts(x.d, ctx, &x.facts, &why) < 0) {
        return tell_failed(&x, &why, e);
    }
    if (exam_engine(&x, &where, e) < 0 || exam_limits(&x, e) < 0 || exam_safety(&x, e) < 0) {
        return -1;
    }
    return exam_image(&x, e);
}
