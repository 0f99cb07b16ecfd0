#include "core/packages.h"

#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "core/packages_driver.h"
#include "json/js.h"
#include "provider/provider.h"

#define COMMAND_MAX (120u << 10) /* an argument has 128 KiB at most */
#define INPUT_MAX   (64u << 10)
#define SAID_MAX    (256u << 10)

struct str packages_command(struct arena *a, const struct packages_order *order)
{
    struct buf text own_buf = {0};

    buf_init(&text, COMMAND_MAX);
    buf_add(&text, S("# install Python packages:"));
    for (size_t i = 0; i < order->n; i++) {
        buf_addf(&text, " %.*s", STR_ARG(order->names[i]));
    }
    buf_add(&text, S("\nexec python3 -c "));
    buf_add_quoted(&text, str_from(packages_driver));
    return arena_str(a, buf_str(&text));
}

static void add_names(struct buf *text, const struct str *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        buf_addf(text, "require=%.*s\n", STR_ARG(names[i]));
    }
}

struct str packages_input(struct arena *a, const struct packages_order *order)
{
    struct buf text own_buf = {0};

    buf_init(&text, INPUT_MAX);
    buf_addf(&text, "mode=install\ntask=%.*s\nindex=%.*s\nrelay=%.*s\n", STR_ARG(order->task),
             STR_ARG(order->index), STR_ARG(order->relay));
    add_names(&text, order->names, order->n);
    return arena_str(a, buf_str(&text));
}

/* ---- looking ----------------------------------------------------------------------------------- */

struct look {
    struct str input;
    struct buf said[2];
};

static ssize_t read_input(void *arg, char *to, size_t cap, struct err *e)
{
    struct look *l = arg;
    struct str part = str_head(l->input, cap);

    (void)e;
    if (part.len > 0) {
        memcpy(to, part.p, part.len);
    }
    l->input = str_skip(l->input, part.len);
    return (ssize_t)part.len;
}

static int hear(void *arg, enum stream from, struct str bytes, struct err *e)
{
    (void)e;
    buf_add(&((struct look *)arg)->said[from], bytes);
    return 0;
}

static void look_fini(struct look *l)
{
    buf_fini(&l->said[STREAM_OUT]);
    buf_fini(&l->said[STREAM_ERR]);
}

int packages_no_python(struct err *e)
{
    return err_set(e, ERR_NOT_FOUND,
                   "there is no python3 in this sandbox, so no Python packages either: install it "
                   "(3.7 or later), or use a sandbox that has it");
}

static int read_report(const struct look *l, const struct exec_result *result, json_t **out,
                       struct err *e)
{
    struct str said = str_trim(buf_str(&l->said[STREAM_ERR]));
    json_t *report own_json = NULL;

    if (result->end != EXEC_EXITED || result->code != 0) {
        return result->code == 127 || result->code == 126
                   ? packages_no_python(e)
                   : err_set(e, ERR_SYSTEM, "python3 did not tell which packages there are: %.*s",
                             STR_ARG(str_skip(said, said.len > 300 ? said.len - 300 : 0)));
    }
    report = js_parse(buf_str(&l->said[STREAM_OUT]).p, l->said[STREAM_OUT].len, e);
    if (report == NULL || !json_is_object(js_get(report, "packages"))) {
        return err_set(e, ERR_PROTOCOL, "python3 in the sandbox said what nobody understands");
    }
    *out = json_incref(report);
    return 0;
}

int packages_look(struct box *b, const struct ctx *ctx, const struct str *names, size_t n,
                  json_t **out, struct err *e)
{
    const struct str argv[] = {S("python3"), S("-c"), str_from(packages_driver)};
    struct look l CLEANUP(look_fini) = {0};
    const struct source input = {.read = read_input, .arg = &l, .fd = -1};
    const struct sink sink = {.write = hear, .arg = &l};
    const struct exec_req req = {
        .shell = SHELL_NONE, .argv = argv, .n_argv = COUNTOF(argv), .input = &input};
    struct exec_result result = {0};
    struct buf text own_buf = {0};

    buf_init(&text, INPUT_MAX);
    buf_init(&l.said[STREAM_OUT], SAID_MAX);
    buf_init(&l.said[STREAM_ERR], SAID_MAX);
    buf_add(&text, S("mode=check\n"));
    add_names(&text, names, n);
    l.input = buf_str(&text);
    if (box_exec(b, ctx, &req, &sink, &result, e) < 0) {
        return e->kind == ERR_NOT_FOUND ? packages_no_python(e) : -1;
    }
    return read_report(&l, &result, out, e);
}
