/*
 * make.c - sandboxes to order. The order carries the id that core minted as a tag, and a create
 * whose answer does not come is looked for by it and removed. The server may go on with it, for as
 * long as it fetches an image: what is not found at once is looked for in each sweep. Where this
 * process died, it goes by the row that core keeps (boxes_abandon()).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/own.h"
#include "base/thread.h"
#include "provider/opensandbox/own.h"

#define GRACE      "20ms" /* Go's way to write it; see opensandbox.h */
#define REMOVE_MS  15000
#define REMOVE_GAP 500
#define LOST_MS    3600000 /* for so long; the platform ends it by itself, too */
#define LABEL_MAX  63

static void put(json_t *o, const char *key, struct str value)
{
    (void)json_object_set_new(o, key, js_string(value));
}

static void put_number(json_t *o, const char *key, int64_t n)
{
    char text[32];

    (void)snprintf(text, sizeof(text), "%lld", (long long)n);
    put(o, key, str_from(text));
}

/* A label may not end with what is no letter or digit; names of ours begin with one. */
static struct str label(struct str name)
{
    name = str_head(name, LABEL_MAX);
    while (name.len > 0 && strchr("._-", name.p[name.len - 1]) != NULL) {
        name.len--;
    }
    return name.len > 0 && strchr("._-", name.p[0]) == NULL ? name : STR_EMPTY;
}

struct lifetimes {
    int64_t ttl_s, end_s; /* without use; at which second in any case, 0: never */
    int64_t first_s;      /* what the platform is told at first */
};

static int choose_life(const struct osb_provider *p, const struct limits *l, struct lifetimes *out,
                       struct err *e)
{
    int64_t now_s = clock_wall_ms() / 1000;

    if ((l->lifetime_s > 0 && l->lifetime_s < PLATFORM_MIN_S) ||
        (l->idle_s > 0 && l->idle_s < PLATFORM_MIN_S)) {
        return err_set(
            e, ERR_INVALID,
            "a sandbox of an OpenSandbox platform lives for %d s or longer, not %d: give "
            "a timeout of %d or more",
            PLATFORM_MIN_S, l->lifetime_s > 0 ? l->lifetime_s : l->idle_s, PLATFORM_MIN_S);
    }
    out->ttl_s = l->idle_s > 0 ? l->idle_s : p->timeout_s;
    if (l->lifetime_s > 0 && (l->lifetime_s < out->ttl_s || l->idle_s == 0)) {
        out->ttl_s = l->lifetime_s;
    }
    out->end_s = l->lifetime_s > 0 ? now_s + l->lifetime_s : 0;
    out->first_s = out->ttl_s;
    return 0;
}

static json_t *entrypoint_of(const struct osb_provider *p)
{
    json_t *list = json_array();
    struct str rest = str_from(p->entrypoint);

    while (rest.len > 0) {
        (void)json_array_append_new(list, js_string(str_trim(str_cut(rest, ',', &rest))));
    }
    if (json_array_size(list) == 0) {
        (void)json_array_append_new(list, json_string("tail"));
        (void)json_array_append_new(list, json_string("-f"));
        (void)json_array_append_new(list, json_string("/dev/null"));
    }
    return list;
}

/* Whole units only: others are silently no limit. */
static int64_t mib_of(const struct limits *l)
{
    return (l->memory_bytes + 1048575) >> 20;
}

static bool is_shut(const struct box_spec *spec)
{
    return spec->network_said && spec->network == NETWORK_NONE;
}

static json_t *limits_of(const struct limits *l)
{
    json_t *o = json_object();
    char text[48];

    if (l->cpu_millis > 0) {
        (void)snprintf(text, sizeof(text), "%dm", l->cpu_millis);
        put(o, "cpu", str_from(text));
    }
    if (l->memory_bytes > 0) {
        (void)snprintf(text, sizeof(text), "%lldMi", (long long)mib_of(l));
        put(o, "memory", str_from(text));
    }
    return o;
}

static json_t *env_of(struct osb_provider *p, const struct box_spec *spec)
{
    json_t *o = json_object();
    char token[65];

    for (size_t i = 0; i < spec->n_env; i++) {
        struct str value;
        struct str name = str_cut(spec->env[i], '=', &value);
        char *key own_mem = xmemdup(name.p, name.len);

        (void)json_object_set_new(o, key, js_string(value));
    }
    osb_token(p, spec->id, token);
    put(o, "EXECD_ACCESS_TOKEN", str_from(token));
    put(o, "EXECD_API_GRACE_SHUTDOWN", S(GRACE));
    return o;
}

