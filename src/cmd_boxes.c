/* anybox ls, exec, pause, resume and rm: the boxes that agents use, for people. */
#include <jansson.h>

#include "base/clock.h"
#include "base/fd.h"
#include "cli.h"
#include "json/js.h"

#define LIST_TEXT_MAX (16u << 20)
#define ID_SHOWN      12

/* ---- ls ----------------------------------------------------------------- */

enum column {
    COL_OWNER, /* with --all only */
    COL_NAME,
    COL_ID,
    COL_PROVIDER,
    COL_STATUS,
    COL_AGE,
    COL_EXPIRES,
    COL_ISOLATION,
    COLUMNS,
};

static const char *const titles[COLUMNS] = {
    "OWNER", "NAME", "ID", "PROVIDER", "STATUS", "AGE", "EXPIRES", "ISOLATION",
};

struct listing {
    struct session *session;
    struct box_view *views;
    size_t n, cap;
};

static int keep_view(void *arg, const struct box_view *view, struct box *box, struct err *e)
{
    struct listing *l = arg;

    (void)box;
    (void)e;
    if (l->n == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 16;
        struct box_view *views = arena_alloc(&l->session->arena, cap, sizeof(*views));
        for (size_t i = 0; i < l->n; i++) {
            views[i] = l->views[i];
        }
        l->views = views;
        l->cap = cap;
    }
    l->views[l->n++] = *view;
    return 0;
}

static int list_boxes(struct session *s, struct listing *out, struct err *e)
{
    *out = (struct listing){.session = s};
    return boxes_each(s->services.boxes, &s->ctx, &s->scope, keep_view, out, e);
}

/* Of every owner: yours, those of runs, and those of HTTP keys. Hosts are everybody's. */
static int list_all_boxes(struct session *s, struct listing *out, struct err *e)
{
    const struct str *owners;
    size_t n;

    if (list_boxes(s, out, e) < 0 || boxes_owners(s->services.boxes, &s->ctx, &owners, &n, e) < 0) {
        return -1;
    }
    for (size_t i = 0; i < n; i++) {
        struct scope theirs;
        int rc;

        if (str_eq(owners[i], s->scope.owner)) {
            continue;
        }
        scope_init(&theirs, owners[i], s->services.config->folder);
        rc = boxes_each_made(s->services.boxes, &s->ctx, &theirs, keep_view, out, e);
        scope_fini(&theirs);
        if (rc < 0) {
            return -1;
        }
    }
    return 0;
}

/* As cli_owner() reads it. */
static struct str owner_text(struct str owner)
{
    return owner.len > 0 ? owner : S("user");
}

static struct str status_text(const struct box_view *v)
{
    if (v->row.state == ROW_STARTING) {
        return S("starting");
    }
    if (v->info.state == BOX_PAUSED) {
        return S("paused");
    }
    if (v->alive) {
        return S("running");
    }
    return v->info.state == BOX_GONE ? S("ended") : S("unreachable");
}

static struct str expires_text(struct arena *a, const struct box_view *v)
{
    int64_t end_s = v->info.expires_at > 0 ? v->info.expires_at : v->row.expires_ms / 1000;
    int64_t idle_s = v->info.limits.idle_s;

    if (end_s > 0) {
        struct str left = cli_span(a, end_s - clock_wall_ms() / 1000);
        return arena_printf(a, "in %.*s", STR_ARG(left));
    }
    if (idle_s > 0) {
        struct str idle = cli_span(a, idle_s);
        return arena_printf(a, "%.*s idle", STR_ARG(idle));
    }
    return S("never");
}

static struct str plain(struct arena *a, struct str s)
{
    struct buf text own_buf = {0};

    buf_init(&text, 4096);
    cli_plain(&text, s);
    return arena_str(a, buf_str(&text));
}

static void fill_cells(struct arena *a, const struct box_view *v, struct str cells[COLUMNS])
{
    cells[COL_OWNER] = plain(a, owner_text(v->row.owner));
    cells[COL_NAME] = plain(a, v->row.name);
    cells[COL_ID] = plain(a, str_has(v->row.id, ':') ? v->row.id : str_head(v->row.id, ID_SHOWN));
    cells[COL_PROVIDER] = plain(a, v->row.provider);
    cells[COL_STATUS] = status_text(v);
    /* A host was not made by us. */
    cells[COL_AGE] =
        v->row.created_ms > 0 ? cli_span(a, (clock_wall_ms() - v->row.created_ms) / 1000) : S("-");
    cells[COL_EXPIRES] = expires_text(a, v);
    cells[COL_ISOLATION] = plain(a, v->alive ? v->info.tier : v->problem);
}

