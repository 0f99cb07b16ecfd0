#include "provider/local/local.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/proto.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/own.h"
#include "base/proc.h"
#include "provider/local/image.h"
#include "provider/local/maker.h"
#include "provider/local/pool.h"
#include "provider/talk.h"

#define RETRY_MS      2 /* when the listener's queue is full */
#define ENDING_MS     1000
#define ENDING_GAP_MS 20

/* ---- the provider --------------------------------------------------------------------- */

static char *copy(struct str s)
{
    return xmemdup(s.p ? s.p : "", s.len);
}

static struct provider *local_open(const struct provider_conf *conf, struct err *e)
{
    if (conf->state_dir.len == 0 || conf->program_dir.len == 0) {
        (void)err_set(e, ERR_UNSUPPORTED,
                      "local sandboxes need a state folder (ANYBOX_HOME or HOME names it) and a "
                      "mounted /proc");
        return NULL;
    }
    struct local *l = xcalloc(1, sizeof *l);
    struct buf path = {0};
    buf_init(&path, PATH_MAX_BYTES);
    buf_addf(&path, "%.*s/boxes", STR_ARG(conf->state_dir));
    l->boxes_dir = buf_take(&path);
    buf_init(&path, PATH_MAX_BYTES);
    buf_addf(&path, "%.*s/pool", STR_ARG(conf->state_dir));
    l->pool_dir = buf_take(&path);
    l->maker = maker_new();
    l->snapshots = (struct snapshots){.lock = PTHREAD_MUTEX_INITIALIZER};
    l->pool = conf->pool > 0 ? blank_pool_new(l, conf->pool) : NULL;
    l->name = copy(conf->name);
    l->state_dir = copy(conf->state_dir);
    l->program_dir = copy(conf->program_dir);
    l->defaults = conf->defaults;
    l->host_network = conf->host_network;
    l->config_file = copy(conf->config_file);
    l->provider.ops = &local_ops;
    l->provider.name = str_from(l->name);
    return &l->provider;
}

static void local_close(struct provider *p)
{
    if (p == NULL) {
        return;
    }
    struct local *l = local_of(p);
    blank_pool_free(l->pool);
    maker_free(l->maker);
    snapshots_fini(&l->snapshots);
    free(l->boxes_dir);
    free(l->pool_dir);
    free(l->config_file);
    free(l->name);
    free(l->state_dir);
    free(l->program_dir);
    free(l);
}

/* ---- reaching a box ---------------------------------------------------------------------- */

/* The listener is PID 1 of the box or boxinit's outer process: us, or the first uid of
 * the box's range. The folder is ours alone, so this can only fail when someone else
 * has our rights anyway; it costs little. */
static bool is_peer_ours(const struct local_box *lb, int fd)
{
    struct ucred peer;
    socklen_t len = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0) {
        return false;
    }
    return peer.uid == geteuid() || (lb->uid_base > 0 && (int64_t)peer.uid == lb->uid_base);
}

/* The box's folder is not there. Mostly the box was deleted; a box whose folder somebody
 * else removed can be reached by nobody any more and must not live on unseen. */
static int end_unreachable(const struct local_box *lb, const struct ctx *ctx, struct err *e)
{
    struct meta m = {.pid = lb->pid, .start = lb->start, .boot = proc_boot_id(ctx->arena)};
    if (local_kill(&m, ctx, e) < 0) {
        return -1;
    }
    return err_set(e, ERR_GONE, "it has ended and nothing of it is left");
}

/* Why nobody listens: ERR_GONE with the reason when the box has ended. A box that is
 * just ending has closed its socket already: it is given a moment. */
static int explain(struct local_box *lb, const struct ctx *ctx, int errnum, struct err *e)
{
    int64_t until_ms = clock_mono_ms() + ENDING_MS;
    struct meta m;
    enum box_end kind;
    for (;;) {
        if (meta_load(lb->folder, ctx->arena, &m, e) < 0) {
            return e->kind == ERR_NOT_FOUND ? end_unreachable(lb, ctx, e) : -1;
        }
        if (!meta_alive(&m, ctx->arena)) {
            struct str why = meta_reason(&m, lb->folder, ctx->arena, &kind);
            return err_set(e, ERR_GONE, "it has ended: %.*s", STR_ARG(why));
        }
        if (clock_mono_ms() >= until_ms) {
            return err_set(e, ERR_UNREACHABLE, "its agent does not answer: %s", strerror(errnum));
        }
        if (ctx_wait(ctx, NULL, 0, clock_mono_ms() + ENDING_GAP_MS, e) < 0) {
            return -1;
        }
    }
}

