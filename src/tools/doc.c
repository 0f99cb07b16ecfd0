/* doc.c - docs/tools.md from the tables. */
#include <inttypes.h>
#include <string.h>

#include "tools/tool.h"

static const char *type_word(const struct param *p)
{
    switch (p->type) {
    case PARAM_STRING: return "string";
    case PARAM_INTEGER: return "integer";
    case PARAM_NUMBER: return "number";
    case PARAM_BOOLEAN: return "boolean";
    case PARAM_SIZE: return "size";
    case PARAM_STRINGS: return "list of strings";
    case PARAM_ENV: return "object of strings";
    case PARAM_OBJECTS: return "list of objects";
    }
    return "";
}

/* Help is plain text: what Markdown would read as a tag, a column or emphasis is escaped. */
static void add_prose(struct buf *out, const char *text)
{
    for (size_t i = 0; text[i] != '\0'; i++) {
        if (strchr("\\<|*`", text[i]) != NULL) {
            buf_add(out, S("\\"));
        }
        buf_add(out, (struct str){text + i, 1});
    }
}

static void add_default(struct buf *out, const struct param *p)
{
    if (p->required) {
        buf_add(out, S("required"));
    } else if (p->fallback_text != NULL) {
        buf_addf(out, "`%s`", p->fallback_text);
    } else if (p->type == PARAM_BOOLEAN) {
        buf_addf(out, "`%s`", p->fallback ? "true" : "false");
    } else if (p->fallback != 0) {
        buf_addf(out, "`%" PRId64 "`", p->fallback);
    }
}

static void add_param(struct buf *out, const struct param *p)
{
    buf_addf(out, "| `%s` | %s | ", p->name, type_word(p));
    add_default(out, p);
    buf_add(out, S(" | "));
    add_prose(out, p->help);
    for (size_t i = 0; p->choices != NULL && p->choices[i] != NULL; i++) {
        buf_addf(out, "%s`%s`", i == 0 ? ": " : ", ", p->choices[i]);
    }
    for (size_t i = 0; i < p->n_fields; i++) {
        buf_addf(out, "%s`%s` (%s%s: ", i == 0 ? ": " : ", ", p->fields[i].name,
                 type_word(&p->fields[i]), p->fields[i].required ? ", required" : "");
        add_prose(out, p->fields[i].help);
        buf_addc(out, ')');
    }
    if (p->hidden) {
        buf_add(out, S(" (accepted, not shown)"));
    }
    buf_add(out, S(" |\n"));
}

static void add_toolsets(struct buf *out, unsigned set)
{
    static const struct {
        unsigned bit;
        const char *name;
    } names[] = {
        {TOOLSET_DEFAULT, "default"},   {TOOLSET_REMOTE, "remote-sandbox"},
        {TOOLSET_OPEN, "opensandbox"},  {TOOLSET_MCP, "mcp-sandbox"},
        {TOOLSET_ADVANCED, "advanced"},
    };
    const char *before = "Toolsets: ";

    for (size_t i = 0; i < COUNTOF(names); i++) {
        if (set & names[i].bit) {
            buf_addf(out, "%s%s", before, names[i].name);
            before = ", ";
        }
    }
    buf_addf(out, "%sall.", before);
}

static void add_tool(struct buf *out, const struct tool *t)
{
    buf_addf(out, "\n## %s\n\n", t->name);
    add_prose(out, t->help);
    buf_add(out, S("\n\n"));
    add_toolsets(out, t->toolsets);
    buf_addf(out, "%s%s%s\n", t->hints & HINT_READ_ONLY ? " Read-only." : "",
             t->hints & HINT_DESTRUCTIVE ? " Destructive." : "",
             t->hints & HINT_IDEMPOTENT ? " Idempotent." : "");
    if (t->n_params == 0) {
        buf_add(out, S("\nNo parameters.\n"));
        return;
    }
    buf_add(out, S("\n| parameter | type | default | meaning |\n| --- | --- | --- | --- |\n"));
    for (size_t i = 0; i < t->n_params; i++) {
        add_param(out, &t->params[i]);
    }
}

void tools_doc(struct buf *out)
{
    buf_add(out, S("# Tools\n\n"
                   "This file is made from the program's own tables by `anybox tools --markdown`; "
                   "do not edit it.\n\n"
                   "Every tool can be called whatever toolset is shown. Arguments are read "
                   "leniently: numbers and booleans as strings, lists and objects as JSON text, "
                   "null as absent, unknown ones ignored. A wrong one answers `isError` with "
                   "`{\"error\": sentence, \"code\": word}`.\n"));
    for (size_t i = 0; tools[i] != NULL; i++) {
        add_tool(out, tools[i]);
    }
}
