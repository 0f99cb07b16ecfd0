/* anybox forward-worker: a port that outlives the server that asked for it (core/lasting.h). */
#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "cli.h"
#include "core/lasting.h"
#include "core/worker.h"

static int run(const struct cli *cli, struct config *config, const struct lasting *what)
{
    struct cli_signals signals = {0};
    struct services services = {0};
    int status = EXIT_SUCCESS;
    struct err e;

    if (cli_signals_init(&signals, &e) < 0) {
        return cli_fail(cli, EXIT_FAILURE, "%s", e.msg);
    }
    if (services_init_with(&services, config, &e) < 0 ||
        lasting_work(&services, &signals.cancel, what, STDOUT_FILENO, &e) < 0) {
        status = e.kind == ERR_CANCELLED ? EXIT_SUCCESS : cli_fail(cli, EXIT_FAILURE, "%s", e.msg);
    }
    services_fini(&services);
    cli_signals_fini(&signals);
    return status;
}

int cmd_forward_worker(struct cli *cli, int argc, char **argv)
{
    struct lasting what = {0};
    struct config config;
    int64_t port = 0, fd = 0;
    int status = EXIT_SUCCESS;
    const struct opt opts[] = {
        {"--owner", OPT_TEXT, &what.owner},
        {"--box", OPT_TEXT, &what.box_id},
        {"--port", OPT_INTEGER, &port},
        {"--config-fd", OPT_INTEGER, &fd},
    };
    struct err e;

    int at = cli_options(cli, opts, COUNTOF(opts), argc, argv, &status);
    if (at < 0) {
        return status;
    }
    if (at < argc || port < 1 || port > UINT16_MAX || what.box_id.len == 0 || fd <= 2 ||
        fcntl((int)fd, F_GETFD) < 0) {
        return cli_misused(cli, "it is started by deploy_app; `anybox forward` is for people");
    }
    what.port = (uint16_t)port;
    (void)prctl(PR_SET_NAME, PROGRAM); /* we were started as /proc/self/exe */
    int rc = worker_receive((int)fd, &config, &e);
    (void)close((int)fd);
    status = rc < 0 ? cli_fail(cli, EXIT_FAILURE, "%s", e.msg) : run(cli, &config, &what);
    config_fini(&config);
    return status;
}
