#include "tools/custom.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "core/journal.h"
#include "tools/exec.h"
#include "tools/resource_rows.h"

#define SHARED_PARAMS 2 /* sandbox_id and sandbox_name */

/* Every argument has a place of this size behind the two of the box. */
union value {
    struct str text;
    int64_t whole;
    double real;
    bool yes;
};

struct args {
    struct box_args box;
    union value values[CONFIG_PARAMS_MAX];
};

struct row {
    struct tool tool; /* the first: see run() */
    const struct config_tool *config;
    struct param params[CONFIG_PARAMS_MAX + SHARED_PARAMS];
};

struct custom {
    struct row *rows;
    size_t n;
};

/* ---- running ---------------------------------------------------------------------------- */

static struct str value_text(struct arena *a, const struct config_param *p, const union value *v)
{
    switch (p->type) {
    case CONFIG_PARAM_STRING: return v->text;
    case CONFIG_PARAM_INTEGER: return arena_printf(a, "%" PRId64, v->whole);
    case CONFIG_PARAM_NUMBER: return arena_printf(a, "%.17g", v->real);
    case CONFIG_PARAM_BOOLEAN: break;
    }
    return v->yes ? S("true") : S("false");
}

/* "ARG_SIZE=10" of size: in capitals, with a prefix, so that none is taken for PATH and the like. */
static struct str variable(struct arena *a, const struct config_param *p, const union value *v)
{
    struct str text = value_text(a, p, v);
    struct buf out own_buf = {0};

    buf_init(&out, text.len + p->name.len + 16);
    buf_add(&out, S("ARG_"));
    for (size_t i = 0; i < p->name.len; i++) {
        char c = p->name.p[i];

        buf_addc(&out, (char)(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c));
    }
    buf_addc(&out, '=');
    buf_add(&out, text);
    return arena_str(a, buf_str(&out));
}

static void keep_result(struct call *c, const struct row *row, const json_t *answer)
{
    struct buf text own_buf = {0};

    if (row->config->resource.len == 0 || c->box_id.len == 0) {
        return;
    }
    buf_init(&text, JOURNAL_BYTES / 2);
    js_dump(answer, &text);
    if (!text.cut) {
        journal_put(c->services->journal, resource_result_key(c, row->config->resource, c->box_id),
                    buf_str(&text));
    }
}

static int run(struct call *c, const void *given, json_t **out, struct err *e)
{
    const struct args *a = given;
    const struct row *row = (const void *)c->tool; /* which is the first in it */
    const struct config_tool *t = row->config;
    struct arena *arena = c->ctx->arena;
    struct str *env = arena_alloc(arena, t->n_params + 1, sizeof(*env));
    struct exec_args exec = {
        .box = a->box, .command = t->command, .cwd = t->cwd, .timeout_s = t->timeout_s};

    for (size_t i = 0; i < t->n_params; i++) {
        env[i] = variable(arena, &t->params[i], &a->values[i]);
    }
    exec.env = (struct str_list){env, t->n_params};
    exec.label = arena_printf(arena, "%.*s (a tool of the configuration)", STR_ARG(t->name));
    if (exec_answer(c, &exec, out, e) < 0) {
        return -1;
    }
    keep_result(c, row, *out);
    return 0;
}

/* ---- rows --------------------------------------------------------------------------------- */

static int64_t whole_fallback(const struct config_param *p)
{
    struct err ignored;
    int64_t n = 0;

    return str_to_i64(p->fallback, INT64_MIN, INT64_MAX, &n, &ignored) < 0 ? 0 : n;
}

static struct param param_of(const struct config_param *p, size_t i)
{
    static const enum param_type types[] = {PARAM_STRING, PARAM_INTEGER, PARAM_NUMBER,
                                            PARAM_BOOLEAN};
    bool is_text = p->type == CONFIG_PARAM_STRING || p->type == CONFIG_PARAM_NUMBER;

    return (struct param){
        .name = p->name.p,
        .type = types[p->type],
        .offset = offsetof(struct args, values) + i * sizeof(union value),
        .min = p->type == CONFIG_PARAM_STRING ? 0 : INT64_MIN,
        .max = p->type == CONFIG_PARAM_STRING ? 0 : INT64_MAX,
        .fallback = is_text ? 0 : whole_fallback(p),
        .fallback_text = !is_text                         ? NULL
                         : p->fallback.len > 0            ? p->fallback.p
                         : p->type == CONFIG_PARAM_NUMBER ? "0"
                                                          : NULL,
        .choices = p->choices,
        .help = p->help.p,
        .required = p->required,
    };
}

static void fill(struct row *row, const struct config_tool *t)
{
    static const struct param shared[SHARED_PARAMS] = {PARAM_BOX(struct args)};

    row->config = t;
    for (size_t i = 0; i < t->n_params; i++) {
        row->params[i] = param_of(&t->params[i], i);
    }
    memcpy(&row->params[t->n_params], shared, sizeof(shared));
    row->tool = (struct tool){
        .name = t->name.p,
        .title = t->title.p,
        .help = t->help.p,
        .params = row->params,
        .n_params = t->n_params + SHARED_PARAMS,
        .args_size = sizeof(struct args),
        .toolsets = ~0u,
        .hints = t->read_only ? HINT_READ_ONLY : 0,
        .run = run,
    };
}

struct custom *custom_new(const struct config *config)
{
    struct custom *all;

    if (config->n_tools == 0) {
        return NULL;
    }
    all = xcalloc(1, sizeof(*all));
    all->rows = xcalloc(config->n_tools, sizeof(*all->rows));
    for (size_t i = 0; i < config->n_tools; i++) {
        if (tool_find(config->tools[i].name) == NULL) { /* ours are ours */
            fill(&all->rows[all->n++], &config->tools[i]);
        }
    }
    return all;
}

void custom_free(struct custom *all)
{
    if (all != NULL) {
        free(all->rows);
        free(all);
    }
}

size_t custom_count(const struct custom *all)
{
    return all != NULL ? all->n : 0;
}

const struct tool *custom_at(const struct custom *all, size_t i)
{
    return &all->rows[i].tool;
}

const struct tool *custom_find(const struct custom *all, struct str name)
{
    for (size_t i = 0; i < custom_count(all); i++) {
        if (str_eq(all->rows[i].config->name, name)) {
            return &all->rows[i].tool;
        }
    }
    return tool_find(name);
}
