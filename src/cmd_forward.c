/* anybox forward: a port of this machine that leads to a port of a box. */
#include <pthread.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/thread.h"
#include "cli.h"
#include "core/forward.h"

#define SAY_AGAIN_MS 2000 /* the same problem: a browser tries again and again */

struct ports {
    int64_t local; /* -1: as in the box, or any */
    int64_t port;
};

/* What is told of connections that could not be made, from the threads that tried. */
struct teller {
    const struct cli *cli;
    pthread_mutex_t lock;
    struct err last;
    int64_t said_ms;
};

static void say_problem(void *arg, const struct err *why)
{
    struct teller *t = arg;
    int64_t now = clock_mono_ms();

    LOCKED(&t->lock);
    if (now - t->said_ms < SAY_AGAIN_MS && str_eq(str_from(t->last.msg), str_from(why->msg))) {
        return;
    }
    t->last = *why;
    t->said_ms = now;
    (void)cli_fail(t->cli, EXIT_FAILURE, "%s", why->msg);
}

static int read_ports(struct str typed, struct ports *out, struct err *e)
{
    struct str rest;
    struct str first = str_cut(typed, ':', &rest);

    out->local = -1;
    if (rest.p != NULL && str_to_i64(first, 0, UINT16_MAX, &out->local, e) < 0) {
        return err_wrap(e, "the port of this machine");
    }
    if (str_to_i64(rest.p != NULL ? rest : first, 1, UINT16_MAX, &out->port, e) < 0) {
        return err_wrap(e, "the sandbox's port");
    }
    return 0;
}

static struct forward *open_one(struct session *s, struct forward_req *req,
                                const struct ports *ports, struct err *e)
{
    struct forward *f;

    req->port = (uint16_t)ports->port;
    req->local = (uint16_t)(ports->local >= 0 ? ports->local : ports->port);
    f = forward_open(s->services.forwards, req, e);
    if (f == NULL && ports->local < 0 && (e->kind == ERR_EXISTS || e->kind == ERR_DENIED)) {
        req->local = 0;
        f = forward_open(s->services.forwards, req, e);
    }
    return f;
}

/* Returns the exit status. */
static int forward_until_end(struct cli *cli, struct session *s, struct forward *f, struct err *e)
{
    struct buf line own_buf = {0};

    buf_init(&line, 256);
    buf_addf(&line, "http://127.0.0.1:%u\n", forward_local(f));
    if (cli_print(cli, &line) != EXIT_SUCCESS) {
        return EXIT_FAILURE;
    }
    if (forward_wait(f, &s->ctx, e) < 0 && e->kind != ERR_CANCELLED) {
        return cli_fail(cli, EXIT_FAILURE, "%s", e->msg);
    }
    return EXIT_SUCCESS;
}

static int run(struct cli *cli, struct session *s, struct str wanted, const struct ports *ports)
{
    struct teller teller = {.cli = cli, .lock = PTHREAD_MUTEX_INITIALIZER};
    const struct box_want want = cli_want(wanted);
    struct forward_req req = {.problem = say_problem, .arg = &teller};
    struct forward *f;
    struct err e;
    int status;

    struct box *box CLEANUP(box_unref_p) =
        boxes_find(s->services.boxes, &s->ctx, &s->scope, &want, &req.id, &e);
    req.box = box;
    f = box != NULL ? open_one(s, &req, ports, &e) : NULL;
    if (f == NULL) {
        return cli_fail(cli, EXIT_FAILURE, "%s", e.msg);
    }
    status = forward_until_end(cli, s, f, &e);
    forward_close(f);
    return status;
}

int cmd_forward(struct cli *cli, int argc, char **argv)
{
    struct str owner = STR_EMPTY;
    const struct opt opts[] = {{"--owner", OPT_TEXT, &owner}};
    struct ports ports;
    int status = EXIT_SUCCESS;
    struct err e;

    int at = cli_options(cli, opts, COUNTOF(opts), argc, argv, &status);
    if (at < 0) {
        return status;
    }
    if (argc - at != 2) {
        return cli_misused(cli, "it takes a sandbox and a port of it: BOX [LOCAL:]PORT");
    }
    if (read_ports(str_from(argv[at + 1]), &ports, &e) < 0) {
        return cli_misused(cli, "%s", e.msg);
    }
    struct session session own_session = {0};
    if (session_open(&session, cli, cli_owner(owner), &e) < 0) {
        return cli_fail(cli, EXIT_FAILURE, "%s", e.msg);
    }
    return run(cli, &session, str_from(argv[at]), &ports);
}
