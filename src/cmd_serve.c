/* `anybox serve`: the HTTP server, and the ways in which the programs that we replace were
 * started. */
#include <stdio.h>

#include "base/log.h"
#include "base/own.h"
#include "base/thread.h"
#include "cli.h"
#include "serve/http/http.h"
#include "tools/tool.h"

#define HOST     "127.0.0.1"
#define PORT     8000
#define PORT_O   3000 /* of --mode http */
#define PORT_TOP 65535

#define PREPULL_MEMORY (64u << 20)

/* For people, on stderr: what to give to a client. The key is shown this one time; the last line
 * says that the port is open. */
static void say_ready(void *arg, struct str url, struct str key)
{
    (void)arg;
    if (key.len > 0) {
        (void)fprintf(stderr,
                      PROGRAM ": key %.*s\n" PROGRAM
                              ": send it as \"Authorization: Bearer KEY\"; it is shown only now, "
                              "and \"" PROGRAM " key\" makes others\n",
                      STR_ARG(key));
    }
    (void)fprintf(stderr, PROGRAM ": MCP server at %.*s, for people at %.*s/docs\n", STR_ARG(url),
                  STR_ARG(str_head(url, url.len - (sizeof("/mcp") - 1))));
}

static int serve(const struct cli *cli, const struct services *services, struct http_options *o)
{
    const struct config *config = services->config;
    struct err e;

    if (config->problem.len > 0) {
        return cli_fail(cli, EXIT_FAILURE, "%.*s", STR_ARG(config->problem));
    }
    if (toolset_parse(config->toolset, &o->toolsets, &e) < 0) {
        return cli_fail(cli, EXIT_FAILURE, "%s", e.msg);
    }
    if (o->host.len == 0) {
        o->host = config->server_host.len > 0 ? config->server_host : S(HOST);
    }
    o->no_auth = o->no_auth || config->require_auth == 0;
    o->ready = say_ready;
    if (http_serve(services, o, &e) < 0) {
        return cli_fail(cli, EXIT_FAILURE, "%s", e.msg);
    }
    return EXIT_SUCCESS;
}

/* ---- docker.prepull: a thread gets the default image while clients are served already ---- */

struct prepull {
    const struct services *services;
    struct cancel stop;
    pthread_t thread;
    bool is_running;
};

static int make_ready(void *arg, struct provider *p, struct err *e)
{
    struct prepull *job = arg;
    const struct image_ops *images = p->ops->images;
    struct arena arena own_arena = {0};
    const struct ctx ctx = {.arena = &arena, .cancel = &job->stop};
    char quoted[LOG_QUOTE_SIZE];

    arena_init(&arena, PREPULL_MEMORY);
    if (images != NULL && images->ready != NULL &&
        images->ready(p, &ctx, job->services->config->docker_image, e) < 0) {
        log_line(LOG_WARN, "docker", "failed=prepull error=%s",
                 log_quote(str_from(e->msg), quoted));
    }
    return 0;
}

static void *run_prepull(void *arg)
{
    struct prepull *job = arg;
    struct err ignored;

    (void)!boxes_each_provider(job->services->boxes, make_ready, job, &ignored);
    return NULL;
}

static void prepull_start(struct prepull *job, const struct services *services)
{
    struct err e;

    job->services = services;
    if (services->config->docker_prepull == 0 || cancel_init(&job->stop, &e) < 0) {
        return;
    }
    job->is_running = thread_start(&job->thread, "prepull", run_prepull, job, &e) == 0;
    if (!job->is_running) {
        cancel_fini(&job->stop);
    }
}

static void prepull_stop(struct prepull *job)
{
    if (!job->is_running) {
        return;
    }
    cancel_fire(&job->stop);
    (void)pthread_join(job->thread, NULL);
    cancel_fini(&job->stop);
}

static int start(const struct cli *cli, struct http_options *o, int64_t port, int64_t usual_port)
{
    struct services services = {0};
    struct prepull prepull = {0};
    struct err e;
    int status;

    if (services_init(&services, &cli->flags, &e) < 0) {
        return cli_fail(cli, EXIT_FAILURE, "%s", e.msg);
    }
    if (port < 0) {
        port = services.config->server_port != 0 ? services.config->server_port : usual_port;
    }
    o->port = (unsigned)port;
    prepull_start(&prepull, &services);
    status = serve(cli, &services, o);
    prepull_stop(&prepull);
    services_fini(&services);
    return status;
}

static int read_port(const struct cli *cli, struct str text, int64_t *out)
{
    struct err e;

    *out = -1;
    if (text.len > 0 && str_to_i64(text, 0, PORT_TOP, out, &e) < 0) {
        return cli_misused(cli,
                           "--port must be a number from 0 (any that is free) to %d, not '%.*s'",
                           PORT_TOP, STR_ARG(text));
    }
    return EXIT_SUCCESS;
}

int cmd_serve(struct cli *cli, int argc, char **argv)
{
    struct http_options o = {0};
    struct str port = STR_EMPTY;
    const struct opt opts[] = {
        {"--host", OPT_TEXT, &o.host},
        {"--port", OPT_TEXT, &port},
        {"--no-auth", OPT_FLAG, &o.no_auth},
    };
    int status = EXIT_SUCCESS;
    int64_t number;

    int at = cli_options(cli, opts, COUNTOF(opts), argc, argv, &status);
    if (at < 0) {
        return status;
    }
    if (at < argc) {
        return cli_misused(cli, "it takes options only, but got '%s'", argv[at]);
    }
    status = read_port(cli, port, &number);
    return status != EXIT_SUCCESS ? status : start(cli, &o, number, PORT);
}

int cmd_serve_mode(struct cli *cli, struct str port)
{
    struct http_options o = {0};
    int64_t number;
    int status = read_port(cli, port, &number);

    return status != EXIT_SUCCESS ? status : start(cli, &o, number, PORT_O);
}
