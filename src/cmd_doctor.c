/*
 * anybox doctor: why does it not work, one line each, with the exact fix.
 *
 * Nothing here gives up: a part that cannot be looked at is a line that says so, and
 * the next part is looked at all the same.
 */
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "base/clock.h"
#include "base/own.h"
#include "base/proc.h"
#include "cli.h"
#include "json/js.h"
#include "store/store.h"
#include "tools/tool.h"

#define REPORT_MAX    (4u << 20)
#define WHAT_WIDTH    22
#define LOOK_LIMIT_MS 30000

struct report {
    struct buf text;
    json_t *lines;
    const char *section;
    bool colour;
    size_t n_failed, n_warned;
};

static const struct {
    const char *word, *colour;
} states[] = {
    [CHECK_OK] = {"ok", "\033[32m"},
    [CHECK_WARN] = {"warn", "\033[33m"},
    [CHECK_FAIL] = {"FAIL", "\033[31m"},
};

static void begin(struct report *r, const char *section)
{
    r->section = section;
    buf_addf(&r->text, "%s%s\n", r->text.len > 0 ? "\n" : "", section);
}

static void add_text(struct report *r, const struct check *c)
{
    buf_addf(&r->text, "  %s%-4s%s  ", r->colour ? states[c->state].colour : "",
             states[c->state].word, r->colour ? "\033[0m" : "");
    size_t before = r->text.len;
    cli_plain(&r->text, c->what);
    buf_addc(&r->text, ':');
    size_t width = cli_width(str_skip(buf_str(&r->text), before));
    cli_cell(&r->text, S(" "), width < WHAT_WIDTH ? WHAT_WIDTH - width : 1);
    cli_plain(&r->text, c->found);
    buf_addc(&r->text, '\n');
    if (c->fix.len > 0) {
        buf_add(&r->text, S("        fix: "));
        cli_plain(&r->text, c->fix);
        buf_addc(&r->text, '\n');
    }
}

static int add_check(void *arg, const struct check *c, struct err *e)
{
    struct report *r = arg;
    json_t *line = json_object();

    (void)e;
    r->n_failed += c->state == CHECK_FAIL;
    r->n_warned += c->state == CHECK_WARN;
    add_text(r, c);
    (void)json_object_set_new(line, "section", json_string(r->section));
    (void)json_object_set_new(line, "state", json_string(states[c->state].word));
    (void)json_object_set_new(line, "what", js_string(c->what));
    (void)json_object_set_new(line, "found", js_string(c->found));
    if (c->fix.len > 0) {
        (void)json_object_set_new(line, "fix", js_string(c->fix));
    }
    (void)json_array_append_new(r->lines, line);
    return 0;
}

static void add(struct report *r, enum check_state state, const char *what, struct str found,
                struct str fix)
{
    const struct check c = {state, str_from(what), found, fix};
    struct err ignored;

    (void)add_check(r, &c, &ignored);
}

/* ---- the parts ---------------------------------------------------------- */

static void look_at_program(struct report *r, struct arena *a)
{
    begin(r, "program");
    struct str self = cli_self(a);
    add(r, CHECK_OK, "anybox", arena_printf(a, ANYBOX_VERSION ", %.*s", STR_ARG(self)), STR_EMPTY);
    add(r, CHECK_OK, "libraries",
        arena_printf(a, "jansson %s, sqlite %s", jansson_version_str(), store_library()),
        STR_EMPTY);
}

/* Our own names are ours: see custom_new(). */
static void look_at_tools(struct report *r, const struct config *c, struct arena *a)
{
    for (size_t i = 0; i < c->n_tools; i++) {
        if (tool_find(c->tools[i].name) != NULL) {
            add(r, CHECK_FAIL, "tools",
                arena_printf(a, "%.*s is a tool of anybox, and is not replaced",
                             STR_ARG(c->tools[i].name)),
                S("give the [[tool]] table another name"));
        }
    }
    if (c->tools_problem.len > 0) {
        add(r, CHECK_FAIL, "tools", c->tools_problem,
            S("correct the [[tool]] table; the others are offered"));
    }
}

static void look_at_hosts(struct report *r, const struct config *c, struct arena *a)
{
    struct str names = STR_EMPTY;

    for (size_t i = 0; i < c->n_hosts; i++) {
        names = arena_printf(a, "%.*s%s%.*s", STR_ARG(names), i > 0 ? ", " : "",
                             STR_ARG(c->hosts[i].name));
    }
    if (c->n_hosts > 0) {
        add(r, CHECK_OK, "ssh hosts", names, STR_EMPTY);
    }
    if (c->hosts_problem.len > 0) {
        add(r, CHECK_FAIL, "ssh hosts", c->hosts_problem,
            S("correct it; the hosts that are right work all the same"));
    }
}

