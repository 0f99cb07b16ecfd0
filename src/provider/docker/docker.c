/* docker.c - the docker provider's operations: see docker.h. */
#include "provider/docker/docker.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/proto.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/own.h"
#include "base/thread.h"
#include "provider/docker/plain.h"
#include "provider/over_shell.h"
#include "provider/sink.h"
#include "provider/usage_text.h"

#define TEXTS_MAX      (4u << 20)
#define PROBE_MS       20000 /* to open a relay on a busy machine */
#define INSIDE_WAIT_MS 5000
#define LOAD_MAX       256

/* ---- the provider --------------------------------------------------------------------------- */

static void copy_texts(struct docker *d, const struct docker_conf *from)
{
    struct arena *a = &d->texts;
    struct docker_conf c = *from;
    struct str *texts[] = {&c.host,     &c.cert_path,   &c.tls_verify, &c.image,
                           &c.work_dir, &c.user,        &c.network,    &c.mount_root,
                           &c.home,     &c.runtime_dir, &c.config_dir};

    for (size_t i = 0; i < COUNTOF(texts); i++) {
        *texts[i] = arena_str(a, *texts[i]);
    }
    d->conf = c;
}

static struct provider *docker_open(const struct provider_conf *conf, struct err *e)
{
    struct docker *d;

    if (conf->docker == NULL) {
        (void)err_set(e, ERR_BUG, "the docker provider was given no configuration");
        return NULL;
    }
    d = xcalloc(1, sizeof(*d));
    arena_init(&d->texts, TEXTS_MAX);
    (void)pthread_mutex_init(&d->lock, NULL);
    copy_texts(d, conf->docker);
    d->provider.ops = &docker_ops;
    d->provider.name = arena_str(&d->texts, conf->name);
    d->plain = (struct provider){.ops = &docker_plain_ops, .name = d->provider.name};
    d->state_dir = arena_cstr(&d->texts, conf->state_dir);
    d->program_dir = arena_cstr(&d->texts, conf->program_dir);
    d->config_file = arena_str(&d->texts, conf->config_file);
    d->defaults = conf->defaults;
    d->host_network = conf->host_network;
    d->once = conf->once;
    return &d->provider;
}

static void docker_close(struct provider *p)
{
    if (p == NULL) {
        return;
    }
    struct docker *d = docker_of(p);
    (void)pthread_mutex_destroy(&d->lock);
    arena_fini(&d->texts);
    free(d);
}

/* ---- handles ---------------------------------------------------------------------------------- */

struct box *docker_box_new(struct docker *d, struct str id, struct str cid, bool is_plain)
{
    struct docker_box *db = xcalloc(1, sizeof(*db));
    struct where where;
    struct err ignored;
    struct arena a own_arena = {0};

    arena_init(&a, 64u << 10);
    memcpy(db->id, id.p, DOCKER_ID_SIZE - 1);
    memcpy(db->cid, cid.p, DOCKER_CID_SIZE - 1);
    (void)pthread_mutex_init(&db->lock, NULL);
    db->agent.connect = docker_connect;
    db->agent.probe_ms = PROBE_MS;
    db->agent.slow = engine_where(d, &a, &where, &ignored) == 0 && !engine_is_local(&where);
    db->agent.box.provider = is_plain ? &d->plain : &d->provider;
    db->agent.box.ref = str_from(db->id);
    atomic_init(&db->agent.box.refs, 1);
    return &db->agent.box;
}

static void docker_release(struct box *b)
{
    struct docker_box *db = docker_box_of(b);

    relay_stop(db->relay);
    (void)pthread_mutex_destroy(&db->lock);
    free(db);
}

static struct box *docker_attach(struct provider *p, const struct ctx *ctx, struct str ref,
                                 struct err *e)
{
    struct docker *d = docker_of(p);
    struct container c;
    enum box_end kind;

    if (container_find(d, ctx, ref, &c, e) < 0) {
        return NULL;
    }
    if (c.state == CONTAINER_ENDED) {
        (void)err_set(e, ERR_GONE, "it has ended: %.*s",
                      STR_ARG(container_reason(&c, ctx->arena, &kind)));
        return NULL;
    }
    return docker_box_new(d, ref, c.cid, c.is_plain);
}

/* ---- looking ------------------------------------------------------------------------------------ */

static struct str tier_of(struct docker *d, struct arena *a, const struct container *c)
{
    struct str why =
        c->is_plain ? arena_printf(a, "; no agent: %.*s", STR_ARG(c->no_agent)) : STR_EMPTY;
    LOCKED(&d->lock);

    if (!d->has_facts) {
        return arena_printf(a, "container%.*s", STR_ARG(why));
    }
    const struct engine_facts *f = &d->facts;
    return arena_printf(a, "container%s, cgroup v%.*s%s%.*s",
                        f->is_rootless ? ", rootless engine" : "",
                        STR_ARG(f->cgroup.len > 0 ? f->cgroup : S("1")),
                        f->has_seccomp ? "" : ", no seccomp", STR_ARG(why));
}

