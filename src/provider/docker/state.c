/* state.c - which containers are ours, and what is known of them: see docker.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/proto.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/own.h"
#include "base/percent.h"
#include "base/thread.h"
#include "provider/docker/docker.h"

#define INSTANCE_FILE "docker_instance"
#define LIST_MAX      (64u << 20)
#define REMOVE_MS     30000
#define REMOVE_GAP_MS 50

bool docker_id_ok(struct str id)
{
    for (size_t i = 0; i < id.len; i++) {
        bool digit = id.p[i] >= '0' && id.p[i] <= '9';

        if (!digit && (id.p[i] < 'a' || id.p[i] > 'f')) {
            return false;
        }
    }
    return id.len == DOCKER_ID_SIZE - 1;
}

/* ---- this state folder ------------------------------------------------------------------ */

static int read_instance(const char *path, struct arena *a, char out[DOCKER_ID_SIZE], struct err *e)
{
    struct str text;

    if (fd_read_file(AT_FDCWD, path, 256, a, &text, e) < 0) {
        return -1;
    }
    text = str_trim(text);
    if (!docker_id_ok(text)) {
        return err_set(e, ERR_INVALID,
                       "%s does not hold the id of a state folder: remove the file, and delete the "
                       "containers of this anybox by hand (docker ps -a --filter label=" LABEL_ID
                       ")",
                       path);
    }
    memcpy(out, text.p, text.len);
    out[text.len] = '\0';
    return 0;
}

/* Two processes may do it at once: one name wins. */
static int make_instance(const char *path, struct arena *a, struct err *e)
{
    char id[DOCKER_ID_SIZE];
    int rc = 0;

    id_hex(id, (DOCKER_ID_SIZE - 1) / 2);
    const char *fresh = arena_printf(a, "%s.%s", path, id).p;
    if (fd_replace_file(AT_FDCWD, fresh, str_from(id), 0600, e) < 0) {
        return -1;
    }
    if (link(fresh, path) < 0 && errno != EEXIST) {
        rc = err_sys(e, errno, "cannot make %s", path);
    }
    (void)unlink(fresh);
    return rc;
}

int docker_instance(struct docker *d, bool make, char out[DOCKER_ID_SIZE], struct err *e)
{
    struct arena a own_arena = {0};
    LOCKED(&d->lock);

    arena_init(&a, 1u << 20);
    if (d->instance[0] == '\0') {
        const char *path = arena_printf(&a, "%s/" INSTANCE_FILE, d->state_dir).p;
        int rc = read_instance(path, &a, d->instance, e);

        if (rc < 0 && e->kind == ERR_NOT_FOUND) {
            rc = !make || (make_instance(path, &a, e) == 0 &&
                           read_instance(path, &a, d->instance, e) == 0)
                     ? 0
                     : -1;
        }
        if (rc < 0) {
            return -1;
        }
    }
    memcpy(out, d->instance, DOCKER_ID_SIZE);
    return 0;
}

/* ---- one container ------------------------------------------------------------------------ */

static int64_t number(struct str text)
{
    struct err ignored;
    int64_t n = 0;

    return str_to_i64(text, 0, INT64_MAX, &n, &ignored) == 0 ? n : 0;
}

static int32_t number32(struct str text)
{
    int64_t n = number(text);

    return n > INT32_MAX ? INT32_MAX : (int32_t)n;
}

static enum container_state state_of(struct str status)
{
    if (str_eq(status, S("running"))) {
        return CONTAINER_RUNNING;
    }
    if (str_eq(status, S("paused"))) {
        return CONTAINER_PAUSED;
    }
    bool is_made = str_eq(status, S("created")) || str_eq(status, S("initialized")) ||
                   str_eq(status, S("configured"));
    return is_made ? CONTAINER_MADE : CONTAINER_ENDED;
}

static enum network network_of(struct str mode)
{
    if (str_eq(mode, S("none"))) {
        return NETWORK_NONE;
    }
    return str_eq(mode, S("host")) ? NETWORK_HOST : NETWORK_INTERNET;
}

static int64_t open_files_of(const struct value *host)
{
    const struct value *list = value_at(host, "Ulimits");

    for (const struct value *u = list != NULL ? list->first : NULL; u != NULL; u = u->next) {
        if (str_eq(value_text(u, "Name"), S("nofile")) ||
            str_eq(value_text(u, "Name"), S("RLIMIT_NOFILE"))) {
            return value_int(u, "Hard");
        }
    }
    return 0;
}

