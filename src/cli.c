#include "cli.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/plain.h"
#include "base/utf8.h"

#define TIMEOUT_MAX_S (31 * 24 * 3600)
#define CPUS_MAX      1024
#define DAY_S         86400ll

/* ---- saying things ------------------------------------------------------ */

static void say(const struct cli *cli, const char *fmt, va_list args) PRINTF_LIKE(2, 0);

/* Sentences from below tell agents which tool to use next: people have commands. */
static void add_for_people(struct str text, struct buf *to)
{
    static const struct {
        const char *tool, *command;
    } words[] = {
        {"call create_sandbox to make a new one", "`anybox run` runs a command in a new one"},
        {"call create_sandbox to make one", "`anybox run` runs a command in a new one"},
        {"make another with create_sandbox", "`anybox run` runs a command in a new one"},
        {"with delete_sandbox", "with `anybox rm`"},
        {"call check_background_task without arguments for a list",
         "`anybox logs` without a task lists them"},
        {"; check_file_transfer_task without a task_id lists those there are", ""},
    };
    size_t i = 0;

    while (text.len > 0) {
        for (i = 0; i < COUNTOF(words) && !str_starts(text, str_from(words[i].tool)); i++) {
        }
        if (i < COUNTOF(words)) {
            buf_add(to, str_from(words[i].command));
            text = str_skip(text, strlen(words[i].tool));
        } else {
            buf_addc(to, text.p[0]);
            text = str_skip(text, 1);
        }
    }
}

static void say(const struct cli *cli, const char *fmt, va_list args)
{
    char text[1024];
    struct buf meant own_buf = {0};
    struct buf line own_buf = {0};

    (void)vsnprintf(text, sizeof(text), fmt, args);
    buf_init(&line, sizeof(text) * 4);
    buf_addf(&line, PROGRAM "%s%s: ", cli->command ? " " : "",
             cli->command ? cli->command->name : "");
    buf_init(&meant, sizeof(text) * 2);
    add_for_people(str_from(text), &meant);
    plain_text(buf_str(&meant), &line);
    buf_addc(&line, '\n');
    struct err ignored;
    (void)(fd_write_all(STDERR_FILENO, buf_str(&line), &ignored) < 0);
}

int cli_fail(const struct cli *cli, int status, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    say(cli, fmt, args);
    va_end(args);
    return status;
}

int cli_misused(const struct cli *cli, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    say(cli, fmt, args);
    va_end(args);
    (void)fprintf(stderr, "Try: " PROGRAM " help%s%s\n", cli->command ? " " : "",
                  cli->command ? cli->command->name : "");
    return EXIT_USAGE;
}

int cli_print(const struct cli *cli, const struct buf *text)
{
    struct err e;

    if (text->len > 0 && fd_write_all(STDOUT_FILENO, buf_str(text), &e) < 0) {
        if (e.sys == EPIPE) { /* `| head` has seen enough, which is no mistake to speak of */
            return EXIT_SIGNAL + SIGPIPE;
        }
        return cli_fail(cli, EXIT_FAILURE, "write to stdout: %s", e.msg);
    }
    return EXIT_SUCCESS;
}

void cli_help(const struct command *c, struct buf *to)
{
    buf_addf(to, "usage: " PROGRAM " %s%s%s\n\n%s.\n", c->name, c->usage[0] ? " " : "", c->usage,
             c->brief);
    if (c->help[0]) {
        buf_addf(to, "\n%s", c->help);
    }
}

void cli_plain(struct buf *to, struct str s)
{
    size_t start = to->len;

    plain_text(s, to);
    for (size_t i = start; i < to->len; i++) {
        if (to->p[i] == '\n' || to->p[i] == '\t') {
            to->p[i] = ' ';
        }
    }
}

size_t cli_width(struct str s)
{
    return utf8_count(s);
}

void cli_cell(struct buf *to, struct str s, size_t width)
{
    buf_add(to, s);
    for (size_t n = cli_width(s); n < width; n++) {
        buf_addc(to, ' ');
    }
}

struct str cli_span(struct arena *a, int64_t seconds)
{
    long long s = seconds < 0 ? 0 : seconds;

    if (s < 60) {
        return arena_printf(a, "%llds", s);
    }
    if (s < 3600) {
        return arena_printf(a, "%lldm", s / 60);
    }
    if (s < 2 * DAY_S) {
        return arena_printf(a, "%lldh", s / 3600);
    }
    return arena_printf(a, "%lldd", s / DAY_S);
}

struct str cli_size(struct arena *a, int64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double v = (double)bytes;
    size_t unit = 0;

    while (v >= 1024 && unit + 1 < COUNTOF(units)) {
        v /= 1024;
        unit++;
    }
    return arena_printf(a, v == (double)(int64_t)v ? "%.0f %s" : "%.1f %s", v, units[unit]);
}

bool cli_colour(void)
{
    const char *no_colour = getenv("NO_COLOR");
    const char *term = getenv("TERM");

    return isatty(STDOUT_FILENO) && !(no_colour && no_colour[0]) && term &&
           !str_eq(str_from(term), S("dumb"));
}

struct str cli_self(struct arena *a)
{
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path));

    return n > 0 ? arena_str(a, (struct str){path, (size_t)n}) : S(PROGRAM);
}

/* ---- options ------------------------------------------------------------ */

static int read_seconds(struct str s, int64_t *out_ms, struct err *e)
{
    double v = 0;

    if (str_to_f64(s, &v, e) < 0) {
        return -1;
    }
    if (v < 0.001 || v > TIMEOUT_MAX_S) {
        return err_set(e, ERR_INVALID, "'%.*s' is not between 0.001 and %d seconds", STR_ARG(s),
                       TIMEOUT_MAX_S);
    }
    *out_ms = (int64_t)(v * 1000);
    return 0;
}

