#include "config/json_file.h"

#include "json/js.h"

static struct toml_value *value_of(struct arena *a, const char *key, const json_t *v)
{
    struct toml_value *out = arena_new(a, struct toml_value);

    out->key = key != NULL ? arena_str(a, str_from(key)) : STR_EMPTY;
    out->key_at = out->at = (struct toml_place){1, 1};
    if (json_is_object(v)) {
        out->type = TOML_TABLE;
    } else if (json_is_array(v)) {
        out->type = TOML_ARRAY;
    } else if (json_is_integer(v)) {
        out->type = TOML_INTEGER;
        out->integer = json_integer_value(v);
    } else if (json_is_real(v)) {
        out->type = TOML_FLOAT;
        out->real = json_real_value(v);
    } else if (json_is_boolean(v)) {
        out->type = TOML_BOOLEAN;
        out->boolean = json_is_true(v);
    } else {
        out->type = TOML_STRING;
        out->string = arena_str(a, js_str(v));
    }
    return out;
}

static void append(struct toml_value *to, struct toml_value *item)
{
    if (to->last != NULL) {
        to->last->next = item;
    } else {
        to->first = item;
    }
    to->last = item;
}

static void fill(struct arena *a, struct toml_value *to, json_t *v, int depth)
{
    const char *key;
    json_t *item;
    void *at;

    for (size_t i = 0; i < json_array_size(v); i++) {
        append(to, value_of(a, NULL, json_array_get(v, i)));
    }
    for (at = json_object_iter(v); at != NULL; at = json_object_iter_next(v, at)) {
        key = json_object_iter_key(at);
        item = json_object_iter_value(at);
        if (json_is_null(item)) {
            continue;
        }
        struct toml_value *one = value_of(a, key, item);

        append(to, one);
        if (depth > 0) {
            fill(a, one, item, depth - 1);
        }
    }
}

struct toml_value *json_file_parse(struct arena *a, struct str file, struct str text, struct err *e)
{
    json_t *v own_json = js_parse(text.p, text.len, e);
    struct toml_value *root;

    if (v == NULL) {
        (void)err_wrap(e, "%.*s", STR_ARG(file));
        return NULL;
    }
    if (!json_is_object(v)) {
        (void)err_set(e, ERR_INVALID, "%.*s: a configuration is a JSON object with sections",
                      STR_ARG(file));
        return NULL;
    }
    root = value_of(a, NULL, v);
    fill(a, root, v, 2);
    return root;
}
