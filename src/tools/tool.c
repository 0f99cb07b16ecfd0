/* tool.c - find a tool, show it, run it, and turn whatever happened into an answer. */
#include "tools/tool.h"

#include "base/clock.h"
#include "base/plain.h"
#include "core/metrics.h"
#include "json/js.h"
#include "tools/record.h"

static const struct {
    const char *name;
    unsigned bit;
} toolset_names[] = {
    {"default", TOOLSET_DEFAULT}, {"remote-sandbox", TOOLSET_REMOTE}, {"opensandbox", TOOLSET_OPEN},
    {"mcp-sandbox", TOOLSET_MCP}, {"advanced", TOOLSET_ADVANCED},     {"all", TOOLSET_ALL},
};

static unsigned toolset_bit(struct str name)
{
    for (size_t i = 0; i < COUNTOF(toolset_names); i++) {
        if (str_eq_nocase(name, str_from(toolset_names[i].name))) {
            return toolset_names[i].bit;
        }
    }
    return 0;
}

int toolset_parse(struct str name, unsigned *out, struct err *e)
{
    unsigned set = 0;
    struct str rest = name;

    while (rest.p != NULL) {
        struct str word = str_trim(str_cut(rest, ',', &rest));
        unsigned bit = toolset_bit(word);

        if (word.len == 0) {
            continue;
        }
        if (bit == 0) {
            return err_set(e, ERR_INVALID,
                           "there is no toolset \"%.*s\"; there are default, remote-sandbox, "
                           "opensandbox, mcp-sandbox, advanced and all, several with commas",
                           STR_ARG(str_head(word, 60)));
        }
        set |= bit;
    }
    if (set == 0) {
        return err_set(e, ERR_INVALID,
                       "the toolset is empty; there are default, remote-sandbox, opensandbox, "
                       "mcp-sandbox, advanced and all, several with commas");
    }
    *out = set;
    return 0;
}

const struct tool *tool_find(struct str name)
{
    size_t low = 0, high = 0;

    while (tools[high] != NULL) {
        high++;
    }
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        int order = str_cmp(name, str_from(tools[mid]->name));

        if (order == 0) {
            return tools[mid];
        }
        if (order < 0) {
            high = mid;
        } else {
            low = mid + 1;
        }
    }
    return NULL;
}

int call_require(struct call *c, unsigned can, struct err *e)
{
    if ((c->can & can) == can) {
        return 0;
    }
    c->need = can;
    return err_set(e, ERR_UNSUPPORTED, "this client cannot be asked what is needed to go on");
}

/* What a box or a program said may be in the message: it is made harmless like output. */
static json_t *error_answer(const struct err *e)
{
    struct buf plain own_buf = {0};
    json_t *o = json_object();

    buf_init(&plain, 4 * sizeof(e->msg));
    plain_text(str_from(e->msg), &plain);
    (void)json_object_set_new(o, "error", js_string(buf_str(&plain)));
    (void)json_object_set_new(o, "code", json_string(err_kind_name(e->kind)));
    return o;
}

/* Appends the answer; false when it does not fit. */
static bool dump(const json_t *answer, struct buf *text)
{
    size_t start = text->len;

    js_dump(answer, text);
    if (!text->cut && text->len - start <= TOOL_TEXT_MAX) {
        return true;
    }
    text->len = start;
    text->cut = false;
    return false;
}

/* Running with defaults that the operator did not choose would be worse than not running,
 * so only list_sandboxes works then, and tells why. */
static int check_config(const struct tool *t, const struct call *c, struct err *e)
{
    const struct config *config = c->services->config;

    if (config->problem.len == 0 || str_eq(str_from(t->name), S("list_sandboxes"))) {
        return 0;
    }
    return err_set(e, ERR_INVALID,
                   "the configuration has an error: %.*s. Correct it and restart the server; "
                   "list_sandboxes and `anybox doctor` say more",
                   STR_ARG(config->problem));
}

/* Tools that shape their own error say its code in it, like all others. */
static enum err_kind kind_of(const json_t *answer)
{
    struct str code = js_str(js_get(answer, "code"));

    for (int kind = ERR_NONE + 1; kind < ERR_KINDS; kind++) {
        if (str_eq(code, str_from(err_kind_name((enum err_kind)kind)))) {
            return (enum err_kind)kind;
        }
    }
    return ERR_BUG;
}

static void drop_content(struct call *c)
{
    json_decref(c->content);
    c->content = NULL;
}

bool tool_allowed(const struct tool *t, const struct config *config)
{
    return config->read_only == 0 || (t->hints & HINT_READ_ONLY) != 0;
}

static int check_allowed(const struct tool *t, const struct call *c, struct err *e)
{
    if (tool_allowed(t, c->services->config)) {
        return 0;
    }
    return err_set(
        e, ERR_DENIED,
        "this server is read-only (server.read_only): %s is not available; sandboxes can "
        "be listed and their files read",
        t->name);
}

static int run_checked(const struct tool *t, struct call *c, json_t *arguments, json_t **answer,
                       struct err *e)
{
    const void *args;

    if (check_allowed(t, c, e) < 0) {
        return -1;
    }
    args = tool_decode(t, arguments, c->ctx->arena, e);
    if (args == NULL || check_config(t, c, e) < 0) {
        return -1;
    }
    return t->run(c, args, answer, e);
}

static void run_tool(const struct tool *t, struct call *c, json_t *arguments, struct buf *text)
{
    struct err e = {0};
    own_json json_t *answer = NULL;
    own_json json_t *too_large = NULL;
    struct record record;

    if (record_begin(&record, t, c, arguments, &e) < 0 ||
        run_checked(t, c, arguments, &answer, &e) < 0) {
        json_decref(answer);
        answer = error_answer(&e);
        c->is_error = true;
        c->asked = false;
        drop_content(c);
    }
    if (c->is_error) {
        c->failed = kind_of(answer);
    }
    if (!c->asked && !dump(c->content != NULL ? c->content : answer, text)) {
        (void)err_set(&e, ERR_LIMIT,
                      "the answer of %s is larger than %u bytes; ask for less at once (fewer "
                      "entries, bytes or characters)",
                      t->name, TOOL_TEXT_MAX);
        too_large = error_answer(&e);
        c->is_error = true;
        c->failed = ERR_LIMIT;
        drop_content(c);
        (void)dump(too_large, text);
    }
    record_end(&record);
}

void tool_call(const struct tool *t, struct call *c, json_t *arguments, struct buf *text,
               bool *is_error)
{
    struct metrics *metrics = c->services->metrics;
    int64_t began_us = clock_mono_us();

    c->tool = t;
    c->is_error = false;
    c->asked = false;
    c->failed = ERR_NONE;
    c->box_id = STR_EMPTY;
    metrics_begin(metrics);
    run_tool(t, c, arguments, text);
    metrics_end(metrics, t->name, c->failed, clock_mono_us() - began_us);
    *is_error = c->is_error;
}