static void look_at_config(struct report *r, const struct config *c, struct arena *a)
{
    const struct setting_doc *settings = NULL;
    size_t n = config_settings(&settings);

    begin(r, "configuration");
    add(r, CHECK_OK, "files", c->files.len > 0 ? c->files : S("none, all defaults"), STR_EMPTY);
    if (c->problem.len > 0) {
        add(r, CHECK_FAIL, "problem", c->problem,
            S("correct it; until then the tools answer this and defaults hold"));
    }
    look_at_tools(r, c, a);
    look_at_hosts(r, c, a);
    for (size_t i = 0; i < n; i++) {
        struct str value = config_show(c, settings[i].key, a);
        if (!str_eq(value, str_from(settings[i].fallback))) {
            add(r, CHECK_OK, settings[i].key, value, STR_EMPTY);
        }
    }
}

static int count_row(void *arg, const struct box_row *row, struct err *e)
{
    size_t *n = arg;

    (void)row;
    (void)e;
    (*n)++;
    return 0;
}

static void look_at_folder(struct report *r, struct str dir, struct arena *a)
{
    const char *path = arena_cstr(a, dir);
    struct stat st;

    if (stat(path, &st) < 0) {
        add(r, CHECK_OK, "folder", arena_printf(a, "%s (made when first needed)", path), STR_EMPTY);
        return;
    }
    if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid()) {
        add(r, CHECK_FAIL, "folder", arena_printf(a, "%s is not a folder of yours", path),
            S("set ANYBOX_HOME to a folder of your own"));
        return;
    }
    if ((st.st_mode & 0077) != 0) {
        add(r, CHECK_WARN, "folder",
            arena_printf(a, "%s has mode %04o", path, (unsigned)st.st_mode & 07777),
            arena_printf(a, "chmod 700 '%s'", path));
        return;
    }
    add(r, CHECK_OK, "folder", arena_printf(a, "%s, mode 0700", path), STR_EMPTY);
}

static void look_at_state(struct report *r, struct services *s, struct arena *a)
{
    struct err e;
    size_t n = 0;

    begin(r, "state");
    look_at_folder(r, s->config->state_dir, a);
    if (store_each_box(s->store, a, STR_EMPTY, false, count_row, &n, &e) < 0) {
        add(r, CHECK_FAIL, "database", arena_str(a, str_from(e.msg)),
            S("set ANYBOX_HOME to a folder on a local disk that you can write"));
        return;
    }
    add(r, CHECK_OK, "database", S("opens"), STR_EMPTY);
    add(r, CHECK_OK, "sandboxes", arena_printf(a, "%zu", n), STR_EMPTY);
}

static int look_at_provider(void *arg, struct provider *p, struct err *e)
{
    struct report *r = arg;
    struct arena arena own_arena = {0};
    struct err problem;

    (void)e;
    arena_init(&arena, REPORT_MAX);
    const struct ctx ctx = {.arena = &arena, .deadline_ms = clock_mono_ms() + LOOK_LIMIT_MS};
    struct str title = arena_printf(&arena, "provider %.*s", STR_ARG(p->name));
    begin(r, title.p);
    if (provider_doctor(p, &ctx, add_check, r, &problem) < 0) {
        add(r, CHECK_FAIL, "doctor", str_from(problem.msg), STR_EMPTY);
    }
    r->section = NULL;
    return 0;
}

static void look_at_all(struct report *r, const struct cli *cli)
{
    struct services services = {0};
    struct arena arena own_arena = {0};
    struct err e;

    arena_init(&arena, REPORT_MAX);
    look_at_program(r, &arena);
    if (services_init(&services, &cli->flags, &e) < 0) {
        add(r, CHECK_FAIL, "start", str_from(e.msg), STR_EMPTY);
    } else {
        look_at_config(r, services.config, &arena);
        look_at_state(r, &services, &arena);
        if (boxes_each_provider(services.boxes, look_at_provider, r, &e) < 0) {
            add(r, CHECK_FAIL, "providers", str_from(e.msg), STR_EMPTY);
        }
    }
    services_fini(&services);
}

int cmd_doctor(struct cli *cli, int argc, char **argv)
{
    bool as_json = false;
    const struct opt opts[] = {{"--json", OPT_FLAG, &as_json}};
    int status = EXIT_SUCCESS;

    int at = cli_options(cli, opts, COUNTOF(opts), argc, argv, &status);
    if (at < 0) {
        return status;
    }
    if (at < argc) {
        return cli_misused(cli, "it takes no arguments, but got '%s'", argv[at]);
    }
    json_t *lines own_json = json_array();
    struct report report = {.lines = lines, .colour = cli_colour()};
    buf_init(&report.text, REPORT_MAX);
    look_at_all(&report, cli);
    if (as_json) {
        buf_clear(&report.text);
        js_dump(lines, &report.text);
        buf_addc(&report.text, '\n');
    } else if (report.n_failed > 0) {
        buf_addf(&report.text, "\n%zu of these must be fixed before local sandboxes work.\n",
                 report.n_failed);
    } else {
        buf_add(&report.text, S("\nEverything that anybox needs is here. Next: anybox demo\n"));
    }
    status = cli_print(cli, &report.text);
    buf_fini(&report.text);
    return report.n_failed > 0 ? EXIT_FAILURE : status;
}
