/* How the clients in the field are told about a server on stdio. */
#include <jansson.h>

#include "demo.h"
#include "json/js.h"

/* One word for a POSIX shell. */
static void add_word(struct buf *to, struct str s)
{
    bool plain = s.len > 0;

    for (size_t i = 0; i < s.len; i++) {
        char c = s.p[i];
        plain = plain && ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || str_has(S("/._-+@%:,"), c));
    }
    if (plain) {
        buf_add(to, s);
        return;
    }
    buf_addc(to, '\'');
    for (size_t i = 0; i < s.len; i++) {
        if (s.p[i] == '\'') {
            buf_add(to, S("'\\''"));
        } else {
            buf_addc(to, s.p[i]);
        }
    }
    buf_addc(to, '\'');
}

/* A JSON string; TOML's basic strings read the same. */
static void add_string(struct buf *to, struct str s)
{
    json_t *v own_json = js_string(s);

    js_dump(v, to);
}

void demo_clients(struct buf *to, struct str path)
{
    struct buf add own_buf = {0};

    buf_add(to, S("To give it to an agent, paste one of these:\n\n  Claude Code\n"
                  "    claude mcp add anybox -- "));
    add_word(to, path);
    buf_add(to, S("\n\n  Codex (or the two lines in ~/.codex/config.toml)\n"
                  "    codex mcp add anybox -- "));
    add_word(to, path);
    buf_add(to, S("\n\n    [mcp_servers.anybox]\n    command = "));
    add_string(to, path);
    buf_add(to, S("\n\n  Cursor (~/.cursor/mcp.json)\n"
                  "    {\"mcpServers\": {\"anybox\": {\"command\": "));
    add_string(to, path);
    buf_add(to, S("}}}\n\n  VS Code (or .vscode/mcp.json)\n    code --add-mcp "));
    buf_init(&add, 64u << 10);
    buf_add(&add, S("{\"name\":\"anybox\",\"command\":"));
    add_string(&add, path);
    buf_addc(&add, '}');
    add_word(to, buf_str(&add));
    buf_add(to, S("\n\n    {\"servers\": {\"anybox\": {\"type\": \"stdio\", \"command\": "));
    add_string(to, path);
    buf_add(to, S("}}}\n\n"));
}
