/* fuzz_tool_args.c - any bytes as the arguments of every tool: decoded or refused with a
 * sentence, and what was decoded can be read to its last byte. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "json/js.h"
#include "tools/base64.h"
#include "tools/files.h"
#include "tools/tool.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int ok)
{
    if (!ok) {
        abort();
    }
}

static size_t touch(struct str s)
{
    size_t nuls = 0;

    for (size_t i = 0; i < s.len; i++) {
        nuls += s.p[i] == '\0';
    }
    return nuls;
}

static void check_param(const struct param *p, const char *args)
{
    const void *at = args + p->offset;
    const struct str_list *list = at;
    const struct object_list *objects = at;
    int64_t value;

    switch (p->type) {
    case PARAM_STRING: require(touch(*(const struct str *)at) == 0); break;
    case PARAM_INTEGER:
    case PARAM_SIZE:
        value = *(const int64_t *)at;
        require(value == p->fallback || value == 0 || (value >= p->min && value <= p->max));
        break;
    case PARAM_NUMBER: require(*(const double *)at >= 0); break;
    case PARAM_BOOLEAN: require(*(const unsigned char *)at <= 1); break;
    case PARAM_STRINGS:
    case PARAM_ENV:
        for (size_t i = 0; i < list->n; i++) {
            require(touch(list->items[i]) == 0);
            require(p->type != PARAM_ENV || str_has(list->items[i], '='));
        }
        break;
    case PARAM_OBJECTS:
        for (size_t i = 0; i < p->n_fields * objects->n; i++) {
            size_t item = i / p->n_fields;

            check_param(&p->fields[i % p->n_fields],
                        (const char *)objects->items + item * p->fields_size);
        }
        break;
    }
}

static void decode_with(const struct tool *t, json_t *arguments)
{
    struct arena arena own_arena = {0};
    struct err e = {0};
    const char *args;

    arena_init(&arena, (size_t)256 << 20);
    args = tool_decode(t, arguments, &arena, &e);
    if (args == NULL) {
        require(e.kind == ERR_INVALID && e.msg[0] != '\0');
        return;
    }
    for (size_t i = 0; i < t->n_params; i++) {
        check_param(&t->params[i], args);
    }
}

/* What tools do with text that was decoded. */
static void other_parsers(struct str bytes)
{
    struct arena arena own_arena = {0};
    struct err e = {0};
    struct str out = STR_EMPTY;

    arena_init(&arena, (size_t)256 << 20);
    if (base64_decode(&arena, bytes, &out, &e) == 0) {
        struct str again = STR_EMPTY;

        require(base64_decode(&arena, base64_encode(&arena, out), &again, &e) == 0);
        require(str_eq(out, again));
    }
    require(files_path(&arena, bytes).len > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err e = {0};
    own_json json_t *arguments = js_parse((const char *)data, size, &e);

    for (size_t i = 0; arguments != NULL && tools[i] != NULL; i++) {
        decode_with(tools[i], arguments);
    }
    other_parsers((struct str){(const char *)data, size});
    return 0;
}
