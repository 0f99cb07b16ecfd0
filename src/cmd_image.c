/* anybox image: make, list and rm what boxes can be made of: root file systems of local boxes, and with
 * --docker images of the container engine; pull gets one of the latter. */
#include <stdio.h>

#include "base/clock.h"
#include "cli.h"

#define LIST_TEXT_MAX (4u << 20)
#define DATE_LEN      10 /* of an RFC 3339 time */

/* ---- which provider ------------------------------------------------------ */

struct finding {
    bool pulls; /* of the container engine, else our own folders */
    struct provider *found;
};

static int take_first(void *arg, struct provider *p, struct err *e)
{
    struct finding *f = arg;
    const struct image_ops *images = p->ops->images;

    (void)e;
    if (f->found == NULL && images != NULL && (images->pull != NULL) == f->pulls) {
        f->found = p;
    }
    return 0;
}

static struct provider *find_provider(struct session *s, bool docker, struct err *e)
{
    struct finding finding = {.pulls = docker};

    if (boxes_each_provider(s->services.boxes, take_first, &finding, e) < 0) {
        return NULL;
    }
    struct provider *found = finding.found;
    if (found == NULL) {
        (void)err_set(
            e, ERR_UNSUPPORTED,
            "no provider keeps images here; this anybox was built without local sandboxes");
    }
    return found;
}

static int failed(const struct cli *cli, const struct session *s, const struct err *e)
{
    int signo = atomic_load(&s->signals.signo);

    return signo != 0 ? EXIT_SIGNAL + signo : cli_fail(cli, EXIT_FAILURE, "%s", e->msg);
}

/* ---- make ---------------------------------------------------------------- */

static void say_phase(void *arg, struct str phase)
{
    (void)arg;
    (void)fprintf(stderr, PROGRAM ": %.*s\n", STR_ARG(phase));
}

static int print_made(const struct cli *cli, struct str name, int64_t took_ms)
{
    struct buf text own_buf = {0};

    buf_init(&text, 4096);
    buf_addf(&text,
             "%.*s is made, in %lld s. Try: " PROGRAM " run --image %.*s cat /etc/os-release\n",
             STR_ARG(name), (long long)(took_ms / 1000), STR_ARG(name));
    return cli_print(cli, &text);
}

static int image_make(struct cli *cli, int argc, char **argv)
{
    struct image_order order = {0};
    bool docker = false;
    const struct opt opts[] = {
        {"--docker", OPT_FLAG, &docker},
        {"--suite", OPT_TEXT, &order.suite},
        {"--mirror", OPT_TEXT, &order.mirror},
        {"--include", OPT_TEXT, &order.packages},
    };
    int status = EXIT_SUCCESS;
    struct err e;

    int at = cli_options(cli, opts, COUNTOF(opts), argc, argv, &status);
    if (at >= 0 && at < argc) {
        order.name = str_from(argv[at]);
        argc -= at;
        argv += at;
        at = cli_options(cli, opts, COUNTOF(opts), argc, argv, &status);
    }
    if (at < 0) {
        return status;
    }
    if (at < argc) {
        return cli_misused(cli, "one name at most, but got '%s', too", argv[at]);
    }
    order.name = order.name.len > 0 || docker ? order.name : S("debian");
    struct session session own_session = {0};
    struct provider *p = NULL;
    int64_t began_ms = clock_mono_ms();
    if (session_open(&session, cli, STR_EMPTY, &e) == 0) {
        p = find_provider(&session, docker, &e);
    }
    if (p == NULL || provider_image_make(p, &session.ctx, &order, say_phase, NULL, &e) < 0) {
        return failed(cli, &session, &e);
    }
    if (docker) {
        (void)fprintf(stderr, PROGRAM ": the image is made, in %lld s\n",
                      (long long)((clock_mono_ms() - began_ms) / 1000));
        return EXIT_SUCCESS;
    }
    return print_made(cli, order.name, clock_mono_ms() - began_ms);
}

/* ---- list ---------------------------------------------------------------- */

enum column { COL_NAME, COL_SIZE, COL_SYSTEM, COL_MADE, COLUMNS };

struct table {
    struct arena *arena;
    struct str (*rows)[COLUMNS];
    size_t n, cap;
};

static void add_row(struct table *t, const struct str cells[COLUMNS])
{
    if (t->n == t->cap) {
        size_t cap = t->cap > 0 ? t->cap * 2 : 16;
        struct str(*rows)[COLUMNS] = arena_alloc(t->arena, cap, sizeof(*rows));
        for (size_t i = 0; i < t->n * COLUMNS; i++) {
            rows[i / COLUMNS][i % COLUMNS] = t->rows[i / COLUMNS][i % COLUMNS];
        }
        t->rows = rows;
        t->cap = cap;
    }
    for (size_t c = 0; c < COLUMNS; c++) {
        t->rows[t->n][c] = cells[c];
    }
    t->n++;
}

static struct str plain(struct arena *a, struct str s)
{
    struct buf text own_buf = {0};

    buf_init(&text, 4096);
    cli_plain(&text, s);
    return arena_str(a, buf_str(&text));
}