static int read_cpus(struct str s, int64_t *out_millis, struct err *e)
{
    double v = 0;

    if (str_to_f64(s, &v, e) < 0) {
        return -1;
    }
    if (v < 0.01 || v > CPUS_MAX) {
        return err_set(e, ERR_INVALID, "'%.*s' is not between 0.01 and %d cores", STR_ARG(s),
                       CPUS_MAX);
    }
    *out_millis = (int64_t)(v * 1000);
    return 0;
}

static int read_size(struct str s, int64_t *out, struct err *e)
{
    if (str_to_size(s, out, e) < 0) {
        return -1;
    }
    /* 0 is what an option that was not given has. */
    return *out > 0 ? 0 : err_set(e, ERR_INVALID, "'%.*s' is not a size above 0", STR_ARG(s));
}

static int add_word(struct cli_env *words, struct str s, struct err *e)
{
    if (words->n == CLI_ENV_MAX) {
        return err_set(e, ERR_LIMIT, "it can be given at most %d times", CLI_ENV_MAX);
    }
    words->items[words->n++] = s;
    return 0;
}

static int add_env(struct cli_env *env, struct str s, struct err *e)
{
    struct str value;
    struct str key = str_cut(s, '=', &value);

    if (key.len == 0 || !value.p) {
        return err_set(e, ERR_INVALID, "'%.*s' is not KEY=VALUE", STR_ARG(s));
    }
    return add_word(env, s, e);
}

static int read_value(const struct opt *o, struct str s, struct err *e)
{
    switch (o->type) {
    case OPT_FLAG: *(bool *)o->to = true; return 0;
    case OPT_TEXT: *(struct str *)o->to = s; return 0;
    case OPT_SIZE: return read_size(s, o->to, e);
    case OPT_INTEGER: return str_to_i64(s, 1, INT32_MAX, o->to, e);
    case OPT_SECONDS: return read_seconds(s, o->to, e);
    case OPT_CPUS: return read_cpus(s, o->to, e);
    case OPT_ENV: return add_env(o->to, s, e);
    case OPT_WORDS: return add_word(o->to, s, e);
    }
    return err_set(e, ERR_BUG, "option %s has no type", o->name);
}

static const struct opt *find_opt(const struct opt *opts, size_t n, struct str name)
{
    for (size_t i = 0; i < n; i++) {
        if (str_eq(str_from(opts[i].name), name)) {
            return &opts[i];
        }
    }
    return NULL;
}

static int unknown_option(const struct cli *cli, const struct opt *opts, size_t n, struct str name)
{
    const char *nearest = NULL;
    size_t best = 3; /* further away is no typing mistake */

    for (size_t i = 0; i < n; i++) {
        size_t d = str_distance(str_from(opts[i].name), name);
        if (d < best) {
            best = d;
            nearest = opts[i].name;
        }
    }
    if (nearest) {
        return cli_misused(cli, "there is no option %.*s; did you mean %s?", STR_ARG(name),
                           nearest);
    }
    return cli_misused(cli, "there is no option %.*s", STR_ARG(name));
}

/* One option with its value. Returns how many words it took, or -1 with *status. */
static int take_option(struct cli *cli, const struct opt *const sets[2], const size_t counts[2],
                       char **words, int *status)
{
    struct str value;
    struct str name = str_cut(str_from(words[0]), '=', &value);
    const struct opt *o = find_opt(sets[0], counts[0], name);
    struct err e;

    if (!o) {
        o = find_opt(sets[1], counts[1], name);
    }
    if (!o) {
        *status = unknown_option(cli, sets[0], counts[0], name);
        return -1;
    }
    int used = 1;
    if (o->type == OPT_FLAG && value.p) {
        *status = cli_misused(cli, "%s takes no value", o->name);
        return -1;
    }
    if (o->type != OPT_FLAG && !value.p) {
        if (!words[1]) {
            *status = cli_misused(cli, "%s needs a value", o->name);
            return -1;
        }
        value = str_from(words[1]);
        used = 2;
    }
    if (read_value(o, value, &e) < 0) {
        *status = cli_misused(cli, "%s: %s", o->name, e.msg);
        return -1;
    }
    return used;
}

const struct str *cli_words(struct arena *a, int n, char **words)
{
    struct str *views = arena_alloc(a, (size_t)n, sizeof(*views));

    for (int i = 0; i < n; i++) {
        views[i] = str_from(words[i]);
    }
    return views;
}

static int show_help(const struct cli *cli)
{
    struct buf text own_buf = {0};

    buf_init(&text, 64u << 10);
    cli_help(cli->command, &text);
    return cli_print(cli, &text);
}

int cli_options(struct cli *cli, const struct opt *opts, size_t n_opts, int argc, char **argv,
                int *status)
{
    const struct opt global[] = {
        {"--config", OPT_TEXT, &cli->flags.config_file},
        {"--toolset", OPT_TEXT, &cli->flags.toolset},
    };
    const struct opt *const sets[2] = {opts, global};
    const size_t counts[2] = {n_opts, COUNTOF(global)};

    int i = 1;
    while (i < argc) {
        struct str word = str_from(argv[i]);
        if (str_eq(word, S("--"))) {
            return i + 1;
        }
        if (word.len < 2 || word.p[0] != '-') {
            return i;
        }
        if (cli->command && (str_eq(word, S("--help")) || str_eq(word, S("-h")))) {
            *status = show_help(cli);
            return -1;
        }
        int used = take_option(cli, sets, counts, argv + i, status);
        if (used < 0) {
            return -1;
        }
        i += used;
    }
    return argc;
}