static json_t *tags_of(const struct osb_provider *p, const struct box_spec *spec,
                       const struct lifetimes *life)
{
    json_t *o = json_object();

    put(o, TAG_BOX, spec->id);
    put(o, TAG_OWNER, str_from(p->owner));
    put(o, TAG_NAME, label(spec->name));
    put_number(o, TAG_TTL, life->ttl_s);
    put_number(o, TAG_LIFE, life->end_s);
    if (spec->limits.memory_bytes > 0) {
        put_number(o, TAG_MEMORY, mib_of(&spec->limits));
    }
    if (spec->limits.cpu_millis > 0) {
        put_number(o, TAG_CPU, spec->limits.cpu_millis);
    }
    if (spec->n_egress == 0 && is_shut(spec)) {
        put(o, TAG_NETWORK, S("none"));
    }
    return o;
}

/* Only what the creator said: a platform without egress control refuses any policy. */
static json_t *policy_of(const struct box_spec *spec)
{
    json_t *o = json_object();
    json_t *rules = json_array();

    put(o, "defaultAction", S("deny"));
    for (size_t i = 0; i < spec->n_egress; i++) {
        json_t *rule = json_object();

        put(rule, "action", S("allow"));
        put(rule, "target", spec->egress[i]);
        (void)json_array_append_new(rules, rule);
    }
    (void)json_object_set_new(o, "egress", rules);
    return o;
}

static json_t *order_of(struct osb_provider *p, const struct box_spec *spec,
                        const struct lifetimes *life)
{
    json_t *o = json_object();
    json_t *image = json_object();
    struct err ignored;

    put(image, "uri", spec->image.len > 0 ? spec->image : str_from(p->image));
    (void)json_object_set_new(o, "image", image);
    (void)json_object_set_new(o, "entrypoint", entrypoint_of(p));
    (void)json_object_set_new(o, "resourceLimits", limits_of(&spec->limits));
    (void)json_object_set_new(o, "timeout", json_integer(life->first_s));
    (void)json_object_set_new(o, "env", env_of(p, spec));
    (void)json_object_set_new(o, "metadata", tags_of(p, spec, life));
    if (spec->n_egress > 0 || is_shut(spec)) {
        (void)json_object_set_new(o, "networkPolicy", policy_of(spec));
    }
    if (spec->volumes.len > 0) {
        json_t *volumes = js_parse(spec->volumes.p, spec->volumes.len, &ignored);

        if (volumes != NULL) {
            (void)json_object_set_new(o, "volumes", volumes);
        }
    }
    return o;
}

/* ---- what must not stay --------------------------------------------------------------------------- */

struct removal {
    struct osb_provider *provider;
    const struct ctx *ctx;
    bool has_found;
};

static int remove_one(void *arg, const struct osb_sandbox *s, struct err *e)
{
    struct removal *r = arg;

    r->has_found = true;
    return osb_delete(r->provider, r->ctx, s->id, e);
}

struct lost {
    char own_id[40];
    int64_t until_ms;
};

static void keep_lost(struct osb_provider *p, const struct lost *one)
{
    LOCKED(&p->lock);
    for (size_t i = 0; i < p->n_lost; i++) {
        if (strcmp(p->lost[i].own_id, one->own_id) == 0) {
            return;
        }
    }
    p->lost = xrealloc(p->lost, p->n_lost + 1, sizeof(*p->lost));
    p->lost[p->n_lost++] = *one;
}

/* All of them, which are *n. */
static struct lost *take_lost(struct osb_provider *p, size_t *n)
{
    LOCKED(&p->lock);
    *n = p->n_lost;
    p->n_lost = 0;
    return take(p->lost);
}

static void look_for(struct osb_provider *p, struct str own_id)
{
    struct lost lost = {.until_ms = clock_mono_ms() + LOST_MS};

    (void)snprintf(lost.own_id, sizeof(lost.own_id), "%.*s", STR_ARG(own_id));
    keep_lost(p, &lost);
}

/* Not what merely failed at something, such as a pause. */
void osb_bury(struct osb_provider *p, const struct osb_sandbox *s)
{
    bool is_over =
        str_eq(s->state, S("Terminated")) || str_eq(s->reason, S("CONTAINER_EXITED_ERROR"));
    struct err ignored;

    if (is_over && s->own_id.len == 32 && osb_know_secret(p, &ignored) == 0 &&
        str_eq(s->owner, str_from(p->owner))) {
        look_for(p, s->own_id);
    }
}