static void print_table(struct arena *a, const struct listing *l, bool all, struct buf *to)
{
    const size_t first = all ? COL_OWNER : COL_NAME;
    struct str(*rows)[COLUMNS] = arena_alloc(a, l->n + 1, sizeof(*rows));
    size_t widths[COLUMNS] = {0};

    for (size_t c = 0; c < COLUMNS; c++) {
        rows[0][c] = str_from(titles[c]);
    }
    for (size_t i = 0; i < l->n; i++) {
        fill_cells(a, &l->views[i], rows[i + 1]);
    }
    for (size_t i = 0; i <= l->n; i++) {
        for (size_t c = first; c + 1 < COLUMNS; c++) {
            size_t width = cli_width(rows[i][c]);
            widths[c] = width > widths[c] ? width : widths[c];
        }
    }
    for (size_t i = 0; i <= l->n; i++) {
        for (size_t c = first; c < COLUMNS; c++) {
            cli_cell(to, rows[i][c], c + 1 < COLUMNS ? widths[c] + 2 : 0);
        }
        buf_addc(to, '\n');
    }
}

static json_t *view_json(const struct box_view *v)
{
    char created[CLOCK_RFC3339_SIZE];
    json_t *o = json_object();

    (void)json_object_set_new(o, "id", js_string(v->row.id));
    (void)json_object_set_new(o, "name", js_string(v->row.name));
    (void)json_object_set_new(o, "owner", js_string(owner_text(v->row.owner)));
    (void)json_object_set_new(o, "provider", js_string(v->row.provider));
    (void)json_object_set_new(o, "status", js_string(status_text(v)));
    (void)json_object_set_new(o, "selected", json_boolean(v->selected));
    (void)json_object_set_new(o, "created_at",
                              v->row.created_ms > 0
                                  ? json_string(clock_rfc3339(v->row.created_ms, created))
                                  : json_null());
    (void)json_object_set_new(o, "isolation", js_string(v->info.tier));
    if (v->info.expires_at > 0) {
        char expires[CLOCK_RFC3339_SIZE];
        (void)json_object_set_new(
            o, "expires_at",
            js_string(str_from(clock_rfc3339(v->info.expires_at * 1000, expires))));
    }
    if (v->info.limits.idle_s > 0) {
        (void)json_object_set_new(o, "idle_s", json_integer(v->info.limits.idle_s));
    }
    if (v->problem.len > 0) {
        (void)json_object_set_new(o, "problem", js_string(v->problem));
    }
    return o;
}

static void print_json(const struct listing *l, struct buf *to)
{
    json_t *list own_json = json_array();

    for (size_t i = 0; i < l->n; i++) {
        (void)json_array_append_new(list, view_json(&l->views[i]));
    }
    js_dump(list, to);
    buf_addc(to, '\n');
}

int cmd_ls(struct cli *cli, int argc, char **argv)
{
    bool as_json = false, all = false;
    struct str owner = STR_EMPTY;
    const struct opt opts[] = {
        {"--json", OPT_FLAG, &as_json},
        {"--all", OPT_FLAG, &all},
        {"--owner", OPT_TEXT, &owner},
    };
    int status = EXIT_SUCCESS;
    struct err e;

    int at = cli_options(cli, opts, COUNTOF(opts), argc, argv, &status);
    if (at < 0) {
        return status;
    }
    if (at < argc) {
        return cli_misused(cli, "it takes no arguments, but got '%s'", argv[at]);
    }
    if (all && owner.len > 0) {
        return cli_misused(cli, "either --all or --owner, not both");
    }
    struct session session own_session = {0};
    struct listing listing;
    if (session_open(&session, cli, cli_owner(owner), &e) < 0 ||
        (all ? list_all_boxes(&session, &listing, &e) : list_boxes(&session, &listing, &e)) < 0) {
        return cli_fail(cli, EXIT_FAILURE, "%s", e.msg);
    }
    struct buf text own_buf = {0};
    buf_init(&text, LIST_TEXT_MAX);
    if (as_json) {
        print_json(&listing, &text);
    } else if (listing.n == 0) {
        buf_add(&text, S("no sandboxes\n"));
    } else {
        print_table(&session.arena, &listing, all, &text);
    }
    return cli_print(cli, &text);
}

/* ---- exec --------------------------------------------------------------- */

