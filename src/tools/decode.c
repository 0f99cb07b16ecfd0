/*
 * decode.c - arguments into the tool's own struct, by its parameter table.
 *
 * Fallbacks are written first and what was given afterwards, so that a hidden
 * alias may share its offset with the parameter it stands for.
 */
#include "tools/decode.h"

#include <inttypes.h>
#include <math.h>

#include "json/js.h"

const char *decode_type_name(const json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "a list";
    case JSON_STRING: return "a string";
    case JSON_INTEGER:
    case JSON_REAL: return "a number";
    case JSON_TRUE: return "true";
    case JSON_FALSE: return "false";
    case JSON_NULL: return "null";
    }
    return "something else";
}

/* The value itself where it is short, else its type: for "..., not <this>". */
static const char *shown(struct arena *a, const json_t *v)
{
    struct buf text;
    const char *copy;

    if (!json_is_string(v) && !json_is_number(v)) {
        return decode_type_name(v);
    }
    buf_init(&text, DECODE_SHOWN_MAX);
    js_dump(v, &text);
    if (text.cut) {
        copy = json_is_string(v) ? "this long string" : "this long number";
    } else {
        copy = arena_cstr(a, buf_str(&text));
    }
    buf_fini(&text);
    return copy;
}

static struct str range_text(struct arena *a, const struct param *p)
{
    if ((p->min == 0 && p->max == 0) || (p->min == INT64_MIN && p->max == INT64_MAX)) {
        return STR_EMPTY;
    }
    if (p->max == INT64_MAX) {
        return arena_printf(a, " of %" PRId64 " or more", p->min);
    }
    return arena_printf(a, " from %" PRId64 " to %" PRId64, p->min, p->max);
}

static bool in_range(const struct param *p, double v)
{
    if (p->min == 0 && p->max == 0) {
        return true;
    }
    return v >= (double)p->min && (p->max == INT64_MAX || v <= (double)p->max);
}

static bool whole_number(double v, int64_t *out)
{
    if (!(v >= -9007199254740992.0 && v <= 9007199254740992.0) || v != floor(v)) {
        return false;
    }
    *out = (int64_t)v;
    return true;
}

static bool read_integer(const json_t *v, int64_t *out)
{
    struct err ignored = {0};
    double real;

    if (json_is_integer(v)) {
        *out = json_integer_value(v);
        return true;
    }
    if (json_is_real(v)) {
        return whole_number(json_real_value(v), out);
    }
    if (!json_is_string(v)) {
        return false;
    }
    if (str_to_i64(js_str(v), INT64_MIN, INT64_MAX, out, &ignored) == 0) {
        return true;
    }
    return str_to_f64(js_str(v), &real, &ignored) == 0 && whole_number(real, out);
}

static int decode_integer(const struct param *p, const json_t *v, struct arena *a, int64_t *to,
                          struct err *e)
{
    int64_t value;

    if (!read_integer(v, &value) || !in_range(p, (double)value)) {
        return err_set(e, ERR_INVALID, "%s must be an integer%.*s, not %s", p->name,
                       STR_ARG(range_text(a, p)), shown(a, v));
    }
    *to = value;
    return 0;
}

static int decode_number(const struct param *p, const json_t *v, struct arena *a, double *to,
                         struct err *e)
{
    struct err ignored = {0};
    double value = 0;
    bool ok = json_is_number(v);

    if (ok) {
        value = json_number_value(v);
    } else if (json_is_string(v)) {
        ok = str_to_f64(js_str(v), &value, &ignored) == 0;
    }
    if (!ok || value <= (double)p->min || value > (double)p->max) {
        return err_set(e, ERR_INVALID,
                       "%s must be a number above %" PRId64 " and up to %" PRId64 ", not %s",
                       p->name, p->min, p->max, shown(a, v));
    }
    *to = value;
    return 0;
}

static int decode_boolean(const struct param *p, const json_t *v, struct arena *a, bool *to,
                          struct err *e)
{
    struct err ignored = {0};
    int64_t number;