static int box_connect(struct box *b, const struct ctx *ctx, struct err *e)
{
    struct local_box *lb = local_box_of(b);
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    (void)snprintf(addr.sun_path, sizeof addr.sun_path, "/proc/self/fd/%d/" AGENT_SOCKET,
                   lb->folder);
    int fd own_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return err_sys(e, errno, "cannot make a socket");
    }
    int64_t until_ms = clock_mono_ms() + TALK_GREET_MS;
    while (connect(fd, (struct sockaddr *)&addr, sizeof addr) < 0) {
        if (errno == EINTR) {
            continue;
        }
        if (errno != EAGAIN) {
            return explain(lb, ctx, errno, e);
        }
        if (clock_mono_ms() >= until_ms) {
            return talk_silent(e, TALK_GREET_MS);
        }
        if (ctx_wait(ctx, NULL, 0, clock_mono_ms() + RETRY_MS, e) < 0) {
            return -1;
        }
    }
    if (!is_peer_ours(lb, fd)) {
        return err_set(e, ERR_DENIED, "somebody else listens on the sandbox's socket");
    }
    return take_fd(&fd);
}

struct box *local_box_new(struct local *l, struct str id, int folder, const struct meta *m)
{
    struct local_box *lb = xcalloc(1, sizeof *lb);
    memcpy(lb->id, id.p, BOX_ID_SIZE - 1);
    lb->folder = folder;
    lb->pid = m->pid;
    lb->start = m->start;
    lb->uid_base = m->uid_base;
    lb->agent.connect = box_connect;
    lb->agent.box.provider = &l->provider;
    lb->agent.box.ref = str_from(lb->id);
    atomic_init(&lb->agent.box.refs, 1);
    return &lb->agent.box;
}

static void local_release(struct box *b)
{
    struct local_box *lb = local_box_of(b);
    drop_fd(&lb->folder);
    free(lb);
}

/* ---- finding boxes -------------------------------------------------------------------------- */

static int open_folder(const struct local *l, const struct ctx *ctx, struct str id, struct err *e)
{
    if (!local_id_ok(id)) {
        return err_set(e, ERR_NOT_FOUND, "\"%.*s\" is not the id of a local sandbox",
                       STR_ARG(str_head(id, 64)));
    }
    const char *path = arena_printf(ctx->arena, "%s/%.*s", l->boxes_dir, STR_ARG(id)).p;
    int folder = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0 && errno == ENOENT) {
        return err_set(e, ERR_GONE, "it has ended and nothing of it is left");
    }
    if (folder < 0) {
        return err_sys(e, errno, "cannot open %s", path);
    }
    return folder;
}

static struct box *local_attach(struct provider *p, const struct ctx *ctx, struct str ref,
                                struct err *e)
{
    struct local *l = local_of(p);
    int folder own_fd = open_folder(l, ctx, ref, e);
    if (folder < 0) {
        return NULL;
    }
    struct meta m;
    if (meta_load(folder, ctx->arena, &m, e) < 0) {
        if (e->kind == ERR_NOT_FOUND) {
            (void)err_set(e, ERR_UNREACHABLE, "it is still being made, or its making was cut off");
        }
        return NULL;
    }
    if (m.pid == 0) {
        (void)err_set(e, ERR_UNREACHABLE, "it is still being made, or its making was cut off");
        return NULL;
    }
    if (!meta_alive(&m, ctx->arena)) {
        enum box_end kind;
        struct str why = meta_reason(&m, folder, ctx->arena, &kind);
        (void)err_set(e, ERR_GONE, "it has ended: %.*s", STR_ARG(why));
        return NULL;
    }
    return local_box_new(l, ref, take_fd(&folder), &m);
}

static struct str host_name(struct arena *a)
{
    char *name = arena_alloc(a, 1, 256);
    if (gethostname(name, 255) < 0) {
        return S("localhost");
    }
    return str_from(name);
}

static void fill_info(struct arena *a, struct str id, const struct meta *m, int folder,
                      struct box_info *out)
{
    bool image = m->image.len > 0;
    *out = (struct box_info){
        .ref = arena_str(a, id),
        .name = m->name,
        .state = BOX_RUNNING,
        .tier = m->tier,
        .host = host_name(a),
        .user = image ? S(BOX_ROOT_USER) : S(BOX_USER),
        .work_dir = S(BOX_WORK_DIR),
        .home = image ? S(BOX_ROOT_HOME) : S(BOX_HOME),
        .image = m->image,
        .limits = m->limits,
        .network = m->network,
        .created_at = m->created_at,
        .expires_at = m->expires_at,
    };
    if (m->pid == 0) {
        out->state = BOX_STARTING;
    } else if (!meta_alive(m, a)) {
        out->state = BOX_GONE;
        out->ended = meta_reason(m, folder, a, &out->end);
    }
}

