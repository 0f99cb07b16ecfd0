/*
 * boxes.c - providers, handles and the rows that stand for boxes.
 *
 * Three things know about a box: its provider (is it alive), the database (whose it
 * is, its name, why it ended) and the cache of handles of this process. The provider
 * is right about life: whenever it says that a box is gone, boxes_end() makes the
 * other two agree. Other processes change the database beside us, so nothing that was
 * read from it is believed for longer than a call, except a handle: using one whose
 * box has ended fails with ERR_GONE, and the caller reports that by boxes_lost().
 *
 * Locks: scope.lock, boxes.lock and cache.lock each guard a few fields; none is held
 * while another is taken, nor across a call into the store or a provider.
 */
#include "core/boxes.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/proc.h"
#include "base/thread.h"
#include "config/config.h"
#include "core/boxes_own.h"
#include "core/output.h"
#include "provider/docker_conf.h"
#include "provider/hosts.h"
#include "provider/platform.h"

#define SWEEP_EVERY_MS 60000
#define ENDED_KEPT_MS  (24ll * 60 * 60 * 1000)
#define START_WAIT_MS  60000
#define START_POLL_MS  20

/* ---- lifetime ------------------------------------------------------------------- */

struct boxes *boxes_new_with(const struct config *config, struct store *store,
                             struct provider *const *providers, size_t n, const char *problem)
{
    struct boxes *bs = xcalloc(1, sizeof(*bs));

    bs->config = config;
    bs->store = store;
    bs->providers = xcalloc(n + 1, sizeof(struct provider *));
    for (size_t i = 0; i < n; i++) {
        bs->providers[i] = providers[i];
    }
    bs->n_providers = n;
    bs->problem = problem != NULL ? xstrdup(problem) : NULL;
    (void)pthread_mutex_init(&bs->lock, NULL);
    cache_init(&bs->cache);
    return bs;
}

/* What a local box gets that asks for nothing; 0 is the provider's to fill in. */
static struct limits local_defaults(const struct config *c)
{
    return (struct limits){
        .memory_bytes = c->memory_bytes,
        .disk_bytes = c->disk_bytes,
        .cpu_millis = (int32_t)c->cpu_millis,
        .pids = (int32_t)c->pids,
        .open_files = (int32_t)c->open_files,
        .lifetime_s = (int32_t)c->lifetime_s,
        .idle_s = c->cleanup != 0 ? (int32_t)c->idle_s : 0,
    };
}

static struct provider *open_local(const struct config *config, struct err *e)
{
    const struct provider_ops *ops = provider_type(S("local"));
    struct arena scratch own_arena = {0};
    struct provider_conf conf;

    if (ops == NULL) {
        (void)err_set(e, ERR_UNSUPPORTED, "this anybox was built without local sandboxes");
        return NULL;
    }
    arena_init(&scratch, 1u << 20);
    conf = (struct provider_conf){
        .name = S("local"),
        .state_dir = config->state_dir,
        .program_dir = proc_self_dir(&scratch),
        .defaults = local_defaults(config),
        .pool = (unsigned)config->pool,
        .host_network = config->host_network != 0,
        .config_file = config->file,
    };
    return ops->open(&conf, e);
}

static struct ssh_host host_of(const struct config *config, const struct config_host *h)
{
    return (struct ssh_host){
        .name = h->name,
        .host = h->host,
        .port = (int32_t)h->port,
        .user = h->user,
        .key_file = h->key_file,
        .key_passphrase = h->key_passphrase,
        .key_passphrase_file = h->key_passphrase_file,
        .key_passphrase_command = h->key_passphrase_command,
        .password = h->password,
        .password_file = h->password_file,
        .password_command = h->password_command,
        .no_agent = h->no_agent != 0,
        .agent_never = h->agent == HOST_AGENT_NEVER ||
                       (h->agent == HOST_AGENT_UNSAID && config->host_agent == 0),
        .fallback = h->fallback != 0,
        .trust = h->strict != 0 ? SSH_TRUST_STRICT : SSH_TRUST_NEW,
        .known_hosts = h->known_hosts,
        .host_key_alias = h->host_key_alias,
        .proxy_jump = h->proxy_jump,
        .proxy_command = h->proxy_command,
        .connect_timeout_s = (int32_t)h->connect_timeout_s,
    };
}

