/* uninstall_watchdog.c - the service goes; watches stay, and a watchdog may still run. */
#include "tools/rows.h"
#include "tools/watch_answer.h"
#include "watch/service.h"

static int run(struct call *c, const void *given, json_t **out, struct err *e)
{
    struct service_state service;
    json_t *removal, *state;
    bool removed;

    (void)given;
    if (c->transport != NULL && str_eq(str_from(c->transport), S("http"))) {
        return err_set(e, ERR_DENIED,
                       "a service of the server's user is removed by that user: on its machine, "
                       "with `anybox watchdog uninstall`");
    }
    if (service_remove(c->ctx, &service, &removed, e) < 0) {
        return -1;
    }
    state = watchdog_answer(c, e);
    if (state == NULL) {
        return -1;
    }
    removal = json_object();
    answer_str(removal, "label", S(SERVICE_LABEL));
    answer_str(removal, "file", service.file);
    (void)json_object_set_new(removal, "removed", json_boolean(removed));
    *out = json_pack("{s:o, s:o}", "removal", removal, "status", state);
    return 0;
}

const struct tool tool_uninstall_watchdog = {
    .name = "uninstall_watchdog",
    .title = "Remove the watchdog service",
    .help =
        "Remove the service. Watches stay; the watchdog starts again by itself with the next one.",
    .args_size = 0,
    .toolsets = TOOLSET_ADVANCED | TOOLSET_ALL,
    .hints = HINT_IDEMPOTENT,
    .run = run,
};

const struct tool tool_uninstall_macos_watchdog = {
    .name = "uninstall_macos_watchdog",
    .title = "Remove the watchdog service",
    .help = "uninstall_watchdog under remote-sandbox-mcp's name.",
    .args_size = 0,
    .toolsets = TOOLSET_ALL,
    .hints = HINT_IDEMPOTENT,
    .run = run,
};
