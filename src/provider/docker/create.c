/* create.c - a box to order. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/own.h"
#include "base/path.h"
#include "base/thread.h"
#include "provider/docker/docker.h"
#include "provider/talk.h"

#define BODY_MAX      (8u << 20)
#define START_WAIT_MS 120000

/* ---- what was asked for -------------------------------------------------------------------- */

static int check_network(const struct docker *d, enum network network, struct err *e)
{
    struct str name = d->conf.network;

    if (network == NETWORK_HOST && !d->host_network) {
        return err_set(e, ERR_DENIED,
                       "network \"host\" is not allowed for containers: the operator can allow it "
                       "with allow_host_network = true below [docker] in %.*s",
                       STR_ARG(d->config_file));
    }
    if (network == NETWORK_INTERNET &&
        (str_eq(name, S("host")) || str_eq(name, S("none")) || str_starts(name, S("container:")))) {
        return err_set(
            e, ERR_INVALID,
            "docker.network is \"%.*s\", which gives no way out of a sandbox's own: name "
            "a network of the engine, such as bridge (docker network ls)",
            STR_ARG(str_head(name, 64)));
    }
    return 0;
}

static int check_spec(const struct docker *d, const struct box_spec *spec, struct err *e)
{
    if (!docker_id_ok(spec->id)) {
        return err_set(e, ERR_BUG, "a sandbox id is 32 hex digits, not \"%.*s\"",
                       STR_ARG(str_head(spec->id, 40)));
    }
    if (spec->gpu && !d->conf.gpu) {
        return err_set(
            e, ERR_DENIED,
            "gpu is not allowed for containers: the operator can allow it with allow_gpu "
            "= true below [docker] in %.*s",
            STR_ARG(d->config_file));
    }
    if (check_network(d, spec->network, e) < 0) {
        return -1;
    }
    return talk_check_env(spec->env, spec->n_env, e);
}

/* ---- a folder of this machine as the work folder -------------------------------------------- */

static bool is_below(struct str path, struct str top)
{
    return top.len > 0 && str_starts(path, top) &&
           (path.len == top.len || path.p[top.len] == '/' || top.p[top.len - 1] == '/');
}

/* Neither one of these, nor in one, nor around one. */
static bool is_closed(const struct docker *d, struct arena *a, struct str real)
{
    struct str home = d->conf.home;
    const struct str closed[] = {
        S("/proc"),
        S("/sys"),
        S("/dev"),
        S("/etc"),
        S("/boot"),
        S("/run"),
        S("/var/run"),
        S("/usr"),
        S("/bin"),
        S("/sbin"),
        S("/lib"),
        S("/var/lib/docker"),
        S("/var/lib/containers"),
        home.len > 0 ? path_join(a, home, S(".ssh")) : STR_EMPTY,
        home.len > 0 ? path_join(a, home, S(".gnupg")) : STR_EMPTY,
        home.len > 0 ? path_join(a, home, S(".docker")) : STR_EMPTY,
        home.len > 0 ? path_join(a, home, S(".config")) : STR_EMPTY,
        S("/root/.ssh"),
        str_from(d->state_dir),
    };

    for (size_t i = 0; i < COUNTOF(closed); i++) {
        if (is_below(real, closed[i]) || (closed[i].len > 0 && is_below(closed[i], real))) {
            return true;
        }
    }
    return false;
}

