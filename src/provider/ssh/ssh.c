#include "provider/ssh/ssh.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/thread.h"
#include "provider/ssh/hostagent.h"
#include "provider/ssh/jump.h"
#include "provider/ssh/lanes.h"
#include "provider/ssh/own.h"
#include "provider/ssh/pump.h"
#include "provider/ssh/sftp.h"

#define HELLO_MS 5000 /* for a word of a host that is connected */

/* ---- jump hosts ------------------------------------------------------------------------ */

static struct ssh_provider *provider_of(struct provider *p)
{
    return CONTAINER_OF(p, struct ssh_provider, provider);
}

static struct machine *find(const struct ssh_provider *sp, struct str name)
{
    for (size_t i = 0; i < sp->n_boxes; i++) {
        if (str_eq(sp->machines[i]->name, name)) {
            return sp->machines[i];
        }
    }
    return NULL;
}

static struct machine *add_machine(struct ssh_provider *sp, const struct ssh_host *conf)
{
    struct machine *m = xcalloc(1, sizeof(*m));

    machine_init(m, conf);
    m->program_dir = sp->program_dir;
    m->is_once = sp->is_once;
    sp->machines = xrealloc(sp->machines, sp->n_machines + 1, sizeof(struct machine *));
    sp->machines[sp->n_machines++] = m;
    return m;
}

/* A hop of our own configuration has the credentials of the host behind it. */
static struct ssh_host conf_of_hop(const struct ssh_host *target, struct str hop)
{
    struct ssh_host place = jump_conf(target, hop);
    struct ssh_host conf = *target;

    conf.name = conf.host_key_alias = conf.proxy_jump = conf.proxy_command = STR_EMPTY;
    conf.user = place.user.len > 0 ? place.user : target->user;
    conf.host = place.host;
    conf.port = place.port;
    return conf;
}

/* A hop that is a configured host, reached through others than that one is. */
static struct ssh_host conf_of_known(const struct machine *known)
{
    struct ssh_host conf = known->conf;

    conf.name = STR_EMPTY;
    conf.proxy_jump = STR_EMPTY;
    return conf;
}

/* The last of the hops is next to the host; those before it lead to that one. */
static void add_jumps(struct ssh_provider *sp, struct machine *m)
{
    struct machine *at = m;
    struct str hops = m->conf.proxy_jump;

    for (int depth = 0; hops.len > 0 && depth < JUMPS_MAX; depth++) {
        struct str hop = jump_cut(&hops);
        struct machine *known = find(sp, hop);

        if (known != NULL && hops.len == 0) {
            at->jump = known;
            return;
        }
        struct ssh_host conf = known != NULL ? conf_of_known(known) : conf_of_hop(&m->conf, hop);
        at->jump = add_machine(sp, &conf);
        at = at->jump;
    }
}

static void refuse_circles(struct machine *m)
{
    int depth = 0;

    for (struct machine *at = m->jump; at != NULL; at = at->jump) {
        if (++depth > JUMPS_MAX) {
            m->conf.problem = S("its jump hosts lead in a circle, or there are more than 8");
            return;
        }
    }
}

/* ---- the provider ---------------------------------------------------------------------- */

static struct provider *ssh_open(const struct provider_conf *conf, struct err *e)
{
    struct ssh_provider *sp = xcalloc(1, sizeof(*sp));

    (void)e;
    sp->name = xmemdup(conf->name.p ? conf->name.p : "", conf->name.len);
    sp->is_once = conf->once;
    sp->program_dir =
        xmemdup(conf->program_dir.p ? conf->program_dir.p : "", conf->program_dir.len);
    sp->provider.ops = &ssh_ops;
    sp->provider.name = str_from(sp->name);
    for (size_t i = 0; conf->ssh != NULL && i < conf->ssh->n; i++) {
        (void)add_machine(sp, &conf->ssh->items[i]);
    }
    sp->n_boxes = sp->n_machines;
    for (size_t i = 0; i < sp->n_boxes; i++) {
        add_jumps(sp, sp->machines[i]);
    }
    for (size_t i = 0; i < sp->n_boxes; i++) {
        refuse_circles(sp->machines[i]);
    }
    return &sp->provider;
}

static void ssh_close(struct provider *p)
{
    if (p == NULL) {
        return;
    }
    struct ssh_provider *sp = provider_of(p);
    for (size_t i = 0; i < sp->n_machines; i++) {
        hostagent_stop(sp->machines[i]);
        machine_stop_lanes(sp->machines[i]);
    }
    for (size_t i = 0; i < sp->n_machines; i++) {
        hostagent_join(sp->machines[i]);
        machine_fini_lanes(sp->machines[i]);
        sftp_drop_idle(sp->machines[i]);
        pump_sweep(sp->machines[i], true);
        machine_stop(sp->machines[i]);
    }
    /* Those in front are reached through those behind them: their pumps end first. */
    for (size_t i = 0; i < sp->n_machines; i++) {
        machine_join(sp->machines[i]);
    }
    for (size_t i = 0; i < sp->n_machines; i++) {
        machine_fini(sp->machines[i]);
        free(sp->machines[i]);
    }
    free(sp->machines);
    free(sp->name);
    free(sp->program_dir);
    free(sp);
}

/* ---- boxes ----------------------------------------------------------------------------- */