/* The hosts of the configuration; NULL: there are none, or this build cannot reach any. */
static struct provider *open_ssh(const struct config *config, struct err *e)
{
    const struct provider_ops *ops = provider_type(S("ssh"));
    struct arena scratch own_arena = {0};
    struct ssh_host *items;
    struct ssh_hosts hosts;
    struct provider_conf conf;

    if (ops == NULL || config->n_hosts == 0) {
        return NULL;
    }
    arena_init(&scratch, 4u << 20);
    items = arena_alloc(&scratch, config->n_hosts, sizeof(*items));
    for (size_t i = 0; i < config->n_hosts; i++) {
        items[i] = host_of(config, &config->hosts[i]);
    }
    hosts = (struct ssh_hosts){items, config->n_hosts};
    conf = (struct provider_conf){
        .name = S("ssh"),
        .state_dir = config->state_dir,
        .program_dir = proc_self_dir(&scratch),
        .config_file = config->file,
        .once = config->once,
        .ssh = &hosts,
    };
    return ops->open(&conf, e);
}

static struct limits docker_defaults(const struct config *c)
{
    return (struct limits){
        .memory_bytes = c->docker_memory,
        .disk_bytes = c->docker_disk,
        .cpu_millis = (int32_t)c->docker_cpu_millis,
        .pids = (int32_t)c->docker_pids,
        .open_files = (int32_t)c->docker_open_files,
        .lifetime_s = (int32_t)c->docker_lifetime_s,
        .idle_s = c->cleanup != 0 ? (int32_t)c->docker_idle_s : 0,
    };
}

/* Containers. Nobody is asked here whether there is an engine. */
static struct provider *open_docker(const struct config *config, struct err *e)
{
    const struct provider_ops *ops = provider_type(S("docker"));
    struct arena scratch own_arena = {0};
    const struct docker_conf docker = {
        .host = config->docker_host,
        .cert_path = config->docker_cert_path,
        .tls_verify = config->docker_tls_verify,
        .tls_insecure = config->docker_tls_insecure != 0,
        .config_dir = config->docker_config_dir,
        .image = config->docker_image,
        .work_dir = config->docker_work_dir,
        .user = config->docker_user,
        .network = config->docker_network,
        .memswap_bytes = config->docker_memswap,
        .read_only = config->docker_read_only != 0,
        .gpu = config->docker_gpu != 0,
        .no_agent = config->docker_agent == 0,
        .pull = config->docker_pull != 0,
        .mount_root = config->docker_mount_root,
        .home = config->home,
        .runtime_dir = config->runtime_dir,
    };

    arena_init(&scratch, 1u << 20);
    const struct provider_conf conf = {
        .name = S("docker"),
        .state_dir = config->state_dir,
        .program_dir = proc_self_dir(&scratch),
        .defaults = docker_defaults(config),
        .host_network = config->docker_host_network != 0,
        .config_file = config->file,
        .once = config->once,
        .docker = &docker,
    };
    return ops->open(&conf, e);
}

