/* decode_text.c - string, list and environment arguments; see decode.h. */
#include <ctype.h>
#include <inttypes.h>

#include "json/js.h"
#include "tools/decode.h"

#define STRING_MAX    (1ll << 20)       /* bytes of a string parameter that names no maximum */
#define ENV_ENTRY_MAX ((128 << 10) - 1) /* the kernel takes no longer argument or variable */

static int check_text(const struct param *p, struct str text, struct err *e)
{
    int64_t max = p->max > 0 ? p->max : STRING_MAX;

    if (text.len > (uint64_t)max) {
        return err_set(e, ERR_INVALID, "%s is %zu bytes long; at most %" PRId64 " are accepted%s%s",
                       p->name, text.len, max, p->too_long ? ": " : "",
                       p->too_long ? p->too_long : "");
    }
    if (str_has(text, '\0')) {
        return err_set(e, ERR_INVALID, "%s must not contain NUL characters", p->name);
    }
    return 0;
}

static int decode_choice(const struct param *p, struct str text, struct str *to, struct err *e)
{
    char list[256];
    size_t used = 0;

    for (size_t i = 0; p->choices[i] != NULL; i++) {
        if (str_eq_nocase(str_trim(text), str_from(p->choices[i]))) {
            *to = str_from(p->choices[i]);
            return 0;
        }
        if (used < sizeof(list)) {
            int n = snprintf(list + used, sizeof(list) - used, "%s\"%s\"", i ? ", " : "",
                             p->choices[i]);
            used += n > 0 ? (size_t)n : 0;
        }
    }
    return err_set(e, ERR_INVALID, "%s must be one of %s, not \"%.*s\"", p->name, list,
                   STR_ARG(str_head(text, DECODE_SHOWN_MAX)));
}

int decode_string(const struct param *p, const json_t *v, struct arena *a, struct str *to,
                  struct err *e)
{
    struct str text = js_str(v);

    if (!json_is_string(v)) {
        return err_set(e, ERR_INVALID, "%s must be a string, not %s", p->name, decode_type_name(v));
    }
    if (check_text(p, text, e) < 0) {
        return -1;
    }
    if (text.len == 0 && (p->fallback_text != NULL || (p->choices != NULL && !p->required))) {
        return 0; /* old clients send "" for what they leave open */
    }
    if (p->choices != NULL) {
        return decode_choice(p, text, to, e);
    }
    *to = arena_str(a, text);
    return 0;
}

json_t *decode_nested(const json_t *v)
{
    struct str text = str_trim(js_str(v));
    struct err ignored = {0};

    if (text.len < 2 || (text.p[0] != '[' && text.p[0] != '{')) {
        return NULL;
    }
    return js_parse(text.p, text.len, &ignored);
}

static int decode_items(const struct param *p, const json_t *v, struct arena *a,
                        struct str_list *to, struct err *e)
{
    size_t n = json_array_size(v);
    struct str *items = arena_alloc(a, n + 1, sizeof(*items));

    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_array_get(v, i);

        if (!json_is_string(item)) {
            return err_set(e, ERR_INVALID, "%s must be a list of strings; item %zu is %s", p->name,
                           i + 1, decode_type_name(item));
        }
        if (check_text(p, js_str(item), e) < 0) {
            return -1;
        }
        items[i] = arena_str(a, js_str(item));
    }
    *to = (struct str_list){.items = items, .n = n};
    return 0;
}

int decode_strings(const struct param *p, const json_t *v, struct arena *a, struct str_list *to,
                   struct err *e)
{
    own_json json_t *nested = NULL;
    own_json json_t *single = NULL;

    if (json_is_string(v)) {
        nested = decode_nested(v);
        if (!json_is_array(nested)) {
            single = json_pack("[s%]", js_str(v).p, js_str(v).len);
        }
        v = single ? single : nested;
    }
    if (!json_is_array(v)) {
        return err_set(e, ERR_INVALID, "%s must be a list of strings, not %s", p->name,
                       decode_type_name(v));
    }
    return decode_items(p, v, a, to, e);
}

/* ---- environments -------------------------------------------------------------------- */