static struct str host_of(struct docker *d, struct arena *a)
{
    struct where w;
    struct err ignored;

    return engine_where(d, a, &w, &ignored) == 0 ? w.shown : STR_EMPTY;
}

static void fill_info(struct docker *d, struct arena *a, const struct container *c,
                      struct box_info *out)
{
    static const enum box_state states[] = {
        [CONTAINER_MADE] = BOX_STARTING,
        [CONTAINER_RUNNING] = BOX_RUNNING,
        [CONTAINER_PAUSED] = BOX_PAUSED,
        [CONTAINER_ENDED] = BOX_GONE,
    };

    *out = (struct box_info){
        .ref = c->id,
        .name = c->name,
        .state = states[c->state],
        .tier = tier_of(d, a, c),
        .host = host_of(d, a),
        .user = c->user.len > 0 ? c->user : S(BOX_USER),
        .work_dir = c->work.len > 0 ? c->work : d->conf.work_dir,
        .home = c->home.len > 0 ? c->home : S(BOX_HOME),
        .image = c->image,
        .via = c->is_plain ? S(VIA_EXEC) : S("agent"),
        .limits = c->limits,
        .network = c->network,
        .created_at = c->created_at,
        .expires_at = c->limits.lifetime_s > 0 ? c->created_at + c->limits.lifetime_s : 0,
    };
    if (c->state == CONTAINER_ENDED) {
        out->ended = container_reason(c, a, &out->end);
    }
}

static int docker_info(struct box *b, const struct ctx *ctx, struct box_info *out, struct err *e)
{
    struct docker *d = docker_of(b->provider);
    struct docker_box *db = docker_box_of(b);
    struct container c;

    if (container_find(d, ctx, b->ref, &c, e) < 0) {
        if (e->kind != ERR_GONE) {
            return -1;
        }
        *out = (struct box_info){.ref = arena_str(ctx->arena, b->ref),
                                 .state = BOX_GONE,
                                 .end = BOX_END_DELETED,
                                 .ended = S("its container was removed")};
        return 0;
    }
    fill_info(d, ctx->arena, &c, out);
    LOCKED(&db->lock);
    out->expires_at = db->expires_at > 0 ? db->expires_at : out->expires_at;
    return 0;
}

struct listing {
    struct docker *d;
    const struct ctx *ctx;
    box_info_fn *each;
    void *arg;
};

static int list_one(void *arg, const struct value *row, struct err *e)
{
    struct listing *l = arg;
    struct container c;
    struct box_info info;
    struct err why = {0};
    struct str id = value_member(value_at(row, "Labels"), S(LABEL_ID));

    if (!docker_id_ok(id) || container_find(l->d, l->ctx, id, &c, &why) < 0) {
        return ctx_check(l->ctx, e); /* a helper, or gone since */
    }
    fill_info(l->d, l->ctx->arena, &c, &info);
    return l->each(l->arg, &info, e);
}

static int docker_list(struct provider *p, const struct ctx *ctx, box_info_fn *each, void *arg,
                       struct err *e)
{
    struct listing l = {docker_of(p), ctx, each, arg};

    return container_each(l.d, ctx, list_one, &l, e);
}

/* ---- the end, and more time ---------------------------------------------------------------------- */

static int docker_destroy(struct box *b, const struct ctx *ctx, struct err *e)
{
    struct docker *d = docker_of(b->provider);
    struct docker_box *db = docker_box_of(b);
    struct container c;

    /* By what it is now, not by what it was when the handle was made. */
    if (container_find(d, ctx, b->ref, &c, e) < 0) {
        return e->kind == ERR_GONE ? 0 : -1;
    }
    if (!str_eq(c.cid, str_from(db->cid))) {
        return 0;
    }
    return container_remove(d, ctx, c.cid, e);
}

static int docker_extend(struct box *b, const struct ctx *ctx, int32_t lifetime_s, struct err *e)
{
    struct docker_box *db = docker_box_of(b);

    if (lifetime_s < 1) {
        return err_set(e, ERR_INVALID, "a lifetime of %d s is too small: at least 1 s", lifetime_s);
    }
    if (b->provider->ops == &docker_plain_ops) {
        return err_set(e, ERR_UNSUPPORTED,
                       "its lifetime cannot be changed: it has no agent of ours that could; make "
                       "another sandbox with a longer one");
    }
    if (agent_extend(b, ctx, lifetime_s, e) < 0) {
        return -1;
    }
    LOCKED(&db->lock);
    db->expires_at = clock_wall_ms() / 1000 + lifetime_s;
    return 0;
}

/* ---- pausing --------------------------------------------------------------------------------- */

