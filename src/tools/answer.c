/* answer.c - see answer.h. */
#include "tools/answer.h"

#include <math.h>

#include "base/clock.h"
#include "core/link.h"

struct box_want answer_want(const struct box_args *box)
{
    return (struct box_want){.id = str_trim(box->id), .name = str_trim(box->name)};
}

static int run_on_box(struct call *c, const struct box_want *want, box_job *job, void *arg,
                      struct str *id, struct err *e)
{
    struct box *b CLEANUP(box_unref_p) =
        boxes_find(c->services->boxes, c->ctx, c->scope, want, id, e);

    if (b == NULL) {
        *id = STR_EMPTY;
        return -1;
    }
    c->box_id = *id;
    return job(arg, c, b, *id, e);
}

/* boxes_find() knows of a box that has ended its name and why it did: better than the
 * backend's words, so it is asked for the sentence. */
static int gone_sentence(struct call *c, struct str id, struct err *e)
{
    struct box_want want = {.id = id};
    struct str found = STR_EMPTY;
    struct err better = {0};
    struct box *b CLEANUP(box_unref_p) =
        boxes_find(c->services->boxes, c->ctx, c->scope, &want, &found, &better);

    if (b == NULL && better.kind == ERR_GONE) {
        *e = better;
        return -1;
    }
    return err_wrap(e, "this sandbox has ended; call create_sandbox to make a new one");
}

void answer_lost(struct call *c, struct str id)
{
    boxes_lost(c->services->boxes, c->ctx, id, S("nothing of it was there any more"));
}

int answer_with_box(struct call *c, const struct box_args *box, bool make_default, box_job *job,
                    void *arg, struct str *note, struct err *e)
{
    struct box_want want = answer_want(box);
    bool named = want.id.len > 0 || want.name.len > 0;
    bool made = false;
    struct str id = STR_EMPTY;
    struct str lost = STR_EMPTY;

    want.make_default = make_default;
    want.made = &made;
    for (int attempt = 0; run_on_box(c, &want, job, arg, &id, e) < 0; attempt++) {
        if (e->kind != ERR_GONE || id.len == 0) {
            return -1;
        }
        answer_lost(c, id);
        if (named || !make_default || attempt > 0) {
            return gone_sentence(c, id, e);
        }
        lost = id;
    }
    if (note != NULL && lost.len > 0 && !str_eq(lost, id)) {
        *note = arena_printf(c->ctx->arena,
                             "sandbox %.*s had ended and its files are gone: this ran in %.*s",
                             STR_ARG(lost), STR_ARG(id));
    } else if (note != NULL && made) {
        *note = arena_printf(c->ctx->arena,
                             "a sandbox was made for this (%.*s); it is the default from now on",
                             STR_ARG(id));
    }
    return 0;
}

void answer_str(json_t *o, const char *key, struct str s)
{
    (void)json_object_set_new(o, key, js_string(s));
}

void answer_str_if(json_t *o, const char *key, struct str s)
{
    if (s.len > 0) {
        answer_str(o, key, s);
    }
}

void answer_time(json_t *o, const char *key, int64_t wall_ms)
{
    char text[CLOCK_RFC3339_SIZE];

    if (wall_ms > 0) {
        (void)json_object_set_new(o, key, json_string(clock_rfc3339(wall_ms, text)));
    }
}

json_t *answer_seconds(int64_t ms)
{
    return json_real((double)ms / 1000.0);
}

json_t *answer_round(double v, int decimals)
{
    double scale = pow(10, decimals);

    return v < 0 ? json_null() : json_real(round(v * scale) / scale);
}

bool answer_is_mcp_sandbox(const struct call *c)
{
    unsigned others = TOOLSET_DEFAULT | TOOLSET_REMOTE | TOOLSET_OPEN | TOOLSET_ALL;

    return (c->toolsets & TOOLSET_MCP) && !(c->toolsets & others);
}

const char *answer_status(const struct box_view *v)
{
    switch (v->info.state) {
    case BOX_STARTING: return v->alive ? "running" : "starting";
    case BOX_RUNNING: return "running";
    case BOX_PAUSED: return "paused";
    case BOX_GONE: return "terminated";
    case BOX_UNKNOWN: return "unreachable";
    }
    return "unreachable";
}

struct str answer_short_id(struct str id)
{
    return str_has(id, ':') ? id : str_head(id, 12);
}

static void put_limit(json_t *o, const char *key, int64_t value)
{
    (void)json_object_set_new(o, key, value > 0 ? json_integer(value) : json_null());
}

json_t *answer_limits(const struct box_view *v)
{
    const struct limits *l = &v->info.limits;
    json_t *o = json_object();

    put_limit(o, "memory_mb", l->memory_bytes >> 20);
    (void)json_object_set_new(
        o, "cpus", l->cpu_millis > 0 ? answer_round(l->cpu_millis / 1000.0, 3) : json_null());
    put_limit(o, "pids", l->pids);
    put_limit(o, "disk_mb", l->disk_bytes >> 20);
    put_limit(o, "open_files", l->open_files);
    put_limit(o, "idle_s", l->idle_s);
    return o;
}

static const char *network_name(enum network network)
{
    switch (network) {
    case NETWORK_NONE: return "none";
    case NETWORK_INTERNET: return "internet";
    case NETWORK_HOST: return "host";
    }
    return "none";
}

void answer_box(json_t *o, const struct box_view *v)
{
    int64_t expires = v->row.expires_ms > 0 ? v->row.expires_ms : v->info.expires_at * 1000;

    answer_str(o, "image", v->row.image.len > 0 ? v->row.image : v->info.image);
    answer_time(o, "created_at", v->row.created_ms);
    answer_time(o, "expires_at", expires);
    (void)json_object_set_new(o, "network", json_string(network_name(v->info.network)));
    answer_str(o, "isolation", v->info.tier);
    (void)json_object_set_new(o, "limits", answer_limits(v));
}

void answer_connection(json_t *o, const struct box_view *v)
{
    answer_str(o, "host", v->info.host);
    (void)json_object_set_new(o, "port",
                              v->info.port > 0 ? json_integer(v->info.port) : json_null());
    answer_str(o, "user", v->info.user);
    if (v->info.via.len > 0) {
        answer_str(o, "via", v->info.via);
    }
    (void)json_object_set_new(o, "connection_alive", json_boolean(v->alive));
    if (!v->alive) {
        answer_str(o, "connection_error", v->problem);
    }
}

static void add_name(void *arg, struct str name)
{
    (void)json_array_append_new(arg, js_string(name));
}

json_t *answer_names(struct call *c)
{
    json_t *names = json_array();

    boxes_each_name(c->services->boxes, c->ctx, c->scope, add_name, names);
    return names;
}

struct str answer_link(struct call *c, struct str box_id, struct str path)
{
    struct link_to to = {.owner = c->scope->owner, .box = box_id, .path = path};
    struct str url = STR_EMPTY;
    struct err ignored;

    if (c->link_base.len == 0 ||
        link_make(c->services, c->link_base, &to, c->ctx->arena, &url, &ignored) < 0) {
        return STR_EMPTY;
    }
    return url;
}