/* The platform of the configuration; NULL: there is none. */
static struct provider *open_platform(const struct config *config, struct err *e)
{
    const struct provider_ops *ops = provider_type(S("opensandbox"));
    struct platform platform = {
        .server = config->open_server,
        .api_key = config->open_key,
        .image = config->open_image,
        .entrypoint = config->open_entrypoint,
        .work_dir = config->open_work_dir,
        .ca_file = config->open_ca_file,
        .timeout_s = (int32_t)config->open_timeout_s,
        .create_s = (int32_t)config->open_create_s,
        .request_s = (int32_t)config->open_request_s,
        .way = str_eq(config->open_connection, S("direct"))  ? PLATFORM_DIRECT
               : str_eq(config->open_connection, S("proxy")) ? PLATFORM_PROXY
                                                             : PLATFORM_AUTO,
        .auto_renew = config->open_auto_renew != 0,
        .delete_at_exit = config->open_delete != 0,
    };
    struct provider_conf conf = {
        .name = S("opensandbox"),
        .state_dir = config->state_dir,
        .config_file = config->file,
        .platform = &platform,
    };

    return ops != NULL && config->open_server.len > 0 ? ops->open(&conf, e) : NULL;
}

struct boxes *boxes_new(const struct config *config, struct store *store, struct err *e)
{
    struct provider *(*const opens[])(const struct config *, struct err *) = {
        open_local, open_ssh, open_docker, open_platform};
    struct provider *opened[COUNTOF(opens)];
    struct err why = {0};
    size_t n = 0;

    /* A provider that cannot be opened must not keep the server from starting: the tools
     * that need it say why. */
    for (size_t i = 0; i < COUNTOF(opens); i++) {
        struct provider *p = opens[i](config, &why);

        if (p != NULL) {
            opened[n++] = p;
        }
    }
    *e = why;
    return boxes_new_with(config, store, opened, n, n > 0 ? NULL : why.msg);
}

void boxes_free(struct boxes *bs)
{
    if (bs == NULL) {
        return;
    }
    cache_fini(&bs->cache);
    for (size_t i = 0; i < bs->n_providers; i++) {
        bs->providers[i]->ops->close(bs->providers[i]);
    }
    (void)pthread_mutex_destroy(&bs->lock);
    free(bs->problem);
    free(bs->providers);
    free(bs);
}

int boxes_count(struct boxes *bs, int64_t *out, struct err *e)
{
    return store_count_all_boxes(bs->store, out, e);
}

int boxes_each_provider(struct boxes *bs, provider_fn *each, void *arg, struct err *e)
{
    for (size_t i = 0; i < bs->n_providers; i++) {
        if (each(arg, bs->providers[i], e) < 0) {
            return -1;
        }
    }
    return 0;
}

struct provider *boxes_provider(struct boxes *bs, struct str name, struct err *e)
{
    struct str wanted = name.len > 0 ? name : bs->config->default_provider;
    struct buf names own_buf = {0};

    buf_init(&names, 200);
    for (size_t i = 0; i < bs->n_providers; i++) {
        if (str_eq(bs->providers[i]->name, wanted)) {
            return bs->providers[i];
        }
        buf_addf(&names, "%s%.*s", i > 0 ? ", " : "", STR_ARG(bs->providers[i]->name));
    }
    if (bs->n_providers == 0) {
        (void)err_set(e, ERR_UNSUPPORTED, "no provider of sandboxes is available: %s",
                      bs->problem != NULL ? bs->problem : "none is configured");
        return NULL;
    }
    (void)err_set(e, ERR_INVALID, "there is no provider \"%.*s\"; available: %.*s",
                  STR_ARG(str_head(wanted, 64)), STR_ARG(buf_str(&names)));
    return NULL;
}

int boxes_check_name(struct str name, struct err *e)
{
    bool hex = true;

    for (size_t i = 0; i < name.len; i++) {
        char c = name.p[i];
        bool digit = c >= '0' && c <= '9';
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');

        hex = hex && (digit || (c >= 'a' && c <= 'f'));
        if (!digit && !letter && c != '_' && (i == 0 || (c != '.' && c != '-'))) {
            name.len = 0;
        }
    }
    if (name.len < 1 || name.len > 64) {
        return err_set(e, ERR_INVALID,
                       "a sandbox name is 1 to 64 letters, digits, '.', '_' and '-', and does not "
                       "begin with '.' or '-'");
    }
    if (hex && (name.len == STORE_ID_LEN || name.len == STORE_SHORT_ID_LEN)) {
        return err_set(e, ERR_INVALID, "the name \"%.*s\" looks like an id: choose another",
                       STR_ARG(name));
    }
    return 0;
}