int cmd_exec(struct cli *cli, int argc, char **argv)
{
    struct cli_env env = {0};
    struct exec_req req = {.shell = SHELL_NONE};
    struct str owner = STR_EMPTY;
    const struct opt opts[] = {
        {"--timeout", OPT_SECONDS, &req.timeout_ms},
        {"--env", OPT_ENV, &env},
        {"--cwd", OPT_TEXT, &req.cwd},
        {"--owner", OPT_TEXT, &owner},
    };
    int status = EXIT_SUCCESS;
    struct err e;

    int at = cli_options(cli, opts, COUNTOF(opts), argc, argv, &status);
    if (at < 0) {
        return status;
    }
    if (argc - at < 1) {
        return cli_misused(cli, "which sandbox, and which command?");
    }
    struct str wanted = str_from(argv[at++]);
    if (at < argc && str_eq(str_from(argv[at]), S("--"))) {
        at++;
    }
    if (at == argc) {
        return cli_misused(cli, "which command in %.*s?", STR_ARG(wanted));
    }
    struct session session own_session = {0};
    if (session_open(&session, cli, cli_owner(owner), &e) < 0) {
        return cli_fail(cli, EXIT_OURS, "%s", e.msg);
    }
    struct box *box CLEANUP(box_unref_p) = cli_find(&session, wanted, &e);
    if (!box) {
        return cli_fail(cli, EXIT_OURS, "%s", e.msg);
    }
    req.argv = cli_words(&session.arena, argc - at, argv + at);
    req.n_argv = (size_t)(argc - at);
    req.env = env.items;
    req.n_env = env.n;
    return cli_exec(cli, &session, box, &req);
}

/* ---- pause, resume ------------------------------------------------------ */

typedef int change_fn(struct box *b, const struct ctx *ctx, struct err *e);

static int change_box(const struct cli *cli, struct session *s, struct str wanted,
                      change_fn *change)
{
    struct err e;
    struct box *box CLEANUP(box_unref_p) = cli_find(s, wanted, &e);

    if (box == NULL || change(box, &s->ctx, &e) < 0) {
        return cli_fail(cli, EXIT_FAILURE, "%s", e.msg);
    }
    struct buf line own_buf = {0};
    buf_init(&line, 4096);
    cli_plain(&line, wanted);
    buf_addc(&line, '\n');
    return cli_print(cli, &line);
}

static int change_boxes(struct cli *cli, int argc, char **argv, change_fn *change)
{
    struct str owner = STR_EMPTY;
    const struct opt opts[] = {{"--owner", OPT_TEXT, &owner}};
    int status = EXIT_SUCCESS;
    struct err e;

    int at = cli_options(cli, opts, COUNTOF(opts), argc, argv, &status);
    if (at < 0) {
        return status;
    }
    if (at == argc) {
        return cli_misused(cli, "which sandbox? Give names or ids");
    }
    struct session session own_session = {0};
    if (session_open(&session, cli, cli_owner(owner), &e) < 0) {
        return cli_fail(cli, EXIT_FAILURE, "%s", e.msg);
    }
    for (; at < argc; at++) {
        status |= change_box(cli, &session, str_from(argv[at]), change);
    }
    return status;
}

int cmd_pause(struct cli *cli, int argc, char **argv)
{
    return change_boxes(cli, argc, argv, box_pause);
}

int cmd_resume(struct cli *cli, int argc, char **argv)
{
    return change_boxes(cli, argc, argv, box_resume);
}

/* ---- rm ----------------------------------------------------------------- */

static int remove_box(const struct cli *cli, struct session *s, struct str wanted)
{
    const struct box_want want = cli_want(wanted);
    struct str id, name;
    struct err e;

    if (boxes_delete(s->services.boxes, &s->ctx, &s->scope, &want, &id, &name, &e) < 0) {
        return cli_fail(cli, EXIT_FAILURE, "%s", e.msg);
    }
    struct buf line own_buf = {0};
    buf_init(&line, 4096);
    cli_plain(&line, name.len > 0 ? name : id);
    buf_addc(&line, '\n');
    return cli_print(cli, &line);
}

static int remove_all(const struct cli *cli, struct session *s)
{
    struct listing listing;
    struct err e;
    int status = EXIT_SUCCESS;

    if (list_boxes(s, &listing, &e) < 0) {
        return cli_fail(cli, EXIT_FAILURE, "%s", e.msg);
    }
    for (size_t i = 0; i < listing.n; i++) {
        status |= remove_box(cli, s, listing.views[i].row.id);
    }
    return status;
}

int cmd_rm(struct cli *cli, int argc, char **argv)
{
    bool all = false;
    struct str owner = STR_EMPTY;
    const struct opt opts[] = {{"--all", OPT_FLAG, &all}, {"--owner", OPT_TEXT, &owner}};
    int status = EXIT_SUCCESS;
    struct err e;

    int at = cli_options(cli, opts, COUNTOF(opts), argc, argv, &status);
    if (at < 0) {
        return status;
    }
    if (all == (at < argc)) {
        return cli_misused(cli, all ? "either --all or names, not both"
                                    : "which sandbox? Give names or ids, or --all");
    }
    struct session session own_session = {0};
    if (session_open(&session, cli, cli_owner(owner), &e) < 0) {
        return cli_fail(cli, EXIT_FAILURE, "%s", e.msg);
    }
    if (all) {
        return remove_all(cli, &session);
    }
    for (; at < argc; at++) {
        status |= remove_box(cli, &session, str_from(argv[at]));
    }
    return status;
}
