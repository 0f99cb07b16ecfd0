/* resource.c - which resource has an address, and which prompt a name. */
#include "tools/resource.h"

#include "tools/prompt.h"

const struct prompt *prompt_find(struct str name)
{
    for (size_t i = 0; prompts[i] != NULL; i++) {
        if (str_eq(name, str_from(prompts[i]->name))) {
            return prompts[i];
        }
    }
    return NULL;
}

bool resource_is_template(const struct resource *r)
{
    return str_has(str_from(r->uri), '{');
}

/* What a name stands for goes up to the first `stop` (the character behind the name; 0: the
 * end), and never over a '/'. */
static bool take_value(struct str *uri, char stop, struct str *value)
{
    size_t n = 0;

    while (n < uri->len && uri->p[n] != stop && uri->p[n] != '/') {
        n++;
    }
    *value = str_head(*uri, n);
    *uri = str_skip(*uri, n);
    return n > 0;
}

static bool matches(const char *pattern, struct str uri, struct str values[RESOURCE_VALUES])
{
    size_t n = 0;

    while (*pattern != '\0') {
        if (*pattern != '{') {
            if (uri.len == 0 || uri.p[0] != *pattern) {
                return false;
            }
            uri = str_skip(uri, 1);
            pattern++;
            continue;
        }
        while (*pattern != '\0' && *pattern != '}') {
            pattern++;
        }
        pattern += *pattern == '}';
        if (n == RESOURCE_VALUES || !take_value(&uri, *pattern, &values[n++])) {
            return false;
        }
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
