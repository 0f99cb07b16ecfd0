/* install_watchdog.c - the watchdog as a service of the user, under its own name and under
 * remote-sandbox-mcp's. */
#include "tools/rows.h"
#include "tools/task_answer.h"
#include "tools/watch_answer.h"
#include "watch/hosts.h"
#include "watch/service.h"

struct args {
    bool start_now, persist;
};

/* Every host that only our environment names. */
static int persist(struct call *c, json_t **out, struct err *e)
{
    const struct config *config = c->services->config;
    int kept = 0;

    for (size_t i = 0; i < config->n_hosts; i++) {
        if (!watch_hosts_needed(config, config->hosts[i].name)) {
            continue;
        }
        if (watch_hosts_keep(config, config->hosts[i].name, e) < 0) {
            return -1;
        }
        kept++;
    }
    struct str folder = arena_printf(c->ctx->arena, "%.*s/watch_hosts", STR_ARG(config->state_dir));
    *out = json_pack("{s:o, s:i}", "config_path", js_string(folder), "sandbox_count", kept);
    return 0;
}

static json_t *installed(struct call *c, const struct service_state *s)
{
    json_t *o = json_object();

    (void)c;
    answer_str(o, "manager", str_from(s->manager));
    answer_str(o, "label", S(SERVICE_LABEL));
    answer_str(o, "file", s->file);
    (void)json_object_set_new(o, "started", json_boolean(s->running));
    return o;
}

static int run(struct call *c, const void *given, json_t **out, struct err *e)
{
    const struct args *a = given;
    struct service_state service;
    struct service_spec spec;
    json_t *kept own_json = NULL;
    json_t *state;

    if (c->transport != NULL && str_eq(str_from(c->transport), S("http"))) {
        return err_set(e, ERR_DENIED,
                       "a service of the server's user is installed by that user: on its machine, "
                       "with `anybox watchdog install`");
    }
    if ((a->persist && persist(c, &kept, e) < 0) ||
        service_spec_of(c->services->config, c->ctx->arena, &spec, e) < 0 ||
        service_install(c->ctx, &spec, a->start_now, &service, e) < 0) {
        return -1;
    }
    state = watchdog_answer(c, e);
    if (state == NULL) {
        return -1;
    }
    *out = json_pack("{s:o, s:o}", "install", installed(c, &service), "status", state);
    (void)json_object_set_new(*out, "persisted_sandboxes",
                              kept != NULL ? json_incref(kept) : json_null());
    return 0;
}

static const struct param params[] = {
    {
        .name = "start_now",
        .type = PARAM_BOOLEAN,
        .offset = offsetof(struct args, start_now),
        .fallback = true,
        .help = "and start it",
    },
    {
        .name = "persist_current_sandboxes",
        .type = PARAM_BOOLEAN,
        .offset = offsetof(struct args, persist),
        .fallback = true,
        .help = "keep hosts of the environment for it, 0600",
    },
};

const struct tool tool_install_watchdog = {
    .name = "install_watchdog",
    .title = "Install the watchdog",
    .help =
        "Install the watchdog as a service of this user (systemd, launchd), so that it survives a restart of the machine. Without that it runs as a process that starts with the first watch.",
    .params = params,
    .n_params = COUNTOF(params),
    .args_size = sizeof(struct args),
    .toolsets = TOOLSET_ADVANCED | TOOLSET_ALL,
    .hints = HINT_IDEMPOTENT,
    .run = run,
};

const struct tool tool_install_macos_watchdog = {
    .name = "install_macos_watchdog",
    .title = "Install the watchdog",
    .help = "install_watchdog under remote-sandbox-mcp's name.",
    .params = params,
    .n_params = COUNTOF(params),
    .args_size = sizeof(struct args),
    .toolsets = TOOLSET_ALL,
    .hints = HINT_IDEMPOTENT,
    .run = run,
};
