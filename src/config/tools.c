/* tools.c - reads [[tool]]. */
#include <string.h>

#include "config/config.h"
#include "config/tools_own.h"

#define NAME_MAX_LEN 64
#define HELP_MAX     600
#define TIMEOUT_MAX  604800 /* seconds: a week */

static bool is_name(struct str s)
{
    for (size_t i = 0; i < s.len; i++) {
        bool letter = s.p[i] >= 'a' && s.p[i] <= 'z';
        bool other = (s.p[i] >= '0' && s.p[i] <= '9') || s.p[i] == '_';

        if (!letter && (i == 0 || !other)) {
            return false;
        }
    }
    return s.len > 0 && s.len <= NAME_MAX_LEN;
}

static int take_string(struct config *c, const struct toml_value *v, struct str *out, struct err *e)
{
    if (v->type != TOML_STRING) {
        return err_set(e, ERR_INVALID, "%.*s must be a string, not %s", STR_ARG(v->key),
                       toml_type_name(v->type));
    }
    *out = arena_str(&c->arena, v->string);
    return 0;
}

static int take_boolean(const struct toml_value *v, bool *out, struct err *e)
{
    if (v->type != TOML_BOOLEAN) {
        return err_set(e, ERR_INVALID, "%.*s must be true or false, not %s", STR_ARG(v->key),
                       toml_type_name(v->type));
    }
    *out = v->boolean;
    return 0;
}

/* ---- parameters ---------------------------------------------------------------------------- */

static int take_type(const struct toml_value *v, enum config_param_type *out, struct err *e)
{
    static const char *const names[] = {"string", "integer", "number", "boolean"};

    for (size_t i = 0; v->type == TOML_STRING && i < COUNTOF(names); i++) {
        if (str_eq(v->string, str_from(names[i]))) {
            *out = (enum config_param_type)i;
            return 0;
        }
    }
    return err_set(e, ERR_INVALID,
                   "type must be \"string\", \"integer\", \"number\" or \"boolean\"");
}

static int take_choices(struct config *c, const struct toml_value *v, struct config_param *p,
                        struct err *e)
{
    size_t n = 0;

    for (const struct toml_value *i = v->first; v->type == TOML_ARRAY && i != NULL; i = i->next) {
        n++;
    }
    if (n == 0 || v->first->type != TOML_STRING) {
        return err_set(e, ERR_INVALID, "choices must be a list of strings");
    }
    p->choices = arena_alloc(&c->arena, n + 1, sizeof(*p->choices));
    n = 0;
    for (const struct toml_value *i = v->first; i != NULL; i = i->next) {
        p->choices[n++] = arena_cstr(&c->arena, i->string);
    }
    return 0;
}

/* As text, whatever it is: the decoder of arguments reads it from there. */
static int take_default(struct config *c, const struct toml_value *v, struct config_param *p,
                        struct err *e)
{
    switch (v->type) {
    case TOML_STRING: p->fallback = arena_str(&c->arena, v->string); return 0;
    case TOML_INTEGER:
        p->fallback = arena_printf(&c->arena, "%lld", (long long)v->integer);
        return 0;
    case TOML_FLOAT: p->fallback = arena_printf(&c->arena, "%.17g", v->real); return 0;
    case TOML_BOOLEAN: p->fallback = v->boolean ? S("1") : S("0"); return 0;
    case TOML_ARRAY:
    case TOML_TABLE:
    case TOML_TABLES: break;
    }
    return err_set(e, ERR_INVALID, "default must be a string, a number, true or false");
}

static int check_default(const struct config_param *p, struct err *e)
{
    int64_t whole;
    double real;

    for (size_t i = 0; p->choices != NULL && p->fallback.len > 0; i++) {
        if (p->choices[i] == NULL) {
            return err_set(e, ERR_INVALID, "\"%.*s\" is none of its choices",
                           STR_ARG(str_head(p->fallback, 64)));
        }
        if (str_eq(str_from(p->choices[i]), p->fallback)) {
            break;
        }
    }
    if (p->fallback.len == 0 || p->type == CONFIG_PARAM_STRING) {
        return 0;
    }
    return p->type == CONFIG_PARAM_NUMBER
               ? str_to_f64(p->fallback, &real, e)
               : str_to_i64(p->fallback, INT64_MIN, INT64_MAX, &whole, e);
}