/* ---- the end of a box -------------------------------------------------------------- */

/* Below the tools nothing is told to the client that did not ask for it. */
static void note(const char *what, const struct err *e)
{
    char quoted[LOG_QUOTE_SIZE];

    log_line(LOG_DEBUG, "boxes", "failed=%s error=%s", what, log_quote(str_from(e->msg), quoted));
}

void boxes_end(struct boxes *bs, struct str id, struct str why)
{
    struct err e;

    if (fixed_is_id(id)) {
        return;
    }
    box_unref(cache_take(&bs->cache, id));
    lock(&bs->lock);
    bs->has_left = true;
    unlock(&bs->lock);
    if (store_box_ended(bs->store, id, why.len > 0 ? why : S("it has ended"), &e) < 0) {
        note("end", &e);
    }
    output_drop(bs->config->state_dir, id);
    if (bs->on_end != NULL) {
        bs->on_end(bs->on_end_arg, id, why.len > 0 ? why : S("it has ended"));
    }
}

void boxes_output_kept(struct boxes *bs, const struct ctx *ctx, const struct scope *scope,
                       struct str id)
{
    struct box_row row = {0};
    struct err e = {0};

    /* Whoever ends the box ends its row first: it finds what we have written, or we the end. */
    if (!fixed_is_id(id) &&
        store_box_by_id(bs->store, ctx->arena, scope->owner, id, &row, &e) == 0 &&
        row.state == ROW_ENDED) {
        output_drop(bs->config->state_dir, id);
    }
}

void boxes_on_end(struct boxes *bs, box_end_fn *fn, void *arg)
{
    bs->on_end = fn;
    bs->on_end_arg = arg;
}

/* The reason in an ERR_GONE of a provider, without what our own sentence says already. */
static struct str reason_of(struct arena *a, struct str ref, const struct err *e)
{
    const struct str prefixes[] = {
        arena_printf(a, "sandbox %.*s: ", STR_ARG(str_head(ref, STORE_SHORT_ID_LEN))),
        S("it has ended: "),
        S("it has ended and "),
    };
    struct str why = arena_str(a, str_from(e->msg));

    for (size_t i = 0; i < COUNTOF(prefixes); i++) {
        if (str_starts(why, prefixes[i])) {
            why = str_skip(why, prefixes[i].len);
        }
    }
    return why;
}

/* Asks the backend for the end of a box: true when the box lives after all, else *why
 * may become a better reason. */
static bool lives_after_all(struct box *box, const struct ctx *ctx, struct str *why)
{
    struct box_info info = {0};
    struct err e;

    if (box_info(box, ctx, &info, &e) == 0) {
        if (info.state == BOX_GONE && info.ended.len > 0) {
            *why = info.ended;
        }
        return info.state == BOX_RUNNING;
    }
    struct box *again CLEANUP(box_unref_p) =
        e.kind == ERR_GONE ? provider_attach(box->provider, ctx, box->ref, &e) : NULL;

    if (again == NULL && e.kind == ERR_GONE) {
        *why = reason_of(ctx->arena, box->ref, &e);
    }
    return false;
}

void boxes_lost(struct boxes *bs, const struct ctx *ctx, struct str id, struct str why)
{
    struct box *box CLEANUP(box_unref_p) = cache_take(&bs->cache, id);

    if (fixed_is_id(id)) {
        return; /* a host is away, not gone */
    }
    /* A connection that broke looks like the end of a box; the row of a box that goes on
     * must not be ended, or nobody could find it any more. */
    if (box != NULL && lives_after_all(box, ctx, &why)) {
        return;
    }
    boxes_end(bs, id, why);
    boxes_sweep_left(bs, ctx);
}