static bool variable_name(struct str key)
{
    for (size_t i = 0; i < key.len; i++) {
        unsigned char c = (unsigned char)key.p[i];

        if (c > 127 || !(isalpha(c) || c == '_' || (i > 0 && isdigit(c)))) {
            return false;
        }
    }
    return key.len > 0;
}

static int check_variable(const struct param *p, struct str key, struct str entry, struct err *e)
{
    if (!variable_name(key)) {
        return err_set(e, ERR_INVALID,
                       "%s: \"%.*s\" is not a variable name; letters, digits and \"_\" are "
                       "accepted, not beginning with a digit",
                       p->name, STR_ARG(str_head(key, DECODE_SHOWN_MAX)));
    }
    if (entry.len > ENV_ENTRY_MAX) {
        return err_set(e, ERR_INVALID, "%s: %.*s is %zu bytes long; at most %d are accepted",
                       p->name, STR_ARG(str_head(key, DECODE_SHOWN_MAX)), entry.len, ENV_ENTRY_MAX);
    }
    if (str_has(entry, '\0')) {
        return err_set(e, ERR_INVALID, "%s: %.*s must not contain NUL characters", p->name,
                       STR_ARG(str_head(key, DECODE_SHOWN_MAX)));
    }
    return 0;
}

static int join_variable(const struct param *p, struct str key, const json_t *value,
                         struct arena *a, struct str *entry, struct err *e)
{
    struct buf joined own_buf = {0};

    buf_init(&joined, 2u << 20);
    buf_add(&joined, key);
    buf_addc(&joined, '=');
    if (json_is_string(value)) {
        buf_add(&joined, js_str(value));
    } else if (json_is_number(value) || json_is_boolean(value)) {
        js_dump(value, &joined);
    } else {
        return err_set(e, ERR_INVALID, "%s: %.*s must be a string, not %s", p->name,
                       STR_ARG(str_head(key, DECODE_SHOWN_MAX)), decode_type_name(value));
    }
    if (check_variable(p, key, buf_str(&joined), e) < 0) {
        return -1;
    }
    *entry = arena_str(a, buf_str(&joined));
    return 0;
}

static int decode_env_object(const struct param *p, json_t *object, struct arena *a,
                             struct str_list *to, struct err *e)
{
    struct str *items = arena_alloc(a, json_object_size(object) + 1, sizeof(*items));
    const char *key;
    json_t *value;
    size_t n = 0;

    json_object_foreach (object, key, value) {
        if (json_is_null(value)) {
            continue;
        }
        if (join_variable(p, str_from(key), value, a, &items[n], e) < 0) {
            return -1;
        }
        n++;
    }
    *to = (struct str_list){.items = items, .n = n};
    return 0;
}

int decode_env(const struct param *p, json_t *v, struct arena *a, struct str_list *to,
               struct err *e)
{
    own_json json_t *nested = NULL;
    struct str_list list = {0};

    if (json_is_string(v)) {
        nested = decode_nested(v);
        if (json_is_object(nested)) {
            v = nested;
        }
    }
    if (json_is_object(v)) {
        return decode_env_object(p, v, a, to, e);
    }
    if (!json_is_array(v) && !json_is_string(v)) {
        return err_set(e, ERR_INVALID, "%s must be an object such as {\"KEY\": \"value\"}, not %s",
                       p->name, decode_type_name(v));
    }
    if (decode_strings(p, v, a, &list, e) < 0) {
        return -1;
    }
    for (size_t i = 0; i < list.n; i++) {
        struct str rest;
        struct str key = str_cut(list.items[i], '=', &rest);

        if (rest.p == NULL) {
            return err_set(e, ERR_INVALID,
                           "%s: \"%.*s\" has no \"=\"; an object such as {\"KEY\": \"value\"} or a "
                           "list of \"KEY=value\" is accepted",
                           p->name, STR_ARG(str_head(key, DECODE_SHOWN_MAX)));
        }
        if (check_variable(p, key, list.items[i], e) < 0) {
            return -1;
        }
    }
    *to = list;
    return 0;
}