static int32_t clamp(int64_t v)
{
    return v < 0 ? 0 : v > INT32_MAX ? INT32_MAX : (int32_t)v;
}

bool container_read(const struct value *v, struct container *out)
{
    const struct value *labels = value_at(v, "Config.Labels");
    const struct value *host = value_at(v, "HostConfig");
    struct err ignored;
    int64_t disk = 0;

    *out = (struct container){
        .cid = value_text(v, "Id"),
        .id = value_member(labels, S(LABEL_ID)),
        .instance = value_member(labels, S(LABEL_INSTANCE)),
        .name = value_member(labels, S(LABEL_NAME)),
        .image = value_member(labels, S(LABEL_IMAGE)),
        .home = value_member(labels, S(LABEL_HOME)),
        .user = value_member(labels, S(LABEL_USER)),
        .work = value_member(labels, S(LABEL_WORK)),
        .is_plain = str_eq(value_member(labels, S(LABEL_VIA)), S(VIA_EXEC)),
        .no_agent = value_member(labels, S(LABEL_NO_AGENT)),
        .is_helper = value_member(labels, S(LABEL_HELPER)).len > 0,
        .state = state_of(value_text(v, "State.Status")),
        .exit_code = clamp(value_int(v, "State.ExitCode")),
        .is_oom = value_bool(v, "State.OOMKilled"),
        .network = network_of(value_text(host, "NetworkMode")),
        .created_at = number(value_member(labels, S(LABEL_CREATED))),
        .limits =
            {
                .memory_bytes = value_int(host, "Memory"),
                .cpu_millis = clamp(value_int(host, "NanoCpus") / 1000000),
                .pids = clamp(value_int(host, "PidsLimit")),
                .open_files = clamp(open_files_of(host)),
                .idle_s = number32(value_member(labels, S(LABEL_IDLE))),
                .lifetime_s = number32(value_member(labels, S(LABEL_LIFETIME))),
            },
    };
    if (str_to_size(value_text(host, "StorageOpt.size"), &disk, &ignored) == 0) {
        out->limits.disk_bytes = disk;
    }
    return out->cid.len == DOCKER_CID_SIZE - 1 && docker_id_ok(out->instance) &&
           (docker_id_ok(out->id) || out->is_helper);
}

int container_find(struct docker *d, const struct ctx *ctx, struct str id, struct container *out,
                   struct err *e)
{
    char instance[DOCKER_ID_SIZE] = "";
    struct http_answer answer;
    struct value *v;

    if (!docker_id_ok(id)) {
        return err_set(e, ERR_NOT_FOUND, "\"%.*s\" is not the id of a docker sandbox",
                       STR_ARG(str_head(id, 64)));
    }
    struct http_req req = {.method = "GET",
                           .path = arena_printf(ctx->arena, "/containers/" NAME_PREFIX "%.*s/json",
                                                NAME_DIGITS, id.p)};
    if (docker_instance(d, false, instance, e) < 0 || engine_call(d, ctx, &req, &answer, e) < 0) {
        return -1;
    }
    if (answer.status == 404) {
        return err_set(e, ERR_GONE, "it has ended and nothing of it is left");
    }
    if (answer.status != 200) {
        return engine_fail(&answer, ctx->arena, "cannot look at the container", e);
    }
    v = value_parse(ctx->arena, answer.body, e);
    if (v == NULL) {
        return -1;
    }
    if (!container_read(v, out) || !str_eq(out->id, id) ||
        !str_eq(out->instance, str_from(instance))) {
        return err_set(e, ERR_GONE,
                       "it has ended; a container of its name (" NAME_PREFIX
                       "%.*s) was not made by "
                       "this anybox and is left alone",
                       NAME_DIGITS, id.p);
    }
    return 0;
}

static struct str span(struct arena *a, int64_t s)
{
    if (s >= 3600 && s % 3600 == 0) {
        return arena_printf(a, "%lld h", (long long)(s / 3600));
    }
    return s >= 60 && s % 60 == 0 ? arena_printf(a, "%lld min", (long long)(s / 60))
                                  : arena_printf(a, "%lld s", (long long)s);
}

