/* anybox logs and attach: background tasks, for people. */
#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "base/fd.h"
#include "cli.h"
#include "core/tasks.h"

#define FOLLOW_S   20 /* that one look waits for more */
#define ARGS_MAX   24
#define PIECES_MAX (8u << 20) /* of memory for one look */

/* A task's id is 16 hex digits; what looks otherwise is a name. */
static int query_of(struct arena *a, struct str typed, struct task_query *out, struct err *e)
{
    bool is_id = typed.len == TASK_RUN_SIZE - 1;

    *out = (struct task_query){0};
    for (size_t i = 0; i < typed.len; i++) {
        is_id = is_id && ((typed.p[i] >= '0' && typed.p[i] <= '9') ||
                          (typed.p[i] >= 'a' && typed.p[i] <= 'f'));
    }
    if (is_id) {
        out->id = typed;
        return 0;
    }
    return task_name(a, typed, &out->name, e);
}

/* One piece of the log to stdout. 1: there is more to come, 0: that was all. */
static int put_piece(struct session *s, const struct task_query *query, bool follow, int64_t *at,
                     struct err *e)
{
    struct arena a own_arena = {0};
    struct task_wait wait = {.seconds = follow ? FOLLOW_S : 0,
                             .until = follow ? S(".") : STR_EMPTY};
    struct task_view v;

    arena_init(&a, PIECES_MAX);
    struct ctx ctx = s->ctx;
    ctx.arena = &a;
    struct task_ctx t = {.services = &s->services, .ctx = &ctx, .scope = &s->scope};
    if (tasks_check(&t, query, *at, TASK_TEXT_MAX, &wait, &v, e) < 0) {
        return -1;
    }
    if (!v.asked) {
        return err_set(e, ERR_NOT_FOUND, "the log is gone: %.*s", STR_ARG(v.problem));
    }
    if (fd_write_all(STDOUT_FILENO, v.seen.text, e) < 0) {
        return -1;
    }
    *at = v.seen.last;
    return *at < v.seen.size || (follow && task_goes_on(v.seen.end.state)) ? 1 : 0;
}

static int put_log(struct cli *cli, struct session *s, const struct task_query *query, bool follow)
{
    struct err e = {0};
    int64_t at = 0;
    int more;

    do {
        more = put_piece(s, query, follow, &at, &e);
    } while (more > 0);
    if (more < 0 && e.kind != ERR_CANCELLED) {
        return cli_fail(cli, EXIT_FAILURE, "%s", e.msg);
    }
    return EXIT_SUCCESS;
}

/* ---- all of them ------------------------------------------------------------------------ */

static int add_row(void *arg, const struct task_view *v, struct err *e)
{
    struct buf *to = arg;
    const struct str cells[] = {v->row.id, v->row.name.len > 0 ? v->row.name : v->seen.name,
                                v->box_id, str_from(task_phase_name(v->seen.end.state))};
    static const size_t widths[COUNTOF(cells)] = {18, 20, 34, 0};

    (void)e;
    for (size_t i = 0; i < COUNTOF(cells); i++) {
        struct buf cell own_buf = {0};

        buf_init(&cell, 1024);
        cli_plain(&cell, cells[i].len > 0 ? cells[i] : S("-"));
        cli_cell(to, buf_str(&cell), widths[i]);
        buf_add(to, i + 1 < COUNTOF(cells) ? S(" ") : S("\n"));
    }
    return 0;
}

static int put_list(struct cli *cli, struct session *s)
{
    struct task_ctx t = {.services = &s->services, .ctx = &s->ctx, .scope = &s->scope};
    const struct box_want want = {0};
    struct buf rows own_buf = {0};
    struct buf text own_buf = {0};
    struct err e = {0};

    buf_init(&rows, PIECES_MAX);
    buf_init(&text, PIECES_MAX);
    if (tasks_each(&t, &want, add_row, &rows, &e) < 0) {
        return cli_fail(cli, EXIT_FAILURE, "%s", e.msg);
    }
    if (rows.len == 0) {
        buf_add(&text, S("no tasks\n"));
    } else {
        buf_addf(&text, "%-18s %-20s %-34s %s\n", "TASK", "NAME", "SANDBOX", "STATUS");
        buf_add(&text, buf_str(&rows));
    }
    return cli_print(cli, &text);
}