    if (json_is_boolean(v)) {
        *to = json_is_true(v);
        return 0;
    }
    if (json_is_string(v) && str_to_bool(js_str(v), to, &ignored) == 0) {
        return 0;
    }
    if (json_is_number(v) && read_integer(v, &number) && (number == 0 || number == 1)) {
        *to = number == 1;
        return 0;
    }
    return err_set(e, ERR_INVALID, "%s must be true or false, not %s", p->name, shown(a, v));
}

static struct str size_text(struct arena *a, int64_t bytes)
{
    static const char units[] = {'k', 'm', 'g', 't'};
    size_t n = 0;

    while (n < sizeof(units) && bytes >= 1024 && bytes % 1024 == 0) {
        bytes /= 1024;
        n++;
    }
    return n > 0 ? arena_printf(a, "%" PRId64 "%c", bytes, units[n - 1])
                 : arena_printf(a, "%" PRId64, bytes);
}

static int decode_size(const struct param *p, const json_t *v, struct arena *a, int64_t *to,
                       struct err *e)
{
    struct err ignored = {0};
    int64_t value = 0;
    bool ok;

    if (json_is_string(v)) {
        ok = str_to_size(js_str(v), &value, &ignored) == 0;
    } else {
        ok = json_is_number(v) && read_integer(v, &value);
    }
    if (!ok) {
        return err_set(e, ERR_INVALID,
                       "%s must be a size such as \"512m\" or \"2g\" (a bare number is bytes), "
                       "not %s",
                       p->name, shown(a, v));
    }
    if (!in_range(p, (double)value)) {
        return err_set(e, ERR_INVALID,
                       "%s must be from %.*s to %.*s (a bare number is bytes), not %s", p->name,
                       STR_ARG(size_text(a, p->min)), STR_ARG(size_text(a, p->max)), shown(a, v));
    }
    *to = value;
    return 0;
}

/* ---- the whole ----------------------------------------------------------------------- */

static void set_fallback(const struct param *p, void *at)
{
    struct err ignored = {0};

    switch (p->type) {
    case PARAM_STRING: *(struct str *)at = str_from(p->fallback_text); break;
    case PARAM_INTEGER:
    case PARAM_SIZE: *(int64_t *)at = p->fallback; break;
    case PARAM_BOOLEAN: *(bool *)at = p->fallback != 0; break;
    case PARAM_NUMBER:
        if (p->fallback_text != NULL) {
            (void)!str_to_f64(str_from(p->fallback_text), at, &ignored);
        }
        break;
    case PARAM_STRINGS:
    case PARAM_ENV:
    case PARAM_OBJECTS: break;
    }
}

typedef int set_fn(const struct param *p, json_t *v, struct arena *a, void *at, struct err *e);

/* All but objects, in which there are no more of them. */
static int set_plain(const struct param *p, json_t *v, struct arena *a, void *at, struct err *e)
{
    switch (p->type) {
    case PARAM_STRING: return decode_string(p, v, a, at, e);
    case PARAM_INTEGER: return decode_integer(p, v, a, at, e);
    case PARAM_NUMBER: return decode_number(p, v, a, at, e);
    case PARAM_BOOLEAN: return decode_boolean(p, v, a, at, e);
    case PARAM_SIZE: return decode_size(p, v, a, at, e);
    case PARAM_STRINGS: return decode_strings(p, v, a, at, e);
    case PARAM_ENV: return decode_env(p, v, a, at, e);
    case PARAM_OBJECTS: break;
    }
    return err_set(e, ERR_BUG, "%s has a type that nothing decodes", p->name);
}

/* Null is absent; so is "" for what is not text and may be left out. */
static bool given(const struct param *p, const json_t *v)
{
    if (v == NULL || json_is_null(v)) {
        return false;
    }
    return p->type == PARAM_STRING || p->required || !json_is_string(v) ||
           str_trim(js_str(v)).len > 0;
}