int osb_sweep(struct provider *provider, const struct ctx *ctx, struct err *e)
{
    struct osb_provider *p = osb_of(provider);
    size_t n = 0;
    struct lost *all own_mem = take_lost(p, &n);
    int rc = 0;

    for (size_t i = 0; i < n; i++) {
        struct removal r = {.provider = p, .ctx = ctx};

        if (rc == 0) {
            rc = osb_each(p, ctx, S(TAG_BOX), str_from(all[i].own_id), remove_one, &r, e);
        }
        if ((rc < 0 || !r.has_found) && clock_mono_ms() < all[i].until_ms) {
            keep_lost(p, &all[i]);
        }
    }
    return rc;
}

/* The server may still be making it, or not answer just now. */
static void remove_lost(struct osb_provider *p, const struct ctx *ctx, struct str own_id)
{
    struct ctx own = {.arena = ctx->arena, .deadline_ms = clock_mono_ms() + REMOVE_MS};
    struct removal r = {.provider = p, .ctx = &own};
    struct err ignored;

    while (clock_mono_ms() < own.deadline_ms) {
        int rc = osb_each(p, &own, S(TAG_BOX), own_id, remove_one, &r, &ignored);

        if (rc == 0 && r.has_found) {
            return;
        }
        if (ctx_wait(&own, NULL, 0, clock_mono_ms() + REMOVE_GAP, &ignored) < 0) {
            break;
        }
    }
    look_for(p, own_id);
}

static void remember_made(struct osb_provider *p, struct str id)
{
    if (!p->delete_at_exit) {
        return;
    }
    LOCKED(&p->lock);
    p->made = xrealloc(p->made, p->n_made + 1, sizeof(*p->made));
    p->made[p->n_made++] = (struct str){xmemdup(id.p, id.len), id.len};
}

/* ---- the operations ------------------------------------------------------------------------------------ */

struct box *osb_make(struct provider *provider, const struct ctx *ctx, const struct box_spec *spec,
                     struct err *e)
{
    struct osb_provider *p = osb_of(provider);
    struct lifetimes life = {0};
    struct osb_sandbox made;
    struct way *way own_mem = xcalloc(1, sizeof(*way));
    struct err ignored;
    bool may_exist = false;

    if (spec->image.len == 0 && p->image[0] == '\0') {
        (void)err_set(e, ERR_INVALID,
                      "no image was named: give image, such as python:3.12, or set "
                      "OPENSANDBOX_DEFAULT_IMAGE (opensandbox.image)");
        return NULL;
    }
    if (choose_life(p, &spec->limits, &life, e) < 0 || osb_know_secret(p, e) < 0) {
        return NULL;
    }
    json_t *order own_json = order_of(p, spec, &life);
    if (osb_create(p, ctx, order, &made, &may_exist, e) < 0) {
        if (may_exist) {
            remove_lost(p, ctx, spec->id);
        }
        return NULL;
    }
    struct box *b = osb_box_new(p, made.id);
    made.own_id = spec->id;
    made.ttl_s = life.ttl_s;
    made.end_s = life.end_s;
    osb_note(osb_box_of(b), &made);
    if (osb_reach(osb_box_of(b), ctx, way, e) < 0) {
        struct ctx own = {.arena = ctx->arena, .deadline_ms = clock_mono_ms() + REMOVE_MS};

        (void)!osb_delete(p, &own, made.id, &ignored);
        box_unref(b);
        return NULL;
    }
    remember_made(p, made.id);
    return b;
}

int osb_destroy(struct box *b, const struct ctx *ctx, struct err *e)
{
    struct osb_box *own = osb_box_of(b);
    struct str id;

    if (osb_know(own, ctx, &id, e) < 0) {
        return e->kind == ERR_GONE ? 0 : -1;
    }
    osb_forget_way(own);
    return osb_delete(osb_of(b->provider), ctx, id, e);
}

int osb_extend(struct box *b, const struct ctx *ctx, int32_t lifetime_s, struct err *e)
{
    struct osb_box *own = osb_box_of(b);
    int64_t until_s = clock_wall_ms() / 1000 + lifetime_s;
    int64_t expires_s = 0;
    struct str id;

    if (lifetime_s < PLATFORM_MIN_S) {
        return err_set(e, ERR_INVALID, "a sandbox of this platform lives for %d s or longer",
                       PLATFORM_MIN_S);
    }
    if (osb_know(own, ctx, &id, e) < 0 ||
        osb_renew(osb_of(b->provider), ctx, id, until_s, &expires_s, e) < 0) {
        return -1;
    }
    LOCKED(&own->lock);
    own->expires_s = expires_s > 0 ? expires_s : until_s;
    own->end_s = own->end_s > 0 ? own->expires_s : 0;
    return 0;
}
