#include "base/log.h"
#include "cli.h"
#include "serve/stdio.h"
#include "tools/tool.h"

/* A wrong toolset must not stop the server: the client would only say "failed". */
static unsigned shown_tools(const struct config *config)
{
    unsigned toolsets = TOOLSET_DEFAULT;
    struct err e;

    if (toolset_parse(config->toolset, &toolsets, &e) < 0) {
        char quoted[LOG_QUOTE_SIZE];
        log_line(LOG_WARN, "config", "problem=%s", log_quote(str_from(e.msg), quoted));
        return TOOLSET_DEFAULT;
    }
    return toolsets;
}

int cmd_stdio(struct cli *cli, int argc, char **argv)
{
    struct services services = {0};
    struct err e;
    int status = EXIT_SUCCESS;

    int at = cli_options(cli, NULL, 0, argc, argv, &status);
    if (at < 0) {
        return status;
    }
    if (at < argc) {
        return cli_misused(cli, "it takes no arguments, but got '%s'", argv[at]);
    }
    if (services_init(&services, &cli->flags, &e) < 0 ||
        stdio_run(&services, shown_tools(services.config), &e) < 0) {
        status = cli_fail(cli, EXIT_FAILURE, "%s", e.msg);
    }
    services_fini(&services);
    return status;
}
