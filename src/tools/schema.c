/* schema.c - a tool's parameter table as the plain JSON Schema that every client takes. */
#include "json/js.h"
#include "tools/tool.h"

static const char *schema_type(enum param_type type)
{
    switch (type) {
    case PARAM_STRING:
    case PARAM_SIZE: return "string";
    case PARAM_INTEGER: return "integer";
    case PARAM_NUMBER: return "number";
    case PARAM_BOOLEAN: return "boolean";
    case PARAM_STRINGS:
    case PARAM_OBJECTS: return "array";
    case PARAM_ENV: return "object";
    }
    return "string";
}

/* What is absent is 0, false or empty unless this says otherwise: each tools/list costs its
 * reader's context, so that is not repeated. */
static json_t *schema_default(const struct param *p)
{
    struct err ignored = {0};
    double number;

    switch (p->type) {
    case PARAM_STRING: return p->fallback_text ? json_string(p->fallback_text) : NULL;
    case PARAM_INTEGER: return p->fallback ? json_integer(p->fallback) : NULL;
    case PARAM_BOOLEAN: return p->fallback ? json_true() : NULL;
    case PARAM_NUMBER:
        if (p->fallback_text == NULL ||
            str_to_f64(str_from(p->fallback_text), &number, &ignored) < 0) {
            return NULL;
        }
        return json_real(number);
    case PARAM_SIZE:
    case PARAM_STRINGS:
    case PARAM_ENV:
    case PARAM_OBJECTS: return NULL;
    }
    return NULL;
}

typedef json_t *schema_fn(const struct param *p);

static json_t *schema_plain(const struct param *p)
{
    json_t *o = json_pack("{s:s}", "type", schema_type(p->type));
    json_t *fallback = p->required ? NULL : schema_default(p);

    (void)json_object_set_new(o, "description", json_string(p->help));
    if (fallback != NULL) {
        (void)json_object_set_new(o, "default", fallback);
    }
    if (p->type == PARAM_STRINGS) {
        (void)json_object_set_new(o, "items", json_pack("{s:s}", "type", "string"));
    }
    if (p->type == PARAM_ENV) {
        (void)json_object_set_new(o, "additionalProperties", json_pack("{s:s}", "type", "string"));
    }
    if (p->choices != NULL) {
        json_t *list = json_array();

        for (size_t i = 0; p->choices[i] != NULL; i++) {
            (void)json_array_append_new(list, json_string(p->choices[i]));
        }
        (void)json_object_set_new(o, "enum", list);
    }
    return o;
}

static json_t *schema_object(const struct param *params, size_t n, schema_fn *schema_of)
{
    json_t *properties = json_object();
    json_t *required = json_array();
    json_t *schema = json_pack("{s:s, s:o}", "type", "object", "properties", properties);

    for (size_t i = 0; i < n; i++) {
        const struct param *p = &params[i];

        if (p->hidden) {
            continue;
        }
        (void)json_object_set_new(properties, p->name, schema_of(p));
        if (p->required) {
            (void)json_array_append_new(required, json_string(p->name));
        }
    }
    if (json_array_size(required) > 0) {
        (void)json_object_set(schema, "required", required);
    }
    json_decref(required);
    return schema;
}

/* In objects there are no more of them. */
static json_t *schema_param(const struct param *p)
{
    json_t *o = schema_plain(p);

    if (p->type == PARAM_OBJECTS) {
        (void)json_object_set_new(o, "items", schema_object(p->fields, p->n_fields, schema_plain));
    }
    return o;
}

json_t *tool_schema(const struct tool *t)
{
    return schema_object(t->params, t->n_params, schema_param);
}