static int open_root(const struct docker *d, struct arena *a, struct str *real, struct err *e)
{
    const char *root = arena_cstr(a, d->conf.mount_root);
    char resolved[PATH_MAX];

    if (fd_mkdirs(root, 0755, e) < 0) {
        return err_wrap(e, "docker.mount_root");
    }
    if (realpath(root, resolved) == NULL) {
        return err_sys(e, errno, "docker.mount_root %s", root);
    }
    *real = arena_str(a, str_from(resolved));
    if (is_closed(d, a, *real)) {
        return err_set(
            e, ERR_DENIED,
            "docker.mount_root is %.*s: sandboxes are given no folder of the system, of "
            "keys, of the engine or of anybox, and none that holds one; name a folder of "
            "its own",
            STR_ARG(*real));
    }
    int fd = open(resolved, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd >= 0 ? fd : err_sys(e, errno, "docker.mount_root %s", resolved);
}

/* <root>/<name>, which belongs to the code in the box then. */
static int make_bind(const struct docker *d, const struct ctx *ctx, const struct box_spec *spec,
                     uint32_t uid, struct str *out, struct err *e)
{
    struct arena *a = ctx->arena;
    struct str real = STR_EMPTY;
    struct where where;

    if (engine_where(d, a, &where, e) < 0) {
        return -1;
    }
    if (!engine_is_local(&where)) {
        return err_set(e, ERR_UNSUPPORTED,
                       "docker.open_mount_directory needs an engine on this machine, and %.*s is "
                       "elsewhere: set it to false",
                       STR_ARG(where.shown));
    }
    int root own_fd = open_root(d, a, &real, e);
    if (root < 0) {
        return -1;
    }
    const char *name = arena_printf(a, "%.*s-%.12s", STR_ARG(spec->name), spec->id.p).p;
    if (mkdirat(root, name, 0755) < 0) {
        return err_sys(e, errno, "cannot make the folder %.*s/%s", STR_ARG(real), name);
    }
    if (geteuid() == 0 && fchownat(root, name, uid, uid, AT_SYMLINK_NOFOLLOW) < 0) {
        return err_sys(e, errno, "cannot give the folder %.*s/%s to the sandbox", STR_ARG(real),
                       name);
    }
    if (geteuid() != 0 && uid != geteuid() && fchmodat(root, name, 01777, 0) < 0) {
        return err_sys(e, errno, "cannot open the folder %.*s/%s to the sandbox", STR_ARG(real),
                       name);
    }
    *out = arena_printf(a, "%.*s/%s", STR_ARG(real), name);
    return 0;
}

/* ---- making --------------------------------------------------------------------------------- */

/* Whose the prepared image is; only asked where it matters. */
static int read_person(const struct docker *d, const struct ctx *ctx, struct body *b, struct err *e)
{
    struct http_req req = {.method = "GET",
                           .path =
                               arena_printf(ctx->arena, "/images/%.*s/json", STR_ARG(b->prepared))};
    struct value *v = NULL;
    struct str gid;
    struct err ignored;
    int64_t n = 0;

    if (engine_ask(d, ctx, &req, &v, e) < 0) {
        return -1;
    }
    struct str uid = str_cut(value_text(v, "Config.User"), ':', &gid);
    if (str_to_i64(uid, 0, INT32_MAX, &n, &ignored) == 0) {
        b->uid = (uint32_t)n;
    }
    if (str_to_i64(gid, 0, INT32_MAX, &n, &ignored) == 0) {
        b->gid = (uint32_t)n;
    }
    b->home = value_member(value_at(v, "Config.Labels"), S(LABEL_HOME));
    return 0;
}

static int complete(struct docker *d, const struct ctx *ctx, struct body *b, struct err *e)
{
    bool has_bind = d->conf.mount_root.len > 0;

    if ((d->conf.read_only || has_bind) && read_person(d, ctx, b, e) < 0) {
        return -1;
    }
    return has_bind && b->bind.len == 0 ? make_bind(d, ctx, b->spec, b->uid, &b->bind, e) : 0;
}

/* Some engines look for them when a container is made, others when it is started. */
static bool lacks_gpu(const struct body *b, struct str said)
{
    return b->spec->gpu && said.len > 0 && memmem(said.p, said.len, "device driver", 13) != NULL;
}

static int no_gpu(struct err *e)
{
    return err_set(e, ERR_UNSUPPORTED,
                   "the container engine has no GPUs to give: install nvidia-container-toolkit on "
                   "its machine, or leave gpu out");
}

static int create_failed(const struct http_answer *answer, const struct ctx *ctx,
                         const struct body *b, struct err *e)
{
    struct str said = engine_said(answer, ctx->arena);

    if (b->limits.disk_bytes > 0 && said.len > 0 && memmem(said.p, said.len, "storage-opt", 11)) {
        return err_set(
            e, ERR_UNSUPPORTED,
            "the container engine cannot limit a sandbox's disk here: it needs overlay2 on "
            "xfs with the mount option pquota. Leave disk out%s",
            b->is_podman ? ""
                         : ", or have the operator set read_only = true below [docker]: then files "
                           "are in memory, within the limit");
    }
    if (lacks_gpu(b, said)) {
        return no_gpu(e);
    }
    return engine_fail(answer, ctx->arena, "cannot create the container", e);
}

/* ERR_NOT_FOUND: the prepared image is not there. */
static int create_once(struct docker *d, const struct ctx *ctx, struct body *b, struct str *cid,
                       struct err *e)
{
    struct buf text own_buf = {0};
    struct http_answer answer;

    if (complete(d, ctx, b, e) < 0) {
        return -1;
    }
    buf_init(&text, BODY_MAX);
    body_write(b, &text);
    struct http_req req = {
        .method = "POST",
        .path = arena_printf(ctx->arena, "/containers/create?name=" NAME_PREFIX "%.*s", NAME_DIGITS,
                             b->spec->id.p),
        .type = "application/json",
        .body = buf_str(&text),
    };
    if (text.cut) {
        return err_set(e, ERR_LIMIT, "the environment of the sandbox is too long");
    }
    if (engine_call(d, ctx, &req, &answer, e) < 0) {
        return -1;
    }
    if (answer.status != 201) {
        return create_failed(&answer, ctx, b, e);
    }
    struct value *v = value_parse(ctx->arena, answer.body, e);
    if (v == NULL) {
        return -1;
    }
    *cid = value_text(v, "Id");
    return cid->len == DOCKER_CID_SIZE - 1
               ? 0
               : err_set(e, ERR_PROTOCOL, "the engine tells no id of a new container");
}

static bool has_words(struct str said, const char *words)
{
    return said.p != NULL && said.len > 0 && memmem(said.p, said.len, words, strlen(words)) != NULL;
}

/* The agent is not for this processor, or lies where nothing may be run, or the image has a volume in
 * its place, or a policy is against it. The same image is not tried again by this process. */
static bool refuses_agent(struct docker *d, const struct body *b, struct str said)
{
    static const char *const reasons[] = {"exec format error", "permission denied",
                                          "operation not permitted", "no such file or directory"};
    const char *why = NULL;

    for (size_t i = 0; i < COUNTOF(reasons) && why == NULL; i++) {
        why = has_words(said, reasons[i]) ? reasons[i] : NULL;
    }
    if (why == NULL || !has_words(said, AGENT_DIR "/boxinit")) {
        return false;
    }
    LOCKED(&d->lock);
    (void)snprintf(d->refused, sizeof(d->refused), "%.*s", STR_ARG(b->prepared));
    (void)snprintf(d->refused_why, sizeof(d->refused_why), "the engine could not start it: %s",
                   why);
    return true;
}

static int start(struct docker *d, const struct ctx *ctx, const struct body *b, struct str cid,
                 struct err *e)
{
    struct http_req req = {
        .method = "POST",
        .path = arena_printf(ctx->arena, "/containers/%.*s/start", STR_ARG(cid)),
        .silent_ms = START_WAIT_MS,
    };
    struct http_answer answer;

    if (engine_call(d, ctx, &req, &answer, e) < 0) {
        return -1;
    }
    if (answer.status == 204 || answer.status == 304) {
        return 0;
    }
    struct str said = engine_said(&answer, ctx->arena);
    if (!b->is_plain && refuses_agent(d, b, said)) {
        return err_set(e, ERR_UNSUPPORTED, "the engine cannot run our agent");
    }
    if (said.len > 0 && memmem(said.p, said.len, "exec format error", 17) != NULL) {
        return err_set(e, ERR_UNSUPPORTED,
                       "the image \"%.*s\" is for another processor than the engine's machine has: "
                       "use one that is made for it",
                       STR_ARG(b->asked));
    }
    if (lacks_gpu(b, said)) {
        return no_gpu(e);
    }
    return engine_fail(&answer, ctx->arena, "cannot start the container", e);
}

/* The container, or nothing of it is left. */
static int make(struct docker *d, const struct ctx *ctx, struct body *b, const struct image *of,
                struct str *cid, struct err *e)
{
    struct err ignored;
    int rc = create_once(d, ctx, b, cid, e);

    if (rc < 0 && e->kind == ERR_NOT_FOUND) {
        const struct prepared as = {b->prepared, b->is_plain, b->no_agent};

        rc = image_prepare(d, ctx, of, &as, e) < 0 ? -1 : create_once(d, ctx, b, cid, e);
    }
    if (rc == 0 && start(d, ctx, b, *cid, e) < 0) {
        struct ctx last = {.arena = ctx->arena};

        (void)!container_remove(d, &last, *cid, &ignored);
        rc = -1;
    }
    if (rc < 0 && b->bind.len > 0) {
        (void)rmdir(arena_cstr(ctx->arena, b->bind));
    }
    return rc;
}

static int choose(struct docker *d, const struct ctx *ctx, const struct image *of, struct body *b,
                  struct err *e)
{
    struct prepared p = {0};

    if (prepared_choose(d, ctx, of, &p, e) < 0) {
        return -1;
    }
    b->prepared = p.name;
    b->is_plain = p.is_plain;
    b->no_agent = p.no_agent;
    return 0;
}

/* With our agent where that can be; else without, which is known after the first try. */
static int make_either(struct docker *d, const struct ctx *ctx, struct body *b,
                       const struct image *of, struct str *cid, struct err *e)
{
    if (choose(d, ctx, of, b, e) < 0) {
        return -1;
    }
    if (make(d, ctx, b, of, cid, e) == 0) {
        return 0;
    }
    struct err why = *e;
    if (b->is_plain || why.kind != ERR_UNSUPPORTED || choose(d, ctx, of, b, e) < 0 ||
        !b->is_plain) {
        *e = why;
        return -1;
    }
    b->bind = STR_EMPTY; /* it was removed */
    return make(d, ctx, b, of, cid, e);
}

struct box *docker_create(struct provider *p, const struct ctx *ctx, const struct box_spec *spec,
                          struct err *e)
{
    struct docker *d = docker_of(p);
    char instance[DOCKER_ID_SIZE];
    struct engine_facts facts;
    struct image image;
    struct str cid = STR_EMPTY;
    struct body body = {.docker = d, .spec = spec, .now = clock_wall_ms() / 1000};

    body.asked = spec->image.len > 0 ? spec->image : d->conf.image;
    if (check_spec(d, spec, e) < 0 || image_check(body.asked, e) < 0 ||
        docker_instance(d, true, instance, e) < 0 || engine_facts(d, ctx, &facts, e) < 0 ||
        body_limits(d, &facts, &spec->limits, &body.limits, e) < 0 ||
        image_find(d, ctx, body.asked, d->conf.pull, &image, e) < 0) {
        return NULL;
    }
    body.instance = str_from(instance);
    body.is_podman = facts.is_podman;
    if (make_either(d, ctx, &body, &image, &cid, e) < 0) {
        return NULL;
    }
    return docker_box_new(d, spec->id, cid, body.is_plain);
}