bool boxes_starter_is_dead(const struct box_row *row)
{
    return proc_is_gone((pid_t)row->starter_pid, row->starter_start);
}

void boxes_abandon(struct boxes *bs, const struct ctx *ctx, const struct box_row *row)
{
    struct err e = {0};
    struct provider *p = boxes_provider(bs, row->provider, &e);
    /* The id is the new box's ref from the first moment on. */
    struct box *box CLEANUP(box_unref_p) = p != NULL ? provider_attach(p, ctx, row->id, &e) : NULL;

    if (box != NULL && box_destroy(box, ctx, &e) < 0) {
        note("abandon", &e);
    }
    if (store_drop_box(bs->store, row->id, &e) < 0) {
        note("abandon", &e);
    }
}

static void sweep(struct boxes *bs, const struct ctx *ctx, bool only_left)
{
    int64_t now = clock_mono_ms();
    struct err e;

    lock(&bs->lock);
    bool due =
        bs->has_left || (!only_left && (bs->swept_ms == 0 || now - bs->swept_ms >= SWEEP_EVERY_MS));
    if (due) {
        bs->swept_ms = now;
        bs->has_left = false;
    }
    unlock(&bs->lock);
    if (!due) {
        return;
    }
    for (size_t i = 0; i < bs->n_providers; i++) {
        if (provider_sweep(bs->providers[i], ctx, &e) < 0) {
            note("sweep", &e);
        }
    }
    if (store_prune(bs->store, clock_wall_ms() - ENDED_KEPT_MS, &e) < 0) {
        note("prune", &e);
    }
}

void boxes_sweep(struct boxes *bs, const struct ctx *ctx)
{
    sweep(bs, ctx, false);
}

void boxes_sweep_left(struct boxes *bs, const struct ctx *ctx)
{
    sweep(bs, ctx, true);
}

int boxes_row(struct boxes *bs, const struct ctx *ctx, struct scope *scope, struct str id,
              struct box_row *out, struct err *e)
{
    struct fixed found;

    if (!fixed_is_id(id)) {
        return store_box_by_id(bs->store, ctx->arena, scope->owner, id, out, e);
    }
    if (!fixed_find(bs, ctx, scope, id, &found)) {
        return err_set(e, ERR_NOT_FOUND, "no such host is configured");
    }
    *out = found.row;
    return 0;
}

/* ---- handles ------------------------------------------------------------------------ */

/* Until the row is no longer STARTING; it is read again. A starter that died leaves
 * nothing: then the box is not there. */
static int wait_started(struct boxes *bs, const struct ctx *ctx, struct box_row *row, struct err *e)
{
    int64_t until = clock_mono_ms() + START_WAIT_MS;

    while (row->state == ROW_STARTING) {
        if (boxes_starter_is_dead(row)) {
            boxes_abandon(bs, ctx, row);
            return err_set(e, ERR_NOT_FOUND,
                           "sandbox \"%.*s\" was never finished: the process that made it is dead",
                           STR_ARG(row->name));
        }
        if (clock_mono_ms() >= until) {
            return err_set(e, ERR_UNREACHABLE,
                           "sandbox \"%.*s\" is still being made by process %lld; try again",
                           STR_ARG(row->name), (long long)row->starter_pid);
        }
        if (ctx_wait(ctx, NULL, 0, clock_mono_ms() + START_POLL_MS, e) < 0) {
            return -1;
        }
        if (store_box_by_id(bs->store, ctx->arena, row->owner, row->id, row, e) < 0) {
            return e->kind != ERR_NOT_FOUND
                       ? -1
                       : err_set(e, ERR_NOT_FOUND, "sandbox \"%.*s\" could not be made",
                                 STR_ARG(row->name));
        }
    }
    return 0;
}

