/* resource.c - which resource has an address, and which prompt a name. */
#include "tools/resource.h"

#include "base/percent.h"
#include "json/js.h"
#include "tools/prompt.h"

#define URI_MAX  16384
#define JSON_MAX (1u << 20)

const struct prompt *prompt_find(struct str name)
{
    for (size_t i = 0; prompts[i] != NULL; i++) {
        if (str_eq(name, str_from(prompts[i]->name))) {
            return prompts[i];
        }
    }
    return NULL;
}

bool prompt_offered(const struct prompt *p, unsigned toolsets, const struct config *config)
{
    for (size_t i = 0; p->tools != NULL && p->tools[i] != NULL; i++) {
        const struct tool *t = tool_find(str_from(p->tools[i]));

        if (t == NULL || (t->toolsets & toolsets) == 0 || !tool_allowed(t, config)) {
            return false;
        }
    }
    return true;
}

bool resource_is_template(const struct resource *r)
{
    return str_has(str_from(r->uri), '{');
}

/* What a name stands for goes up to the first `stop` (the character behind the name; 0: the
 * end), and never over a '/' or a '?'. */
static bool take_value(struct str *uri, char stop, struct str *value)
{
    size_t n = 0;

    while (n < uri->len && uri->p[n] != stop && uri->p[n] != '/' && uri->p[n] != '?') {
        n++;
    }
    *value = str_head(*uri, n);
    *uri = str_skip(*uri, n);
    return n > 0;
}

/* "{+path}" and "{?query}", which are the last in a template. */
static bool take_rest(char kind, struct str *uri, struct str *value)
{
    bool is_query = kind == '?';

    if (is_query ? uri->len > 0 && uri->p[0] != '?' : uri->len == 0) {
        return false;
    }
    *value = str_skip(*uri, is_query ? 1 : 0);
    *uri = STR_EMPTY;
    return true;
}

static bool matches(const char *pattern, struct str uri, struct str values[RESOURCE_VALUES])
{
    size_t n = 0;
    char kind;

    while (*pattern != '\0') {
        if (*pattern != '{') {
            if (uri.len == 0 || uri.p[0] != *pattern) {
                return false;
            }
            uri = str_skip(uri, 1);
            pattern++;
            continue;
        }
        kind = pattern[1];
        while (*pattern != '\0' && *pattern != '}') {
            pattern++;
        }
        pattern += *pattern == '}';
        if (n == RESOURCE_VALUES ||
            !(kind == '+' || kind == '?' ? take_rest(kind, &uri, &values[n])
                                         : take_value(&uri, *pattern, &values[n]))) {
            return false;
        }
        n++;
    }
    return uri.len == 0;
}

const struct resource *resource_find(struct str uri, struct str values[RESOURCE_VALUES])
{
    for (size_t i = 0; resources[i] != NULL; i++) {
        if (matches(resources[i]->uri, uri, values)) {
            return resources[i];
        }
    }
    return NULL;
}

const struct resource *resource_of_template(struct str uri)
{
    for (size_t i = 0; resources[i] != NULL; i++) {
        if (str_eq(uri, str_from(resources[i]->uri))) {
            return resources[i];
        }
    }
    return NULL;
}

json_t *resource_text(struct str uri, const char *mime, struct str text)
{
    return json_pack("[{s:o, s:s, s:o}]", "uri", js_string(uri), "mimeType", mime, "text",
                     js_string(text));
}

json_t *resource_json(struct str uri, const json_t *value)
{
    struct buf text own_buf = {0};

    buf_init(&text, JSON_MAX);
    js_dump(value, &text);
    return resource_text(uri, "application/json", buf_str(&text));
}

struct str resource_file_uri(struct arena *a, struct str box_id, struct str path)
{
    struct buf uri own_buf = {0};

    buf_init(&uri, URI_MAX);
    buf_add(&uri, S("sandbox://"));
    percent_add(&uri, box_id, false);
    buf_add(&uri, S("/files"));
    percent_add(&uri, path, true);
    return arena_str(a, buf_str(&uri));
}