static bool any_given(const struct tool *t, const json_t *arguments, size_t offset)
{
    for (size_t i = 0; i < t->n_params; i++) {
        if (t->params[i].offset == offset &&
            given(&t->params[i], js_get(arguments, t->params[i].name))) {
            return true;
        }
    }
    return false;
}

/* Who left out what is required has often given it under another name: the first one that
 * this tool does not know. */
static struct str unknown_text(const struct tool *t, json_t *arguments, struct arena *a)
{
    const char *name;
    size_t len;
    json_t *value;

    json_object_keylen_foreach (arguments, name, len, value) {
        struct str key = {name, len};
        size_t i = 0;
        while (i < t->n_params && !str_eq(key, str_from(t->params[i].name))) {
            i++;
        }
        if (i == t->n_params) {
            return arena_printf(a, "; there is no argument \"%.*s\"",
                                STR_ARG(str_head(key, DECODE_SHOWN_MAX)));
        }
    }
    return STR_EMPTY;
}

static int decode_object(const struct tool *t, json_t *arguments, struct arena *arena, char *args,
                         set_fn *set, struct err *e)
{
    for (size_t i = 0; i < t->n_params; i++) {
        set_fallback(&t->params[i], args + t->params[i].offset);
    }
    for (size_t i = 0; i < t->n_params; i++) {
        const struct param *p = &t->params[i];
        json_t *v = js_get(arguments, p->name);

        if (given(p, v)) {
            if (set(p, v, arena, args + p->offset, e) < 0) {
                return -1;
            }
        } else if (p->required && !any_given(t, arguments, p->offset)) {
            return err_set(e, ERR_INVALID, "%s is required: %s%.*s", p->name, p->help,
                           STR_ARG(unknown_text(t, arguments, arena)));
        }
    }
    return 0;
}

/* A list of objects, or one of them. */
static int decode_objects(const struct param *p, json_t *v, struct arena *a, struct object_list *to,
                          struct err *e)
{
    const struct tool fields = {.params = p->fields, .n_params = p->n_fields};
    json_t *list own_json = json_is_string(v) ? decode_nested(v) : json_incref(v);
    bool one = json_is_object(list);
    size_t n = one ? 1 : json_array_size(list);
    char *items = arena_alloc(a, n, p->fields_size);

    if (!one && !json_is_array(list)) {
        return err_set(e, ERR_INVALID, "%s must be a list of objects, not %s", p->name,
                       decode_type_name(v));
    }
    for (size_t i = 0; i < n; i++) {
        json_t *item = one ? list : json_array_get(list, i);

        if (!json_is_object(item)) {
            return err_set(e, ERR_INVALID, "%s[%zu] must be an object, not %s", p->name, i,
                           decode_type_name(item));
        }
        if (decode_object(&fields, item, a, items + (i * p->fields_size), set_plain, e) < 0) {
            return err_wrap(e, "%s[%zu]", p->name, i);
        }
    }
    *to = (struct object_list){.items = items, .n = n};
    return 0;
}

static int set_value(const struct param *p, json_t *v, struct arena *a, void *at, struct err *e)
{
    return p->type == PARAM_OBJECTS ? decode_objects(p, v, a, at, e) : set_plain(p, v, a, at, e);
}

const void *tool_decode(const struct tool *t, json_t *arguments, struct arena *arena, struct err *e)
{
    own_json json_t *nested = NULL;
    char *args = arena_alloc(arena, 1, t->args_size ? t->args_size : 1);

    if (json_is_string(arguments)) {
        nested = decode_nested(arguments);
        if (nested != NULL) {
            arguments = nested;
        }
    }
    if (arguments != NULL && !json_is_object(arguments) && !json_is_null(arguments)) {
        (void)err_set(e, ERR_INVALID, "arguments must be an object of named values, not %s",
                      decode_type_name(arguments));
        return NULL;
    }
    return decode_object(t, arguments, arena, args, set_value, e) < 0 ? NULL : args;
}