static int take_param_key(struct config *c, const struct toml_value *v, struct config_param *p,
                          struct err *e)
{
    if (str_eq(v->key, S("name"))) {
        return take_string(c, v, &p->name, e);
    }
    if (str_eq(v->key, S("description"))) {
        return take_string(c, v, &p->help, e);
    }
    if (str_eq(v->key, S("type"))) {
        return take_type(v, &p->type, e);
    }
    if (str_eq(v->key, S("required"))) {
        return take_boolean(v, &p->required, e);
    }
    if (str_eq(v->key, S("choices"))) {
        return take_choices(c, v, p, e);
    }
    if (str_eq(v->key, S("default"))) {
        return take_default(c, v, p, e);
    }
    return err_set(e, ERR_INVALID,
                   "a parameter has name, type, description, required, default and choices, not "
                   "%.*s",
                   STR_ARG(str_head(v->key, 64)));
}

static int take_param(struct config *c, const struct toml_value *table, struct config_param *p,
                      struct err *e)
{
    p->help = S("");
    for (const struct toml_value *v = table->first; v != NULL; v = v->next) {
        if (take_param_key(c, v, p, e) < 0) {
            return -1;
        }
    }
    if (!is_name(p->name) || str_starts(p->name, S("sandbox_"))) {
        return err_set(
            e, ERR_INVALID,
            "a parameter's name is made of a-z, 0-9 and _, begins with a letter, and is not "
            "sandbox_id or sandbox_name, which every tool has");
    }
    if (p->choices != NULL && p->type != CONFIG_PARAM_STRING) {
        return err_set(e, ERR_INVALID, "only a string has choices");
    }
    return check_default(p, e) < 0 ? err_wrap(e, "default of %.*s", STR_ARG(p->name)) : 0;
}

static int take_params(struct config *c, const struct toml_value *v, struct config_tool *t,
                       struct err *e)
{
    if (v->type != TOML_TABLES) {
        return err_set(e, ERR_INVALID,
                       "parameters are tables in a list: write [[tool.parameters]] before each");
    }
    t->params = arena_alloc(&c->arena, CONFIG_PARAMS_MAX, sizeof(*t->params));
    for (const struct toml_value *p = v->first; p != NULL; p = p->next) {
        if (t->n_params == CONFIG_PARAMS_MAX) {
            return err_set(e, ERR_LIMIT, "a tool has at most %d parameters", CONFIG_PARAMS_MAX);
        }
        if (take_param(c, p, &t->params[t->n_params], e) < 0) {
            return -1;
        }
        for (size_t i = 0; i < t->n_params; i++) {
            if (str_eq(t->params[i].name, t->params[t->n_params].name)) {
                return err_set(e, ERR_INVALID, "two parameters are called %.*s",
                               STR_ARG(t->params[i].name));
            }
        }
        t->n_params++;
    }
    return 0;
}

/* ---- tools --------------------------------------------------------------------------------- */

static int take_key(struct config *c, const struct toml_value *v, struct config_tool *t,
                    struct err *e)
{
    const struct {
        const char *key;
        struct str *out;
    } texts[] = {{"name", &t->name},       {"title", &t->title}, {"description", &t->help},
                 {"command", &t->command}, {"cwd", &t->cwd},     {"resource", &t->resource}};

