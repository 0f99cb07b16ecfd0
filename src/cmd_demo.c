/*
 * anybox demo: a real MCP session, played and checked step by step.
 *
 * The server is this executable, started as a client would start it, with a state
 * folder of its own that is removed at the end. Every wait has a deadline, and the one
 * box that is made has a lifetime, so nothing is left even when this process is killed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/id.h"
#include "cli.h"
#include "demo.h"

#define TEXT_MAX    (1u << 20)
#define TITLE_WIDTH 64

/* ---- the tour ----------------------------------------------------------- */

static int show_step(struct tour *t, const struct cli *cli, size_t i, int64_t ms,
                     const struct err *e)
{
    struct buf text own_buf = {0};

    buf_init(&text, TEXT_MAX);
    buf_addf(&text, "%s%2zu  ", t->colour ? "\033[1m" : "", i + 1);
    cli_cell(&text, str_from(demo_steps[i].title), TITLE_WIDTH);
    buf_addf(&text, "%s %6lld ms\n", t->colour ? "\033[0m" : "", (long long)ms);
    buf_addf(&text, "%s", t->colour ? "\033[2m" : "");
    buf_add(&text, buf_str(&t->details));
    buf_addf(&text, "%s", t->colour ? "\033[0m" : "");
    if (e) {
        buf_addf(&text, "    %sNOT AS EXPECTED%s: ", t->colour ? "\033[31m" : "",
                 t->colour ? "\033[0m" : "");
        cli_plain(&text, str_from(e->msg));
        buf_addc(&text, '\n');
    }
    return cli_print(cli, &text);
}

/* Returns how many steps went wrong; *status is that of writing about them. */
static int play(struct tour *t, const struct cli *cli, struct str *which, int *status)
{
    int failed = 0;

    for (size_t i = 0; i < demo_n_steps; i++) {
        struct err e;
        int64_t started = clock_mono_ms();
        buf_clear(&t->details);
        bool ok = (i > 0 || demo_client_start(&t->client, t->home, &e) == 0) &&
                  demo_steps[i].play(t, &e) == 0;
        *status = show_step(t, cli, i, clock_mono_ms() - started, ok ? NULL : &e);
        if (*status != EXIT_SUCCESS) {
            break;
        }
        if (ok) {
            continue;
        }
        failed++;
        *which =
            arena_printf(&t->arena, "%.*s%s%zu", STR_ARG(*which), which->len ? ", " : "", i + 1);
        /* Without a server or a box the rest would only repeat the same complaint. */
        if (i < DEMO_NEEDED || atomic_load(&t->signals.signo) != 0) {
            break;
        }
    }
    return failed;
}

static int make_home(struct tour *t, struct err *e)
{
    const char *tmp = getenv("TMPDIR");
    char id[17];

    id_hex(id, 8);
    struct str path =
        arena_printf(&t->arena, "%s/anybox-demo-%s", tmp && tmp[0] ? tmp : "/tmp", id);
    if (mkdir(path.p, 0700) < 0) {
        return err_sys(e, errno, "make the temporary folder %s", path.p);
    }
    t->home = path;
    return 0;
}

static void clean_up(struct tour *t)
{
    struct err ignored;

    demo_client_stop(&t->client);
    if (t->home.len > 0 && !t->cleared) {
        demo_client_clear(t->home);
    }
    if (t->home.len > 0) {
        (void)(fd_remove_tree(AT_FDCWD, t->home.p, &ignored) < 0);
    }
    cli_signals_fini(&t->signals);
    buf_fini(&t->details);
    arena_fini(&t->arena);
}

static int give_tour(struct tour *t, const struct cli *cli)
{
    struct buf text own_buf = {0};
    struct str which = STR_EMPTY;
    struct err e;

    if (make_home(t, &e) < 0) {
        return cli_fail(cli, EXIT_FAILURE, "%s", e.msg);
    }
    buf_init(&text, TEXT_MAX);
    buf_add(&text,
            S("\nanybox " ANYBOX_VERSION
              ": a tour over MCP, with sandboxes that this machine's own kernel gives.\n\n"));
    int status = cli_print(cli, &text);
    if (status != EXIT_SUCCESS) {
        return status;
    }
    int64_t started = clock_mono_ms();
    int failed = play(t, cli, &which, &status);
    int signo = atomic_load(&t->signals.signo);
    if (signo != 0) {
        return EXIT_SIGNAL + signo;
    }
    if (status != EXIT_SUCCESS) {
        return status;
    }
    if (failed > 0) {
        return cli_fail(cli, EXIT_FAILURE,
                        "step %.*s did not go as expected; " PROGRAM " doctor may tell why",
                        STR_ARG(which));
    }
    buf_clear(&text);
    buf_addf(&text, "\nAll %zu steps went as expected, in %.1f s.\n\n", demo_n_steps,
             (double)(clock_mono_ms() - started) / 1000);
    demo_clients(&text, cli_self(&t->arena));
    return cli_print(cli, &text);
}

int cmd_demo(struct cli *cli, int argc, char **argv)
{
    struct tour tour = {.colour = cli_colour()};
    int status = EXIT_SUCCESS;
    struct err e;

    int at = cli_options(cli, NULL, 0, argc, argv, &status);
    if (at < 0) {
        return status;
    }
    if (at < argc) {
        return cli_misused(cli, "it takes no arguments, but got '%s'", argv[at]);
    }
    if (cli_signals_init(&tour.signals, &e) < 0) {
        return cli_fail(cli, EXIT_FAILURE, "%s", e.msg);
    }
    arena_init(&tour.arena, 16 * (size_t)TEXT_MAX);
    buf_init(&tour.details, TEXT_MAX);
    tour.client.cancel = &tour.signals.cancel;
    status = give_tour(&tour, cli);
    clean_up(&tour);
    return status;
}