struct str container_reason(const struct container *c, struct arena *a, enum box_end *kind)
{
    *kind = BOX_END_OTHER;
    switch (c->exit_code) {
    case AGENT_EXIT_IDLE:
        *kind = BOX_END_IDLE;
        return arena_printf(a, "it was idle for %.*s", STR_ARG(span(a, c->limits.idle_s)));
    case AGENT_EXIT_LIFETIME:
        *kind = BOX_END_LIFETIME;
        return arena_printf(a, "its lifetime of %.*s was over",
                            STR_ARG(span(a, c->limits.lifetime_s)));
    case AGENT_EXIT_SHUTDOWN: *kind = BOX_END_DELETED; return S("it was deleted");
    case AGENT_EXIT_SIGNAL:
        return S("its container was stopped, by docker stop or because the engine was");
    default: break;
    }
    if (c->is_oom) {
        return S("its first process was ended for want of memory");
    }
    if (c->exit_code == 137) {
        return S("its container was killed, by docker kill or because the engine was started anew");
    }
    return arena_printf(a, "its container ended with exit code %d", c->exit_code);
}

int container_usable(struct docker *d, const struct ctx *ctx, struct str id, struct err *e)
{
    struct container c;
    enum box_end kind;

    if (container_find(d, ctx, id, &c, e) < 0) {
        return -1;
    }
    switch (c.state) {
    case CONTAINER_ENDED:
        return err_set(e, ERR_GONE, "it has ended: %.*s",
                       STR_ARG(container_reason(&c, ctx->arena, &kind)));
    case CONTAINER_PAUSED:
        return err_set(e, ERR_UNREACHABLE, "it is paused: \"anybox resume %.*s\" lets it go on",
                       NAME_DIGITS, id.p);
    case CONTAINER_MADE: return err_set(e, ERR_UNREACHABLE, "its container is not started yet");
    case CONTAINER_RUNNING: break;
    }
    return 0;
}

/* ---- the end --------------------------------------------------------------------------------- */

int container_remove(const struct docker *d, const struct ctx *ctx, struct str cid, struct err *e)
{
    const struct http_req req = {
        .method = "DELETE",
        .path = arena_printf(ctx->arena, "/containers/%.*s?force=1&v=1", STR_ARG(cid)),
    };
    int64_t until_ms = clock_mono_ms() + REMOVE_MS;
    struct http_answer answer;

    for (;;) {
        if (engine_call(d, ctx, &req, &answer, e) < 0) {
            return -1;
        }
        if (answer.status == 404 || (answer.status >= 200 && answer.status < 300)) {
            return 0;
        }
        /* Somebody else removes it just now (409), or its process does not die at once (500). */
        bool is_passing = answer.status == 409 || answer.status == 500;
        if (!is_passing || clock_mono_ms() >= until_ms) {
            return engine_fail(&answer, ctx->arena, "cannot remove the container", e);
        }
        if (ctx_wait(ctx, NULL, 0, clock_mono_ms() + REMOVE_GAP_MS, e) < 0) {
            return -1;
        }
    }
}

/* ---- all of them ----------------------------------------------------------------------------- */

int container_each(struct docker *d, const struct ctx *ctx, container_fn *each, void *arg,
                   struct err *e)
{
    char instance[DOCKER_ID_SIZE] = "";
    struct buf path own_buf = {0};
    struct value *v = NULL;

    if (docker_instance(d, false, instance, e) < 0) {
        return -1;
    }
    if (instance[0] == '\0') {
        return 0; /* it has never made one */
    }
    buf_init(&path, 1024);
    buf_add(&path, S("/containers/json?all=1&filters="));
    percent_add(&path,
                arena_printf(ctx->arena, "{\"label\":[\"" LABEL_INSTANCE "=%s\"]}", instance),
                false);
    struct http_req req = {.method = "GET", .path = buf_str(&path), .max = LIST_MAX};
    if (engine_ask(d, ctx, &req, &v, e) < 0) {
        return -1;
    }
    for (const struct value *row = v->first; row != NULL; row = row->next) {
        const struct value *labels = value_at(row, "Labels");

        /* An engine that does not know the filter must not make others' containers ours. */
        if (str_eq(value_member(labels, S(LABEL_INSTANCE)), str_from(instance)) &&
            each(arg, row, e) < 0) {
            return -1;
        }
    }
    return 0;
}