/* Until the host has answered, for which it is connected to when it is not. */
int ssh_reach(struct machine *m, const struct ctx *ctx, struct err *e)
{
    struct chan *c CLEANUP(chan_close_p) = chan_open(m, CHAN_HELLO, STR_EMPTY, 0, e);
    int64_t until_ms = 0;

    if (c == NULL) {
        return -1;
    }
    for (;;) {
        struct chan_news news;

        chan_take(c, NULL, &news);
        if (news.state == CHAN_ENDED) {
            *e = news.why;
            return news.why.kind == ERR_NONE ? 0 : -1;
        }
        if (news.state == CHAN_OPENING && until_ms == 0) {
            until_ms = clock_mono_ms() + HELLO_MS;
        }
        if (until_ms != 0 && clock_mono_ms() >= until_ms) {
            return err_set(e, ERR_UNREACHABLE,
                           "the host is connected but has not answered for %d s", HELLO_MS / 1000);
        }
        if (chan_wait(c, ctx, NULL, until_ms, e) < 0) {
            return -1;
        }
    }
}

int ssh_facts(struct machine *m, const struct ctx *ctx, struct facts *out, struct err *e)
{
    for (;;) {
        lock(&m->lock);
        *out = m->facts;
        unlock(&m->lock);
        if (out->known) {
            return 0;
        }
        if (machine_learn(m, ctx, e) < 0) {
            return -1;
        }
    }
}

/* Which way calls take, why not the other, and what they do without. */
static void fill_way(struct machine *m, const struct ctx *ctx, struct box_info *out)
{
    struct err why = {0};
    bool is_up = hostagent_state(m, &why) == HOSTAGENT_UP;

    lock(&m->lock);
    bool has_no_bash = m->facts.known && !m->facts.has_bash;
    unlock(&m->lock);
    out->via = is_up ? S("agent") : S("channels");
    out->tier = arena_printf(ctx->arena, "ssh host, %s%s%s%s", is_up ? "agent" : "plain channels",
                             !is_up && why.kind != ERR_NONE ? "; no agent: " : "",
                             !is_up && why.kind != ERR_NONE ? why.msg : "",
                             has_no_bash ? "; no bash: commands run in sh" : "");
}

static void fill_info(struct machine *m, const struct ctx *ctx, struct box_info *out)
{
    LOCKED(&m->lock);

    *out = (struct box_info){
        .ref = arena_str(ctx->arena, m->name),
        .name = arena_str(ctx->arena, m->name),
        .state = BOX_UNKNOWN,
        .host = arena_str(ctx->arena, m->conf.host),
        .user = arena_str(ctx->arena, str_from(machine_user(m, ctx->arena))),
        .port = machine_port(m),
        .network = NETWORK_HOST,
    };
}

static int ssh_list(struct provider *p, const struct ctx *ctx, box_info_fn *each, void *arg,
                    struct err *e)
{
    struct ssh_provider *sp = provider_of(p);

    for (size_t i = 0; i < sp->n_boxes; i++) {
        struct box_info info;

        fill_info(sp->machines[i], ctx, &info);
        fill_way(sp->machines[i], ctx, &info);
        if (machine_is_alive(sp->machines[i])) {
            info.state = BOX_RUNNING;
        }
        if (each(arg, &info, e) < 0) {
            return -1;
        }
    }
    return 0;
}

static struct box *ssh_attach(struct provider *p, const struct ctx *ctx, struct str ref,
                              struct err *e)
{
    struct machine *m = find(provider_of(p), ref);

    (void)ctx;
    if (m == NULL) {
        (void)err_set(e, ERR_NOT_FOUND, "no SSH host named \"%.*s\" is configured",
                      STR_ARG(str_head(ref, 64)));
        return NULL;
    }
    struct ssh_box *sb = xcalloc(1, sizeof(*sb));
    sb->machine = m;
    sb->box.provider = p;
    sb->box.ref = m->name;
    atomic_init(&sb->box.refs, 1);
    return &sb->box;
}

/* Asks the host: it lives when it let us in, or is connected and answered lately. */
static int ssh_info(struct box *b, const struct ctx *ctx, struct box_info *out, struct err *e)
{
    struct machine *m = machine_of(b);
    struct facts facts;

    if (ssh_reach(m, ctx, e) < 0 || ssh_facts(m, ctx, &facts, e) < 0) {
        return -1;
    }
    fill_info(m, ctx, out);
    fill_way(m, ctx, out);
    hostagent_poke(m); /* who looks will probably use it */
    out->state = BOX_RUNNING;
    out->home = out->work_dir = arena_str(ctx->arena, facts.home);
    return 0;
}

static void ssh_release(struct box *b)
{
    free(CONTAINER_OF(b, struct ssh_box, box));
}

const struct provider_ops ssh_ops = {
    .type = "ssh",
    .open = ssh_open,
    .close = ssh_close,
    .list = ssh_list,
    .attach = ssh_attach,
    .info = ssh_info,
    .release = ssh_release,
    .exec = ssh_exec,
    .doctor = ssh_doctor,
    .tasks = &ssh_tasks,
    .files = &ssh_files,
    .trees = &ssh_trees,
    .meter = &ssh_meter,
    .ports = &ssh_ports,
};
