#include "provider/opensandbox/opensandbox.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/thread.h"
#include "provider/opensandbox/own.h"
#include "provider/over_shell.h"

#define EXIT_MS    10000
#define CREATE_S   300
#define REQUEST_S  30
#define EXIT_ARENA (1u << 20)

static char *copied(struct str s)
{
    return xmemdup(s.p != NULL ? s.p : "", s.len);
}

/* "http://host:port/v1", whatever of it was given. */
static char *base_of(struct str server, bool *is_https)
{
    struct buf base own_buf = {0};

    server = server.len > 0 ? str_trim(server) : S(PLATFORM_SERVER);
    *is_https = str_starts(server, S("https://"));
    while (str_ends(server, S("/"))) {
        server.len--;
    }
    buf_init(&base, OSB_TEXT_MAX);
    if (!*is_https && !str_starts(server, S("http://"))) {
        buf_add(&base, S("http://"));
    }
    buf_add(&base, server);
    if (!str_ends(server, S("/v1"))) {
        buf_add(&base, S("/v1"));
    }
    return buf_take(&base);
}

static void free_texts(struct osb_provider *p)
{
    free(p->name);
    free(p->state_dir);
    free(p->base);
    free(p->api_key);
    free(p->image);
    free(p->entrypoint);
    free(p->work_dir);
    free(p->ca_file);
    free(p->lost);
    free(p);
}

static struct provider *osb_open(const struct provider_conf *conf, struct err *e)
{
    const struct platform *given = conf->platform;
    struct osb_provider *p;

    if (given == NULL) {
        (void)err_set(e, ERR_INVALID, "no OpenSandbox platform is configured");
        return NULL;
    }
    p = xcalloc(1, sizeof(*p));
    p->name = copied(conf->name);
    p->provider = (struct provider){.ops = &opensandbox_ops, .name = str_from(p->name)};
    p->state_dir = copied(conf->state_dir);
    p->base = base_of(given->server, &p->is_https);
    p->api_key = copied(given->api_key);
    p->image = copied(given->image);
    p->entrypoint = copied(given->entrypoint);
    p->work_dir = copied(given->work_dir);
    p->ca_file = copied(given->ca_file);
    p->timeout_s = given->timeout_s > 0 ? given->timeout_s : PLATFORM_TIMEOUT_S;
    p->create_s = given->create_s > 0 ? given->create_s : CREATE_S;
    p->request_s = given->request_s > 0 ? given->request_s : REQUEST_S;
    p->way = given->way;
    p->auto_renew = given->auto_renew;
    p->delete_at_exit = given->delete_at_exit;
    p->web = web_new(p->ca_file);
    if (cancel_init(&p->closing, e) < 0) {
        web_free(p->web);
        free_texts(p);
        return NULL;
    }
    (void)pthread_mutex_init(&p->lock, NULL);
    return &p->provider;
}

/* Boxes that are to go with us. */
static void delete_made(struct osb_provider *p)
{
    struct arena arena own_arena = {0};
    struct ctx ctx = {.arena = &arena, .deadline_ms = clock_mono_ms() + EXIT_MS};
    struct err ignored;

    arena_init(&arena, EXIT_ARENA);
    for (size_t i = 0; i < p->n_made; i++) {
        (void)!osb_delete(p, &ctx, p->made[i], &ignored);
        free((char *)(uintptr_t)p->made[i].p);
    }
    free(p->made);
}

static void osb_close(struct provider *provider)
{
    struct osb_provider *p;

    if (provider == NULL) {
        return;
    }
    p = osb_of(provider);
    osb_ports_free(p);
    delete_made(p);
    osb_shelf_free(p);
    web_free(p->web);
    (void)pthread_mutex_destroy(&p->lock);
    free_texts(p);
}

static bool is_ref(struct str ref)
{
    for (size_t i = 0; i < ref.len; i++) {
        char c = ref.p[i];

        if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') &&
            c != '-' && c != '_' && c != '.') {
            return false;
        }
    }
    return ref.len > 0 && ref.len <= 64;
}

static struct box *osb_attach(struct provider *p, const struct ctx *ctx, struct str ref,
                              struct err *e)
{
    (void)ctx;
    if (!is_ref(ref)) {
        (void)err_set(e, ERR_NOT_FOUND, "\"%.*s\" is no sandbox of this platform",
                      STR_ARG(str_head(ref, 64)));
        return NULL;
    }
    return osb_box_new(osb_of(p), ref);
}

static void osb_release(struct box *b)
{
    struct osb_box *own = osb_box_of(b);

    (void)pthread_mutex_destroy(&own->lock);
    free(own->ref);
    free(own);
}

/* The platform calls it an error when it is so already. */
static int change_state(struct box *box, const struct ctx *ctx, bool is_pause, struct err *e)
{
    struct osb_box *b = osb_box_of(box);
    struct osb_provider *p = osb_of(box->provider);
    struct osb_sandbox s;
    struct str id;

    if (osb_know(b, ctx, &id, e) < 0 || osb_get(p, ctx, id, &s, e) < 0) {
        return -1;
    }
    if ((osb_state(s.state) == BOX_PAUSED) == is_pause) {
        return 0;
    }
    osb_forget_way(b);
    return is_pause ? osb_pause(p, ctx, id, e) : osb_resume(p, ctx, id, e);
}

static int pause_box(struct box *b, const struct ctx *ctx, struct err *e)
{
    return change_state(b, ctx, true, e);
}

static int resume_box(struct box *b, const struct ctx *ctx, struct err *e)
{
    return change_state(b, ctx, false, e);
}

static const struct factory_ops factory = {
    .takes_more = true,
    .create = osb_make,
    .destroy = osb_destroy,
    .extend = osb_extend,
    .sweep = osb_sweep,
    .pause = pause_box,
    .resume = resume_box,
};

const struct provider_ops opensandbox_ops = {
    .type = "opensandbox",
    .open = osb_open,
    .close = osb_close,
    .list = osb_list,
    .attach = osb_attach,
    .info = osb_info,
    .release = osb_release,
    .exec = osb_exec,
    .input_first = true,
    .doctor = osb_doctor,
    .factory = &factory,
    .files = &files_over_shell,
    .meter = &meter_over_shell,
    .trees = &trees_over_shell,
    .ports = &osb_ports,
    .shell = &osb_shell,
};
