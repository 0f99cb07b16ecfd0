/*
 * anybox transfer-worker: does one sync, with nobody waiting for it.
 *
 * A server that starts us says by --config-fd where it tells environment and configuration. They are
 * read first of all, before there is any thread, because they become our environment.
 */
#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "cli.h"
#include "core/transfer.h"
#include "core/worker.h"

static int run(const struct cli *cli, struct config *config, int64_t id)
{
    struct cli_signals signals = {0};
    struct services services = {0};
    int status = EXIT_SUCCESS;
    struct err e;
    int rc;

    if (cli_signals_init(&signals, &e) < 0) {
        return cli_fail(cli, EXIT_FAILURE, "%s", e.msg);
    }
    rc = config != NULL ? services_init_with(&services, config, &e)
                        : services_init(&services, &cli->flags, &e);
    if (rc == 0) {
        rc = transfer_work(&services, &signals.cancel, id, config == NULL, &e);
    }
    if (rc < 0) {
        status = cli_fail(cli, e.kind == ERR_NOT_FOUND ? EXIT_USAGE : EXIT_FAILURE, "%s", e.msg);
    }
    services_fini(&services);
    cli_signals_fini(&signals);
    return status;
}

/* Started by a server. */
static int run_told(const struct cli *cli, int fd, int64_t id)
{
    struct config config;
    struct err e;
    int status;

    (void)prctl(PR_SET_NAME, PROGRAM); /* we were started as /proc/self/exe */
    int rc = worker_receive(fd, &config, &e);
    (void)close(fd);
    status = rc < 0 ? cli_fail(cli, EXIT_FAILURE, "%s", e.msg) : run(cli, &config, id);
    config_fini(&config);
    return status;
}

int cmd_transfer_worker(struct cli *cli, int argc, char **argv)
{
    int64_t id = 0, fd = 0;
    int status = EXIT_SUCCESS;
    const struct opt opts[] = {
        {"--task-id", OPT_INTEGER, &id},
        {"--config-fd", OPT_INTEGER, &fd},
    };

    int at = cli_options(cli, opts, COUNTOF(opts), argc, argv, &status);
    if (at < 0) {
        return status;
    }
    if (at < argc || id == 0) {
        return cli_misused(cli, "it takes --task-id and a number, as check_file_transfer_task "
                                "tells it");
    }
    if (fd > 0 && fcntl((int)fd, F_GETFD) < 0) {
        return cli_fail(cli, EXIT_USAGE, "descriptor %lld of --config-fd is not open",
                        (long long)fd);
    }
    return fd > 0 ? run_told(cli, (int)fd, id) : run(cli, NULL, id);
}