static int keep_image(void *arg, const struct image_info *info, struct err *e)
{
    struct table *t = arg;
    char made[CLOCK_RFC3339_SIZE];

    (void)e;
    struct str date = str_from(clock_rfc3339(info->made_at * 1000, made));
    const struct str cells[COLUMNS] = {
        [COL_NAME] = plain(t->arena, info->name),
        [COL_SIZE] = cli_size(t->arena, info->bytes),
        [COL_SYSTEM] = info->system.len > 0 ? plain(t->arena, info->system) : S("-"),
        [COL_MADE] = arena_str(t->arena, str_head(date, DATE_LEN)),
    };
    add_row(t, cells);
    return 0;
}

static void print_rows(const struct table *t, struct buf *to)
{
    size_t widths[COLUMNS] = {0};

    for (size_t i = 0; i < t->n; i++) {
        for (size_t c = 0; c + 1 < COLUMNS; c++) {
            size_t width = cli_width(t->rows[i][c]);
            widths[c] = width > widths[c] ? width : widths[c];
        }
    }
    for (size_t i = 0; i < t->n; i++) {
        for (size_t c = 0; c < COLUMNS; c++) {
            cli_cell(to, t->rows[i][c], c + 1 < COLUMNS ? widths[c] + 2 : 0);
        }
        buf_addc(to, '\n');
    }
}

static int image_list(struct cli *cli, int argc, char **argv)
{
    bool docker = false;
    const struct opt opts[] = {{"--docker", OPT_FLAG, &docker}};
    int status = EXIT_SUCCESS;
    struct err e;

    int at = cli_options(cli, opts, COUNTOF(opts), argc, argv, &status);
    if (at < 0) {
        return status;
    }
    if (at < argc) {
        return cli_misused(cli, "list takes no arguments, but got '%s'", argv[at]);
    }
    struct session session own_session = {0};
    struct provider *p = NULL;
    if (session_open(&session, cli, STR_EMPTY, &e) == 0) {
        p = find_provider(&session, docker, &e);
    }
    struct table table = {.arena = &session.arena};
    const struct str titles[COLUMNS] = {S("NAME"), S("SIZE"), S("SYSTEM"), S("MADE")};
    if (p != NULL) {
        add_row(&table, titles);
    }
    if (p == NULL || provider_image_list(p, &session.ctx, keep_image, &table, &e) < 0) {
        return failed(cli, &session, &e);
    }
    struct buf text own_buf = {0};
    buf_init(&text, LIST_TEXT_MAX);
    if (table.n == 1) {
        buf_add(&text, S("no images; \"" PROGRAM " image make\" makes one\n"));
    } else {
        print_rows(&table, &text);
    }
    return cli_print(cli, &text);
}

/* ---- rm ------------------------------------------------------------------ */

static int image_rm(struct cli *cli, int argc, char **argv)
{
    bool docker = false;
    const struct opt opts[] = {{"--docker", OPT_FLAG, &docker}};
    int status = EXIT_SUCCESS;
    struct err e;

    int at = cli_options(cli, opts, COUNTOF(opts), argc, argv, &status);
    if (at < 0) {
        return status;
    }
    if (at == argc) {
        return cli_misused(cli, "which image? \"" PROGRAM " image list\" tells which there are");
    }
    struct session session own_session = {0};
    struct provider *p = NULL;
    if (session_open(&session, cli, STR_EMPTY, &e) == 0) {
        p = find_provider(&session, docker, &e);
    }
    if (p == NULL) {
        return failed(cli, &session, &e);
    }
    for (; at < argc; at++) {
        if (provider_image_remove(p, &session.ctx, str_from(argv[at]), &e) < 0) {
            status = failed(cli, &session, &e);
        }
    }
    return status;
}

/* ---- pull ---------------------------------------------------------------- */

static int image_pull(struct cli *cli, int argc, char **argv)
{
    int status = EXIT_SUCCESS;
    struct err e;

    int at = cli_options(cli, NULL, 0, argc, argv, &status);
    if (at < 0) {
        return status;
    }
    struct session session own_session = {0};
    struct provider *p = NULL;
    if (session_open(&session, cli, STR_EMPTY, &e) == 0) {
        p = find_provider(&session, true, &e);
    }
    if (p == NULL) {
        return failed(cli, &session, &e);
    }
    struct str name = at < argc ? str_from(argv[at]) : session.services.config->docker_image;
    do {
        if (provider_image_pull(p, &session.ctx, name, say_phase, NULL, &e) < 0) {
            return failed(cli, &session, &e);
        }
        name = ++at < argc ? str_from(argv[at]) : STR_EMPTY;
    } while (name.len > 0);
    return status;
}

int cmd_image(struct cli *cli, int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(struct cli *cli, int argc, char **argv);
    } kinds[] = {{"make", image_make},
                 {"list", image_list},
                 {"ls", image_list},
                 {"rm", image_rm},
                 {"pull", image_pull}};
    int status = EXIT_SUCCESS;

    int at = cli_options(cli, NULL, 0, argc, argv, &status);
    if (at < 0) {
        return status;
    }
    if (at == argc) {
        return cli_misused(cli, "make, list, pull or rm?");
    }
    for (size_t i = 0; i < COUNTOF(kinds); i++) {
        if (str_eq(str_from(argv[at]), str_from(kinds[i].name))) {
            return kinds[i].run(cli, argc - at, argv + at);
        }
    }
    return cli_misused(cli, "'%s' is not one of make, list, pull, rm", argv[at]);
}