int cmd_logs(struct cli *cli, int argc, char **argv)
{
    bool follow = false;
    struct str owner = STR_EMPTY;
    const struct opt opts[] = {
        {"-f", OPT_FLAG, &follow}, {"--follow", OPT_FLAG, &follow}, {"--owner", OPT_TEXT, &owner}};
    int status = EXIT_SUCCESS;
    struct task_query query;
    struct err e;

    int at = cli_options(cli, opts, COUNTOF(opts), argc, argv, &status);
    if (at < 0) {
        return status;
    }
    if (argc - at > 1) {
        return cli_misused(cli, "one task at a time; without any all are listed");
    }
    struct session session own_session = {0};
    if (session_open(&session, cli, owner, &e) < 0) {
        return cli_fail(cli, EXIT_FAILURE, "%s", e.msg);
    }
    if (argc == at) {
        return put_list(cli, &session);
    }
    if (query_of(&session.arena, str_from(argv[at]), &query, &e) < 0) {
        return cli_fail(cli, EXIT_FAILURE, "%s", e.msg);
    }
    return put_log(cli, &session, &query, follow);
}

/* ---- attach ----------------------------------------------------------------------------- */

static const struct config_host *host_of(const struct session *s, struct str box_id)
{
    const struct config *config = s->services.config;
    struct str name;

    (void)str_cut(box_id, ':', &name);
    for (size_t i = 0; i < config->n_hosts; i++) {
        if (str_eq(config->hosts[i].name, name)) {
            return &config->hosts[i];
        }
    }
    return NULL;
}

static void add_option(struct arena *a, const char **argv, size_t *n, const char *option,
                       const char *prefix, struct str value)
{
    if (value.len > 0) {
        argv[(*n)++] = option;
        argv[(*n)++] = arena_printf(a, "%s%.*s", prefix, STR_ARG(value)).p;
    }
}

/* ssh with a terminal, as the host is configured; passwords are asked for by ssh itself. */
static void ssh_argv(struct arena *a, const struct config_host *h, struct str session,
                     const char **argv)
{
    size_t n = 0;

    argv[n++] = "ssh";
    argv[n++] = "-t";
    if (h->port > 0) {
        argv[n++] = "-p";
        argv[n++] = arena_printf(a, "%d", (int)h->port).p;
    }
    add_option(a, argv, &n, "-i", "", h->key_file);
    add_option(a, argv, &n, "-J", "", h->proxy_jump);
    add_option(a, argv, &n, "-o", "ProxyCommand=", h->proxy_command);
    add_option(a, argv, &n, "-o", "HostKeyAlias=", h->host_key_alias);
    add_option(a, argv, &n, "-o", "UserKnownHostsFile=", h->known_hosts);
    add_option(a, argv, &n, "-l", "", h->user);
    argv[n++] = "--";
    argv[n++] = arena_cstr(a, h->host);
    argv[n++] = arena_printf(a, "exec tmux attach-session -t '=%.*s'", STR_ARG(session)).p;
    argv[n] = NULL;
}

int cmd_attach(struct cli *cli, int argc, char **argv)
{
    const char *ssh[ARGS_MAX];
    int status = EXIT_SUCCESS;
    struct task_query query;
    struct task_wait wait = {0};
    struct task_view v;
    sigset_t none;
    struct err e;

    int at = cli_options(cli, NULL, 0, argc, argv, &status);
    if (at < 0) {
        return status;
    }
    if (argc - at != 1) {
        return cli_misused(cli, "which task? Give its id or its session's name");
    }
    struct session session own_session = {0};
    struct task_ctx t = {
        .services = &session.services, .ctx = &session.ctx, .scope = &session.scope};
    if (session_open(&session, cli, STR_EMPTY, &e) < 0 ||
        query_of(&session.arena, str_from(argv[at]), &query, &e) < 0 ||
        tasks_check(&t, &query, -1, 0, &wait, &v, &e) < 0) {
        return cli_fail(cli, EXIT_FAILURE, "%s", e.msg);
    }
    const struct config_host *host = host_of(&session, v.box_id);
    if (host == NULL || !str_eq(v.seen.how, S("tmux")) || !task_goes_on(v.seen.end.state)) {
        (void)cli_fail(cli, EXIT_SUCCESS,
                       "this task is %s: here is its log. To leave press Ctrl-C, the task goes on",
                       task_goes_on(v.seen.end.state) ? "not in tmux" : "over");
        return put_log(cli, &session, &query, true);
    }
    ssh_argv(&session.arena, host, v.seen.name, ssh);
    cli_signals_fini(&session.signals); /* the terminal is ssh's, and so are its signals */
    (void)sigemptyset(&none);
    (void)pthread_sigmask(SIG_SETMASK, &none, NULL);
    (void)execvp(ssh[0], (char *const *)(const void *)ssh);
    return cli_fail(cli, EXIT_FAILURE, "ssh cannot be started: %s", strerror(errno));
}