static int local_info(struct box *b, const struct ctx *ctx, struct box_info *out, struct err *e)
{
    struct local_box *lb = local_box_of(b);
    struct meta m;
    if (meta_load(lb->folder, ctx->arena, &m, e) < 0) {
        if (e->kind != ERR_NOT_FOUND || (end_unreachable(lb, ctx, e) < 0 && e->kind != ERR_GONE)) {
            return -1;
        }
        *out = (struct box_info){.ref = arena_str(ctx->arena, b->ref),
                                 .state = BOX_GONE,
                                 .end = BOX_END_DELETED,
                                 .ended = S("it was deleted")};
        return 0;
    }
    fill_info(ctx->arena, b->ref, &m, lb->folder, out);
    return 0;
}

static int list_one(const struct local *l, const struct ctx *ctx, struct str id, box_info_fn *each,
                    void *arg, struct err *e)
{
    struct err why = {0};
    int folder own_fd = open_folder(l, ctx, id, &why);
    struct meta m;
    if (folder < 0 || meta_load(folder, ctx->arena, &m, &why) < 0) {
        return 0; /* gone since, or not ready to be shown */
    }
    struct box_info info;
    fill_info(ctx->arena, id, &m, folder, &info);
    return each(arg, &info, e);
}

static int local_list(struct provider *p, const struct ctx *ctx, box_info_fn *each, void *arg,
                      struct err *e)
{
    struct local *l = local_of(p);
    DIR *dir = opendir(l->boxes_dir);
    if (dir == NULL) {
        return errno == ENOENT ? 0 : err_sys(e, errno, "cannot read %s", l->boxes_dir);
    }
    int rc = 0;
    for (struct dirent *entry = readdir(dir); entry != NULL && rc == 0; entry = readdir(dir)) {
        struct str id = str_from(entry->d_name);
        if (local_id_ok(id)) {
            rc = ctx_check(ctx, e) < 0 ? -1 : list_one(l, ctx, id, each, arg, e);
        }
    }
    (void)closedir(dir);
    return rc;
}

/* ---- the end, and more time ------------------------------------------------------------------- */

static int local_destroy(struct box *b, const struct ctx *ctx, struct err *e)
{
    struct local *l = local_of(b->provider);
    struct local_box *lb = local_box_of(b);
    struct meta m;
    struct err why = {0};
    if (meta_load(lb->folder, ctx->arena, &m, &why) < 0) {
        m = (struct meta){.pid = lb->pid, .start = lb->start, .boot = proc_boot_id(ctx->arena)};
    }
    meta_mark_deleted(lb->folder);
    if (local_kill(&m, ctx, e) < 0) {
        return -1;
    }
    return local_remove(l->boxes_dir, ctx, b->ref, &m, e);
}

static int local_extend(struct box *b, const struct ctx *ctx, int32_t lifetime_s, struct err *e)
{
    struct local_box *lb = local_box_of(b);
    if (lifetime_s < 1) {
        return err_set(e, ERR_INVALID, "a lifetime of %d s is too small: at least 1 s", lifetime_s);
    }
    if (agent_extend(b, ctx, lifetime_s, e) < 0) {
        return -1;
    }
    int lock own_fd = openat(lb->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock < 0 || flock(lock, LOCK_EX) < 0) {
        return err_sys(e, errno, "cannot lock the sandbox's folder");
    }
    struct meta m;
    if (meta_load(lb->folder, ctx->arena, &m, e) < 0) {
        return -1;
    }
    m.limits.lifetime_s = lifetime_s;
    m.expires_at = clock_wall_ms() / 1000 + lifetime_s;
    return meta_save(lb->folder, &m, e);
}

static const struct factory_ops factory = {
    .create = local_create,
    .destroy = local_destroy,
    .extend = local_extend,
    .sweep = local_sweep,
};

static const struct meter_ops meter = {
    .usage = local_usage,
};

const struct provider_ops local_ops = {
    .type = "local",
    .open = local_open,
    .close = local_close,
    .list = local_list,
    .attach = local_attach,
    .info = local_info,
    .release = local_release,
    .exec = agent_exec,
    .doctor = local_doctor,
    .factory = &factory,
    .images = &local_images,
    .tasks = &tasks_over_agent,
    .files = &files_over_agent,
    .trees = &trees_over_agent,
    .meter = &meter,
    .ports = &ports_over_agent,
};
