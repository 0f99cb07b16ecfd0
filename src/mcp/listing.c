/* listing.c - the result of tools/list, once as text for each revision. */
#include "base/buf.h"
#include "json/js.h"
#include "mcp/exchange.h"
#include "mcp/mcp.h"
#include "tools/custom.h"

static void add_member(struct buf *out, const char *name, const char *value)
{
    buf_addf(out, ",\"%s\":", name);
    rpc_add_string(out, str_from(value));
}

static void add_hint(struct buf *out, const struct tool *t, const char *name, enum tool_hint hint)
{
    buf_addf(out, "\"%s\":%s", name, (t->hints & (unsigned)hint) != 0 ? "true" : "false");
}

/* All four are told, because the defaults of the protocol are the worst case. */
static void add_annotations(struct buf *out, const struct tool *t)
{
    buf_add(out, S(",\"annotations\":{"));
    add_hint(out, t, "readOnlyHint", HINT_READ_ONLY);
    buf_addc(out, ',');
    add_hint(out, t, "destructiveHint", HINT_DESTRUCTIVE);
    buf_addc(out, ',');
    add_hint(out, t, "idempotentHint", HINT_IDEMPOTENT);
    buf_addc(out, ',');
    add_hint(out, t, "openWorldHint", HINT_OPEN_WORLD);
    buf_addc(out, '}');
}

static void add_tool(struct buf *out, const struct tool *t, struct str schema, enum revision rev)
{
    buf_add(out, S("{\"name\":"));
    rpc_add_string(out, str_from(t->name));
    if (revision_has(rev, REV_TITLES) && t->title != NULL) {
        add_member(out, "title", t->title);
    }
    add_member(out, "description", t->help);
    buf_add(out, S(",\"inputSchema\":"));
    buf_add(out, schema);
    if (revision_has(rev, REV_ANNOTATIONS)) {
        add_annotations(out, t);
    }
    /* Claude Code loads tools on demand; this one is what a model looks for first. */
    if (revision_has(rev, REV_TITLES) && str_eq(str_from(t->name), S("exec_bash"))) {
        buf_add(out, S(",\"_meta\":{\"anthropic/alwaysLoad\":true}"));
    }
    buf_addc(out, '}');
}

static void add_tool_everywhere(struct buf *lists, const struct tool *t)
{
    json_t *schema own_json = tool_schema(t);
    struct buf text own_buf = {0};

    buf_init(&text, MCP_MESSAGE_MAX);
    js_dump(schema, &text);
    for (int r = REV_NONE + 1; r < REV_COUNT; r++) {
        buf_add(&lists[r], lists[r].len == 0 ? S("{\"tools\":[") : S(","));
        add_tool(&lists[r], t, buf_str(&text), (enum revision)r);
    }
}

static void end_list(struct buf *list, enum revision rev)
{
    if (list->len == 0) {
        buf_add(list, S("{\"tools\":["));
    }
    buf_addc(list, ']');
    if (revision_has(rev, REV_CACHE_HINTS)) {
        buf_add(list, S(CACHE_HINTS));
    }
    result_end(list, rev);
}

void listing_build(struct mcp *m)
{
    struct buf lists[REV_COUNT];

    for (int r = REV_NONE; r < REV_COUNT; r++) {
        buf_init(&lists[r], MCP_MESSAGE_MAX);
    }
    for (size_t i = 0; tools[i] != NULL; i++) {
        if ((tools[i]->toolsets & m->toolsets) != 0 &&
            tool_allowed(tools[i], m->services->config)) {
            add_tool_everywhere(lists, tools[i]);
        }
    }
    for (size_t i = 0; i < custom_count(m->custom); i++) {
        if (tool_allowed(custom_at(m->custom, i), m->services->config)) {
            add_tool_everywhere(lists, custom_at(m->custom, i));
        }
    }
    for (int r = REV_NONE + 1; r < REV_COUNT; r++) {
        end_list(&lists[r], (enum revision)r);
        m->lists[r] = lists[r];
    }
}