    for (size_t i = 0; i < COUNTOF(texts); i++) {
        if (str_eq(v->key, str_from(texts[i].key))) {
            return take_string(c, v, texts[i].out, e);
        }
    }
    if (str_eq(v->key, S("timeout"))) {
        t->timeout_s = v->integer;
        return v->type == TOML_INTEGER && v->integer >= 1 && v->integer <= TIMEOUT_MAX
                   ? 0
                   : err_set(e, ERR_INVALID, "timeout must be seconds from 1 to %d", TIMEOUT_MAX);
    }
    if (str_eq(v->key, S("read_only"))) {
        return take_boolean(v, &t->read_only, e);
    }
    if (str_eq(v->key, S("parameters"))) {
        return take_params(c, v, t, e);
    }
    return err_set(
        e, ERR_INVALID,
        "a tool has name, title, description, command, cwd, timeout, read_only, resource and "
        "parameters, not %.*s",
        STR_ARG(str_head(v->key, 64)));
}

/* "scheme://{sandbox_id}/what": it says of which box it is. */
static bool is_resource(struct str uri)
{
    struct str rest;
    struct str scheme = str_cut(uri, ':', &rest);

    return is_name(scheme) && !str_eq(scheme, S("sandbox")) &&
           str_starts(rest, S("//{sandbox_id}/")) && rest.len > S("//{sandbox_id}/").len &&
           !str_has(str_skip(rest, S("//{sandbox_id}/").len), '{');
}

static int check_tool(const struct config *c, const struct config_tool *t, struct err *e)
{
    if (!is_name(t->name)) {
        return err_set(e, ERR_INVALID,
                       "a tool's name is made of a-z, 0-9 and _, begins with a letter, and has at "
                       "most %d of them",
                       NAME_MAX_LEN);
    }
    if (t->help.len == 0 || t->help.len > HELP_MAX || str_trim(t->command).len == 0) {
        return err_set(e, ERR_INVALID,
                       "the tool %.*s needs a command, and a description of at most %d bytes",
                       STR_ARG(t->name), HELP_MAX);
    }
    if (t->resource.len > 0 && !is_resource(t->resource)) {
        return err_set(e, ERR_INVALID,
                       "resource must be an address such as \"benchmark://{sandbox_id}/results\"");
    }
    for (size_t i = 0; i < c->n_tools; i++) {
        if (str_eq(c->tools[i].name, t->name)) {
            return err_set(e, ERR_INVALID, "two tools are called %.*s", STR_ARG(t->name));
        }
        if (t->resource.len > 0 && str_eq(c->tools[i].resource, t->resource)) {
            return err_set(e, ERR_INVALID, "%.*s and %.*s have the same resource",
                           STR_ARG(c->tools[i].name), STR_ARG(t->name));
        }
    }
    return 0;
}

static int take_tool(struct config *c, const struct toml_value *table, struct err *e)
{
    struct config_tool t = {0};

    for (const struct toml_value *v = table->first; v != NULL; v = v->next) {
        if (take_key(c, v, &t, e) < 0) {
            return -1;
        }
    }
    if (check_tool(c, &t, e) < 0) {
        return -1;
    }
    if (c->n_tools == CONFIG_TOOLS_MAX) {
        return err_set(e, ERR_LIMIT, "there can be %d tools", CONFIG_TOOLS_MAX);
    }
    if (c->tools == NULL) {
        c->tools = arena_alloc(&c->arena, CONFIG_TOOLS_MAX, sizeof(*c->tools));
    }
    t.title = t.title.len > 0 ? t.title : t.name;
    c->tools[c->n_tools++] = t;
    return 0;
}

static void problem(struct config *c, const struct err *e)
{
    if (c->tools_problem.len == 0) {
        c->tools_problem = arena_str(&c->arena, str_from(e->msg));
    }
}

void tools_from_file(struct config *c, struct str file, const struct toml_value *v)
{
    struct err e = {0};

    if (v->type != TOML_TABLES) {
        (void)toml_fail(
            &e, file, v->key_at,
            "tools are tables in a list: write [[tool]] on a line of its own before each");
        problem(c, &e);
        return;
    }
    for (const struct toml_value *table = v->first; table != NULL; table = table->next) {
        if (take_tool(c, table, &e) < 0) {
            (void)err_wrap(&e, "%.*s:%d:%d", STR_ARG(file), table->at.line, table->at.column);
            problem(c, &e);
        }
    }
}
