/* anybox watchdog: the process that looks after long jobs, and what people ask of it. */
#include <inttypes.h>

#include "base/clock.h"
#include "base/path.h"
#include "base/proc.h"
#include "cli.h"
#include "store/watches.h"
#include "watch/daemon.h"
#include "watch/service.h"
#include "watch/state.h"

static int run(struct cli *cli, const struct watchdog_flags *how)
{
    struct cli_signals signals = {0};
    struct err e = {0};
    int rc;

    if (cli_signals_init(&signals, &e) < 0) {
        return cli_fail(cli, EXIT_FAILURE, "%s", e.msg);
    }
    rc = watchdog_run(&cli->flags, how, &signals.cancel, &e);
    cli_signals_fini(&signals);
    return rc < 0 ? cli_fail(cli, EXIT_FAILURE, "%s", e.msg) : EXIT_SUCCESS;
}

static int start(struct cli *cli, struct session *s, struct err *e)
{
    bool started;
    struct watchdog_state state;
    struct buf text own_buf = {0};

    buf_init(&text, 1u << 16);
    if (watchdog_spawn(&s->services, &s->ctx, &started, e) < 0 ||
        watchdog_look(&s->services, &s->arena, &state, e) < 0) {
        return cli_fail(cli, EXIT_FAILURE, "%s", e->msg);
    }
    buf_addf(&text, "the watchdog %s (pid %" PRId64 ")\n", started ? "was started" : "runs already",
             state.pid);
    return cli_print(cli, &text);
}

static int status(struct cli *cli, struct session *s, struct err *e)
{
    struct watchdog_state state;
    struct service_state service;
    int64_t counts[WATCH_STATUSES];
    struct buf text own_buf = {0};

    buf_init(&text, 1u << 16);
    if (watchdog_look(&s->services, &s->arena, &state, e) < 0 ||
        service_look(&s->ctx, &service, e) < 0 ||
        store_count_watches(s->services.store, NULL, counts, e) < 0) {
        return cli_fail(cli, EXIT_FAILURE, "%s", e->msg);
    }
    if (state.running) {
        buf_addf(&text, "running, pid %" PRId64 ", heartbeat %" PRId64 " s ago\n", state.pid,
                 clock_wall_ms() / 1000 - state.heartbeat_s);
    } else {
        buf_add(&text, S("not running: it starts by itself with the first watch, or by "
                         "`anybox watchdog start`\n"));
    }
    buf_addf(&text, "service   %s, %s%s\n", service.manager,
             service.installed ? "installed" : "not installed (anybox watchdog install)",
             service.running ? ", running" : "");
    for (unsigned i = 0; i < WATCH_STATUSES; i++) {
        if (counts[i] > 0 || i == WATCH_ACTIVE) {
            buf_addf(&text, "%-9s %" PRId64 "\n", watch_status_name((enum watch_status)i),
                     counts[i]);
        }
    }
    return cli_print(cli, &text);
}

static int install(struct cli *cli, struct session *s, struct err *e)
{
    struct service_state state;
    struct service_spec spec;
    struct buf text own_buf = {0};

    if (service_spec_of(s->services.config, &s->arena, &spec, e) < 0 ||
        service_install(&s->ctx, &spec, true, &state, e) < 0) {
        return cli_fail(cli, EXIT_FAILURE, "%s", e->msg);
    }
    buf_init(&text, 1u << 16);
    buf_addf(&text, "%.*s is installed%s\n", STR_ARG(state.file), state.running ? " and runs" : "");
    return cli_print(cli, &text);
}

static int uninstall(struct cli *cli, struct session *s, struct err *e)
{
    struct service_state state;
    bool removed;
    struct buf text own_buf = {0};

    if (service_remove(&s->ctx, &state, &removed, e) < 0) {
        return cli_fail(cli, EXIT_FAILURE, "%s", e->msg);
    }
    buf_init(&text, 1u << 16);
    buf_addf(&text, "%.*s %s\n", STR_ARG(state.file), removed ? "is removed" : "was not there");
    return cli_print(cli, &text);
}

/* For those whose manager we cannot ask, or who keep such files elsewhere. */
static int print_text(struct cli *cli, struct session *s,
                      int (*make)(const struct service_spec *, struct buf *, struct err *),
                      struct err *e)
{
    struct service_spec spec;
    struct buf text own_buf = {0};

    buf_init(&text, 1u << 16);
    if (service_spec_of(s->services.config, &s->arena, &spec, e) < 0 || make(&spec, &text, e) < 0) {
        return cli_fail(cli, EXIT_FAILURE, "%s", e->msg);
    }
    return cli_print(cli, &text);
}

static int unit(struct cli *cli, struct session *s, struct err *e)
{
    return print_text(cli, s, service_unit_text, e);
}

static int plist(struct cli *cli, struct session *s, struct err *e)
{
    return print_text(cli, s, service_plist_text, e);
}

static int with_session(struct cli *cli, int (*fn)(struct cli *, struct session *, struct err *))
{
    struct session s own_session = {0};
    struct err e = {0};

    if (session_open(&s, cli, STR_EMPTY, &e) < 0) {
        return cli_fail(cli, EXIT_FAILURE, "%s", e.msg);
    }
    return fn(cli, &s, &e);
}

static const struct {
    struct str word;
    int (*fn)(struct cli *, struct session *, struct err *);
} words[] = {
    {{"start", 5}, start},         {{"status", 6}, status}, {{"install", 7}, install},
    {{"uninstall", 9}, uninstall}, {{"unit", 4}, unit},     {{"plist", 5}, plist},
};

int cmd_watchdog(struct cli *cli, int argc, char **argv)
{
    struct watchdog_flags how = {0};
    int exit_status = EXIT_SUCCESS;
    int64_t sleep_ms = 0;
    const struct opt opts[] = {
        {"--exit-when-idle", OPT_FLAG, &how.ends_when_idle},
        {"--loop-sleep", OPT_SECONDS, &sleep_ms},
    };
    struct str word = argc > 1 ? str_from(argv[1]) : STR_EMPTY;

    if (word.len == 0 || word.p[0] == '-') {
        int at = cli_options(cli, opts, COUNTOF(opts), argc, argv, &exit_status);

        return at < 0 ? exit_status
                      : cli_misused(
                            cli, "say what: run, start, status, install, uninstall, unit or plist");
    }
    int at = cli_options(cli, opts, COUNTOF(opts), argc - 1, argv + 1, &exit_status);
    if (at < 0) {
        return exit_status;
    }
    how.sleep_s = (sleep_ms + 999) / 1000;
    if (at < argc - 1) {
        return cli_misused(cli, "\"%s\" is one word too many", argv[1 + at]);
    }
    if (str_eq(word, S("run"))) {
        return run(cli, &how);
    }
    for (size_t i = 0; i < COUNTOF(words); i++) {
        if (str_eq(word, words[i].word)) {
            return with_session(cli, words[i].fn);
        }
    }
    return cli_misused(cli, "\"%s\" is not run, start, status, install, uninstall, unit or plist",
                       argv[1]);
}