static int change_to(struct box *b, const struct ctx *ctx, enum container_state wanted,
                     const char *how, struct err *e)
{
    struct docker *d = docker_of(b->provider);
    struct container c;
    struct http_answer answer;
    enum box_end kind;

    if (container_find(d, ctx, b->ref, &c, e) < 0) {
        return -1;
    }
    if (c.state == wanted) {
        return 0;
    }
    if (c.state == CONTAINER_ENDED) {
        return err_set(e, ERR_GONE, "it has ended: %.*s",
                       STR_ARG(container_reason(&c, ctx->arena, &kind)));
    }
    struct http_req req = {
        .method = "POST",
        .path = arena_printf(ctx->arena, "/containers/%.*s/%s", STR_ARG(c.cid), how),
    };
    if (engine_call(d, ctx, &req, &answer, e) < 0) {
        return -1;
    }
    if (answer.status == 200 || answer.status == 204) {
        return 0;
    }
    return engine_fail(&answer, ctx->arena,
                       wanted == CONTAINER_PAUSED ? "cannot pause the container"
                                                  : "cannot resume the container",
                       e);
}

static int docker_pause(struct box *b, const struct ctx *ctx, struct err *e)
{
    return change_to(b, ctx, CONTAINER_PAUSED, "pause", e);
}

/* It has been asked for something then, so its idle time begins anew. */
static int docker_resume(struct box *b, const struct ctx *ctx, struct err *e)
{
    struct agent_usage ignored;

    if (change_to(b, ctx, CONTAINER_RUNNING, "unpause", e) < 0) {
        return -1;
    }
    if (b->provider->ops == &docker_plain_ops) {
        return 0; /* PID 1 sees that it was paused */
    }
    return agent_usage(b, ctx, &ignored, e);
}

/* ---- how busy ---------------------------------------------------------------------------------------- */

/* The load of the engine's machine, which its containers see; no answer is none. */
static void add_load(struct box *b, const struct ctx *ctx, struct usage *out)
{
    struct buf text own_buf = {0};
    const struct sink to = sink_stdout(&text);
    struct file_info ignored_info;
    struct err ignored;

    buf_init(&text, LOAD_MAX);
    if (files_over_agent.read(b, ctx, S("/proc/loadavg"), 0, LOAD_MAX, &to, &ignored_info,
                              &ignored) == 0) {
        usage_parse_load(buf_str(&text), out);
    }
}

static int docker_usage(struct box *b, const struct ctx *ctx, struct usage *out, struct err *e)
{
    struct docker *d = docker_of(b->provider);
    struct agent_usage inside;
    struct engine_facts facts;
    struct err ignored;
    struct usage u;
    struct ctx shorter = *ctx;
    int64_t until_ms = clock_mono_ms() + INSIDE_WAIT_MS;

    if (ctx->deadline_ms == 0 || ctx->deadline_ms > until_ms) {
        shorter.deadline_ms = until_ms;
    }
    usage_unknown(&u);
    if (agent_usage(b, &shorter, &inside, e) < 0) {
        return e->kind == ERR_TIMEOUT && ctx_check(ctx, e) == 0
                   ? err_set(e, ERR_UNREACHABLE, "it has not answered for %d s",
                             INSIDE_WAIT_MS / 1000)
                   : -1;
    }
    add_load(b, &shorter, &u);
    if (engine_facts(d, &shorter, &facts, &ignored) == 0) {
        u.cpus = (int)facts.cpus;
        u.memory_total = facts.memory > 0 ? facts.memory : u.memory_total;
    }
    if (inside.memory_limit > 0) {
        u.memory_used = inside.memory_used;
        u.memory_total = inside.memory_limit;
    }
    u.disk_used = inside.disk_used;
    u.disk_total = inside.disk_total;
    u.processes = inside.processes;
    *out = u;
    return 0;
}

static const struct factory_ops factory = {
    .create = docker_create,
    .destroy = docker_destroy,
    .extend = docker_extend,
    .pause = docker_pause,
    .resume = docker_resume,
    .sweep = docker_sweep,
    .has_gpus = true,
};

static const struct meter_ops meter = {
    .usage = docker_usage,
};

const struct provider_ops docker_ops = {
    .type = "docker",
    .open = docker_open,
    .close = docker_close,
    .list = docker_list,
    .attach = docker_attach,
    .info = docker_info,
    .release = docker_release,
    .exec = agent_exec,
    .doctor = docker_doctor,
    .factory = &factory,
    .images = &docker_images,
    .tasks = &tasks_over_agent,
    .files = &files_over_agent,
    .trees = &trees_over_agent,
    .meter = &meter,
    .ports = &ports_over_agent,
};

/* Of boxes without our agent. */
const struct provider_ops docker_plain_ops = {
    .type = "docker",
    .open = docker_open,
    .close = docker_close,
    .list = docker_list,
    .attach = docker_attach,
    .info = docker_info,
    .release = docker_release,
    .exec = plain_exec,
    .doctor = docker_doctor,
    .factory = &factory,
    .images = &docker_images,
    .files = &files_over_shell,
    .trees = &trees_over_shell,
    .meter = &meter_over_shell,
    .ports = &plain_ports,
    .shell = &docker_shell,
};