static struct provider *provider_of(struct boxes *bs, const struct box_row *row, struct err *e)
{
    struct provider *p = boxes_provider(bs, row->provider, e);

    if (p == NULL && e->kind == ERR_INVALID) {
        (void)err_set(e, ERR_UNSUPPORTED,
                      "sandbox \"%.*s\" belongs to the provider \"%.*s\", which is not configured "
                      "here",
                      STR_ARG(row->name), STR_ARG(row->provider));
    }
    return p;
}

struct box *boxes_attach(struct boxes *bs, const struct ctx *ctx, struct box_row *row,
                         struct err *e)
{
    struct cached found;
    struct provider *p;
    struct box *box;

    if (row->state == ROW_LIVE && cache_by_id(&bs->cache, row->owner, row->id, &found)) {
        return found.box;
    }
    if (row->state == ROW_STARTING && wait_started(bs, ctx, row, e) < 0) {
        return NULL;
    }
    if (row->state == ROW_ENDED) {
        (void)name_fail_ended(row, e);
        return NULL;
    }
    p = provider_of(bs, row, e);
    if (p == NULL) {
        return NULL;
    }
    box = provider_attach(p, ctx, row->ref, e);
    if (fixed_is_id(row->id)) {
        return box;
    }
    if (box != NULL) {
        cache_put(&bs->cache, row, box);
        return box;
    }
    if (e->kind == ERR_GONE || e->kind == ERR_NOT_FOUND) {
        row->state = ROW_ENDED;
        row->ended = reason_of(ctx->arena, row->ref, e);
        boxes_end(bs, row->id, row->ended);
        (void)name_fail_ended(row, e);
    }
    return NULL;
}

static int end_looked_at(struct boxes *bs, struct box_view *view, struct str why, struct err *e)
{
    view->row.state = ROW_ENDED;
    view->row.ended = why.len > 0 ? why : S("it has ended");
    boxes_end(bs, view->row.id, view->row.ended);
    return name_fail_ended(&view->row, e);
}

/* Of a host that does not answer, what is configured. */
static void show_configured(struct boxes *bs, const struct ctx *ctx, struct box_view *view)
{
    struct scope scope = {.owner = view->row.owner};
    struct fixed found;

    if (fixed_is_id(view->row.id) && fixed_find(bs, ctx, &scope, view->row.id, &found)) {
        view->info = found.info;
        view->info.state = BOX_UNKNOWN;
    }
}

int boxes_look(struct boxes *bs, const struct ctx *ctx, const struct box_row *row,
               struct box_view *out, struct box **box, struct err *e)
{
    struct box_view view = {.row = *row};
    struct box *b CLEANUP(box_unref_p) = boxes_attach(bs, ctx, &view.row, e);

    if (b == NULL && (e->kind == ERR_GONE || e->kind == ERR_NOT_FOUND)) {
        return -1;
    }
    if (b == NULL || box_info(b, ctx, &view.info, e) < 0) {
        struct err stopped;

        if (ctx_check(ctx, &stopped) < 0) {
            *e = stopped;
            return -1;
        }
        if (e->kind == ERR_GONE && !fixed_is_id(row->id)) {
            return end_looked_at(bs, &view, reason_of(ctx->arena, view.row.ref, e), e);
        }
        view.problem = arena_str(ctx->arena, str_from(e->msg));
        show_configured(bs, ctx, &view);
    } else if (view.info.state == BOX_GONE) {
        return end_looked_at(bs, &view, view.info.ended, e);
    }
    view.alive = view.problem.len == 0 && view.info.state == BOX_RUNNING;
    if (!view.alive && view.problem.len == 0) {
        view.problem = view.info.state == BOX_PAUSED
                           ? S("it is paused; \"anybox resume\" lets it go on")
                           : S("it is starting");
    }
    *out = view;
    *box = b;
    b = NULL;
    return 0;
}
