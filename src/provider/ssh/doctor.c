/*
 * doctor.c - whether each host lets us in, and whether its agent runs.
 *
 * All hosts are tried side by side, each by a thread with memory of its own and within the
 * time that one connection may take; then one line each is told, in order.
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/thread.h"
#include "provider/ssh/hostagent.h"
#include "provider/ssh/own.h"
#include "provider/ssh/ssh_config.h"

#define TRY_MS     20000
#define TRY_MEMORY (4u << 20)

#define AGENT_MS     8000 /* for an agent that is on its way */
#define AGENT_GAP_MS 20

struct visit {
    struct provider *provider;
    struct machine *machine;
    const struct ctx *ctx;
    struct arena arena;
    struct box_info info;
    bool is_in;
    struct err e;
    pthread_t thread;
    bool has_thread;
};

static void await_agent(struct machine *m, const struct ctx *ctx)
{
    int64_t until_ms = clock_mono_ms() + AGENT_MS;
    struct err why = {0}, ignored = {0};
    struct chan *relay = hostagent_take(m); /* starts it */

    if (relay != NULL) {
        chan_unref(relay);
    }
    while (hostagent_state(m, &why) == HOSTAGENT_TRYING && clock_mono_ms() < until_ms &&
           ctx_wait(ctx, NULL, 0, clock_mono_ms() + AGENT_GAP_MS, &ignored) >= 0) {
    }
}

static void *visit_host(void *arg)
{
    struct visit *v = arg;
    struct ctx own = *v->ctx;
    int64_t until_ms = clock_mono_ms() + TRY_MS;
    struct box *b CLEANUP(box_unref_p) = NULL;

    arena_init(&v->arena, TRY_MEMORY);
    own.arena = &v->arena;
    if (own.deadline_ms == 0 || own.deadline_ms > until_ms) {
        own.deadline_ms = until_ms;
    }
    b = provider_attach(v->provider, &own, v->machine->name, &v->e);
    v->is_in = b != NULL && box_info(b, &own, &v->info, &v->e) == 0;
    if (v->is_in) { /* again, once it is known whether there is an agent */
        await_agent(v->machine, &own);
        v->is_in = box_info(b, &own, &v->info, &v->e) == 0;
    }
    return NULL;
}

static int tell(struct visit *v, check_fn *each, void *arg, struct err *e)
{
    struct check line = {
        .state = v->is_in ? CHECK_OK : CHECK_WARN,
        .what = v->machine->name,
        .found = str_from(v->e.msg),
    };

    if (v->is_in) {
        line.found = arena_printf(&v->arena, "%.*s@%.*s:%d lets us in, its key is known; %.*s",
                                  STR_ARG(v->info.user), STR_ARG(v->info.host), v->info.port,
                                  STR_ARG(v->info.tier));
    }
    return each(arg, &line, e);
}

int ssh_doctor(struct provider *p, const struct ctx *ctx, check_fn *each, void *arg, struct err *e)
{
    struct ssh_provider *sp = CONTAINER_OF(p, struct ssh_provider, provider);
    struct visit *visits = xcalloc(sp->n_boxes + 1, sizeof(*visits));
    struct err ignored;
    int rc = ssh_config_doctor(ctx, each, arg, e);

    for (size_t i = 0; i < sp->n_boxes; i++) {
        struct visit *v = &visits[i];

        *v = (struct visit){.provider = p, .machine = sp->machines[i], .ctx = ctx};
        v->has_thread = thread_start(&v->thread, "doctor", visit_host, v, &ignored) == 0;
        if (!v->has_thread) {
            (void)visit_host(v);
        }
    }
    for (size_t i = 0; i < sp->n_boxes; i++) {
        if (visits[i].has_thread) {
            (void)pthread_join(visits[i].thread, NULL);
        }
        if (rc == 0) {
            rc = tell(&visits[i], each, arg, e);
        }
        arena_fini(&visits[i].arena);
    }
    free(visits);
    return rc;
}
